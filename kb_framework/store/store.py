"""Transactions: one writer, many readers, each bound to an organization."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from kb_framework.api import DEFAULT_ORGANIZATION
from kb_framework.errors import PluginFailed
from kb_framework.store.backend import Backend


class Tx:
    """A transaction of one organization."""

    def __init__(self, connection: sa.Connection, backend: Backend, organization_id: str) -> None:
        self.connection = connection
        self.backend = backend
        self.organization_id = organization_id

    def execute(self, statement: sa.Executable, parameters: Any = None) -> sa.CursorResult:
        return self.connection.execute(statement, parameters)  # type: ignore[return-value]

    def scalar(self, statement: sa.Executable) -> Any:
        return self.connection.execute(statement).scalar()

    def rows(self, statement: sa.Executable) -> list[Mapping[str, Any]]:
        return [dict(row) for row in self.connection.execute(statement).mappings()]

    def savepoint(self) -> sa.NestedTransaction:
        return self.connection.begin_nested()

    def owns(self, table: sa.Table) -> sa.ColumnElement[bool]:
        """The condition that a row belongs to this transaction's organization."""
        return table.c.organization_id == self.organization_id


class Store:
    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @contextmanager
    def read(self, organization_id: str = DEFAULT_ORGANIZATION) -> Iterator[Tx]:
        """A consistent view. It never takes the write lock."""
        with self._translated(), self.backend.reader.begin() as connection:
            yield Tx(connection, self.backend, organization_id)

    @contextmanager
    def write(self, organization_id: str = DEFAULT_ORGANIZATION) -> Iterator[Tx]:
        """All or nothing: it commits at the end, or rolls back on any exception."""
        with self._translated(), self.backend.writer.begin() as connection:
            yield Tx(connection, self.backend, organization_id)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (exc.DBAPIError, exc.TimeoutError, PluginFailed) as error:
            # A full disk that a plugin's statement met is no fault of the plugin.
            known = self.backend.explain(error.__cause__ if isinstance(error, PluginFailed) else error)
            if known is None:
                raise
            raise known from error

    def close(self) -> None:
        self.backend.close()
