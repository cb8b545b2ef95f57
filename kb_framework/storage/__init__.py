"""The store: published tables, transactions, full text and vectors, behind one interface for every engine."""
