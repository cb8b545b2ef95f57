"""What other plugins may use of the SQLite store: opening a file that is not the knowledge base's own."""

from __future__ import annotations

from kb_sqlite.accelerator.on_write import forget_all as forget_accelerator
from kb_sqlite.accelerator.tables import metadata as _accelerator
from kb_sqlite.engine import SqliteEngine, dbapi2
from kb_sqlite.full_text import full_texts as _full_texts

# Tables of data that is derived from others, and rebuilt where it is missing.
DERIVED_TABLES = frozenset({_full_texts.name, *_accelerator.tables})

__all__ = ["DERIVED_TABLES", "SqliteEngine", "dbapi2", "forget_accelerator"]
