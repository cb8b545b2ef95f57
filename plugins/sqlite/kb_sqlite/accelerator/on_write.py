"""What a writing transaction leaves for the side index: rows of the tail, and marks on what segments hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from kb_framework.api.engine import once
from kb_framework.api.tables import chunks
from kb_sqlite.accelerator.tables import TEXT, side_indexes, side_removed, side_segments, side_tail

_LIVE = sa.select(side_indexes.c.id).where(
    side_indexes.c.organization_id == sa.bindparam("owner"),
    side_indexes.c.source == sa.bindparam("source"),
    side_indexes.c.live,
)


class Changes:
    """Costs one look where the organization has no side index."""

    def has(self, connection: sa.Connection, source: str, organization_id: str) -> bool:
        """Whether an organization's index is complete."""
        asked = {"owner": organization_id, "source": source}
        return (
            once(
                connection,
                ("side index", source, organization_id),
                lambda: connection.execute(_LIVE, asked).first(),
            )
            is not None
        )

    def text_added(
        self, connection: sa.Connection, organization_id: str, rows: Sequence[tuple[Any, ...]]
    ) -> None:
        """Chunks by number, with the words of title, headings and body as they are indexed."""
        index = _index(connection, TEXT, organization_id)
        if index is None:
            return
        from kb_sqlite.accelerator.encoding import encode

        added = "INSERT OR REPLACE INTO side_tail(side_id, seq, data) VALUES (?, ?, ?)"
        numbers, words = [row[0] for row in rows], [row[1:] for row in rows]
        connection.exec_driver_sql(
            added,
            [(index, number, data) for number, data in zip(numbers, encode(words), strict=True)],
        )

    def vectors_added(
        self,
        connection: sa.Connection,
        index: str,
        organization_id: str,
        rows: Iterable[tuple[int, bytes]],
    ) -> None:
        number = _index(connection, index, organization_id)
        if number is not None:
            added = "INSERT OR REPLACE INTO side_tail(side_id, seq, data) VALUES (?, ?, ?)"
            connection.exec_driver_sql(added, [(number, seq, vector) for seq, vector in rows])

    def removed(
        self, connection: sa.Connection, source: str, organization_id: str, gone: sa.Select
    ) -> None:
        """Must be told while the chunks are still in their table."""
        index = _index(connection, source, organization_id)
        if index is None:
            return
        before = sa.select(
            sa.func.coalesce(sa.func.max(side_segments.c.id), 0) + 1
        ).scalar_subquery()
        marked = sa.select(sa.literal(index), chunks.c.seq, before).where(chunks.c.seq.in_(gone))
        replace = sa.insert(side_removed).prefix_with("OR REPLACE")
        connection.execute(replace.from_select(["side_id", "seq", "before"], marked))
        connection.execute(
            sa.delete(side_tail).where(side_tail.c.side_id == index, side_tail.c.seq.in_(gone))
        )

    def forget(
        self, connection: sa.Connection, source: str, organization_id: str | None = None
    ) -> bool:
        """A source is dropped, for one organization or all: what was derived from it goes too; whether there was anything."""
        wanted = sa.select(side_indexes.c.id).where(side_indexes.c.source == source)
        if organization_id is not None:
            wanted = wanted.where(side_indexes.c.organization_id == organization_id)
        numbers = list(connection.scalars(wanted))
        for number in numbers:
            forget_index(connection, number)
        return bool(numbers)


def _index(connection: sa.Connection, source: str, organization_id: str) -> int | None:
    mine = (side_indexes.c.organization_id == organization_id, side_indexes.c.source == source)
    return connection.execute(sa.select(side_indexes.c.id).where(*mine)).scalar()


def forget_index(connection: sa.Connection, number: int) -> None:
    for table in (side_tail, side_removed, side_segments):
        connection.execute(sa.delete(table).where(table.c.side_id == number))
    connection.execute(sa.delete(side_indexes).where(side_indexes.c.id == number))


def forget_all(connection: sa.Connection) -> None:
    """For a database that has come without its segments."""
    if sa.inspect(connection).has_table(side_indexes.name):
        for number in list(connection.scalars(sa.select(side_indexes.c.id))):
            forget_index(connection, number)
