"""The SQLite store: one file, FTS5, vec0, and the accelerator for large organizations."""
