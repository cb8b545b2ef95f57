"""Readers of document, mail, archive and markup formats."""
