"""Legal holds: documents that must not change, and sealed ones that nobody finds."""
