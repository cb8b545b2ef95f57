"""A tour of the knowledge base with a sample folder."""
