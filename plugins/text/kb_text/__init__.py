"""Text: its words as they are indexed and searched for, its language, its encoding, and what kind of file it came in."""
