"""Moving full text and vectors into partitions by organization, or back into plain tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import sqlalchemy as sa

from kb_framework.api.parts import Store, Tx
from kb_framework.api.spaces import show_active_space
from kb_framework.api.tables import embedding_spaces
from kb_framework.errors import Busy
from kb_postgres import full_text, vectors
from kb_postgres.partitions import NOTE, NOTED_AT, partitions

# The schema of the former tables while they are moved.
_BEFORE = "kb_before"


def partition(store: Store, number: int, report: Callable[[str], None]) -> bool:
    """Divide full text and vectors into so many partitions by organization; return False where they are already."""
    with store.write() as tx:
        connection = tx.connection
        if partitions(connection) == number:
            return False
        # A view holds on to the table that it shows.
        vectors.show(connection, None)
        create_words, index_words = full_text.create_words, full_text.index_words
        makers = {
            "chunks_fts": (partial(create_words, connection), partial(index_words, connection))
        }
        spaces = sa.select(embedding_spaces.c.index_name, embedding_spaces.c.dimensions)
        for index, dimensions in tx.execute(spaces).all():
            makers[index] = (
                partial(vectors.create_vector_table, connection, index, dimensions),
                partial(vectors.index_vectors, connection, index),
            )
        _repartition(tx, number, makers, report)
        show_active_space(tx)
        return True


def _repartition(
    tx: Tx,
    number: int,
    makers: dict[str, tuple[Callable[[], None], Callable[[], None]]],
    report: Callable[[str], None],
) -> None:
    """Move tables into so many partitions. A maker makes an empty table, and then its indexes."""
    connection = tx.connection
    _alone(connection)
    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
    note = "NULL" if number == 1 else f"'{NOTE}{number}'"
    connection.exec_driver_sql(f"COMMENT ON TABLE {NOTED_AT} IS {note}")
    # In another schema they, and their indexes and partitions, are in nobody's way.
    connection.exec_driver_sql(f"CREATE SCHEMA {_BEFORE}")
    for name, (make_table, make_indexes) in makers.items():
        parts = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = to_regclass(%s)"
        for part in [name, *connection.exec_driver_sql(parts, (name,)).scalars().all()]:
            connection.exec_driver_sql(f"ALTER TABLE {part} SET SCHEMA {_BEFORE}")
        make_table()
        moved = connection.exec_driver_sql(
            f"INSERT INTO {name} SELECT * FROM {_BEFORE}.{name}"
        ).rowcount
        make_indexes()
        connection.exec_driver_sql(f"ANALYZE {name}")
        report(f"{name}: {moved} rows")
    connection.exec_driver_sql(f"DROP SCHEMA {_BEFORE} CASCADE")
    tx.corpus_changed(everywhere=True)
    _alone(connection)


def _alone(connection: sa.Connection) -> None:
    """A search that began before the tables were moved would find nothing in them, and not say so."""
    others = (
        "SELECT DISTINCT application_name FROM pg_stat_activity WHERE datname = current_database() "
        "AND starts_with(application_name, 'kb ') AND application_name <> current_setting('application_name')"
    )
    if found := connection.exec_driver_sql(others).scalars().all():
        raise Busy(
            f"{len(found)} other processes of kb use the database; nothing was changed",
            hint=f"stop all engines and workers first; by process and machine: {', '.join(sorted(found))}",
        )
