"""Bulk: one call, any number of documents, no accident."""
