"""Full text and vectors in partitions by organization, if somebody wants them so: `kb db partition N`.

These are the large tables, and they are made from others, so they have no foreign keys and no number that must be unique without
the organization. Documents and chunks have both, which PostgreSQL does not allow in partitions: they stay whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb_framework.errors import Busy

if TYPE_CHECKING:
    from kb_framework.store.store import Tx

# How many there are to be is noted at a table that nothing ever drops.
_NOTED_AT = "chunks"
_NOTE = "kb:partitions="
_BEFORE = "kb_before"


def partitions(connection: sa.Connection) -> int:
    """In how many partitions full text and vectors are kept; 1 is a plain table."""
    noted = connection.exec_driver_sql(f"SELECT obj_description(to_regclass('{_NOTED_AT}'), 'pg_class')").scalar()
    return int(noted.removeprefix(_NOTE)) if noted and noted.startswith(_NOTE) else 1


def create_table(connection: sa.Connection, name: str, columns: str, options: str = "") -> None:
    """A table with a column organization_id; what is missing of it is made."""
    number = partitions(connection)
    if number == 1:
        connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) {options}")
        return
    connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) PARTITION BY HASH (organization_id)")
    for part in range(number):
        values = f"FOR VALUES WITH (MODULUS {number}, REMAINDER {part})"
        connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS {name}_p{part} PARTITION OF {name} {values} {options}")


def repartition(
    tx: Tx,
    number: int,
    makers: dict[str, tuple[Callable[[], None], Callable[[], None]]],
    told: Callable[[str], None],
) -> None:
    """Move tables into so many partitions. A maker makes an empty table, and then its indexes."""
    connection = tx.connection
    _alone(connection)
    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
    note = "NULL" if number == 1 else f"'{_NOTE}{number}'"
    connection.exec_driver_sql(f"COMMENT ON TABLE {_NOTED_AT} IS {note}")
    # In another schema they, and their indexes and partitions, are in nobody's way.
    connection.exec_driver_sql(f"CREATE SCHEMA {_BEFORE}")
    for name, (make_table, make_indexes) in makers.items():
        parts = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = to_regclass(%s)"
        for part in [name, *connection.exec_driver_sql(parts, (name,)).scalars().all()]:
            connection.exec_driver_sql(f"ALTER TABLE {part} SET SCHEMA {_BEFORE}")
        make_table()
        moved = connection.exec_driver_sql(f"INSERT INTO {name} SELECT * FROM {_BEFORE}.{name}").rowcount
        make_indexes()
        connection.exec_driver_sql(f"ANALYZE {name}")
        told(f"{name}: {moved} rows")
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
