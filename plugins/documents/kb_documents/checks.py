"""The doctor's check of documents' metadata."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy import exc

from kb_framework.api import Finding
from kb_framework.api.nesting import PROBLEM
from kb_framework.api.parts import Store
from kb_framework.api.tables import documents
from kb_framework.errors import KBError

_NAMED = 20
_ROWS_AT_ONCE = 1000
_CURE = "give it other metadata (PATCH /api/v1/documents/{0}) or remove it (kb remove {0})"


class MetadataCheck:
    """Find metadata that is stored but cannot be shown."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check(self) -> Iterator[Finding]:
        try:
            found = list(self._unreadable())
        except (KBError, exc.DatabaseError):
            # The check of the database reports it.
            return
        for number, words in found[:_NAMED]:
            message = f"the metadata of document {number}: {words}"
            yield Finding("warning", "metadata", f"{message}; {_CURE.format(number)}")
        if len(found) > _NAMED:
            yield Finding("warning", "metadata", f"and of {len(found) - _NAMED} more documents")

    def _unreadable(self) -> Iterator[tuple[int, str]]:
        query = sa.select(documents.c.id, documents.c.metadata).order_by(documents.c.id)
        with self._store.read() as tx:
            rows = tx.connection.execute(query, execution_options={"yield_per": _ROWS_AT_ONCE})
            for number, value in rows:
                if not isinstance(value, dict):
                    yield number, "this is not a JSON object, so it cannot be shown"
                elif PROBLEM in value:
                    yield number, str(value[PROBLEM])
