"""Full text and vectors in partitions by organization, if somebody wants them so: `kb db partition N`.

These are the large tables, and they are made from others, so they have no foreign keys and no number that must be unique without
the organization. Documents and chunks have both, which PostgreSQL does not allow in partitions: they stay whole.
"""

from __future__ import annotations

import sqlalchemy as sa

# How many there are to be is noted at a table that nothing ever drops.
NOTED_AT = "chunks"
NOTE = "kb:partitions="


def partitions(connection: sa.Connection) -> int:
    """In how many partitions full text and vectors are kept; 1 is a plain table."""
    noted = connection.exec_driver_sql(
        f"SELECT obj_description(to_regclass('{NOTED_AT}'), 'pg_class')"
    ).scalar()
    return int(noted.removeprefix(NOTE)) if noted and noted.startswith(NOTE) else 1


def create_table(connection: sa.Connection, name: str, columns: str, options: str = "") -> None:
    """A table with a column organization_id; what is missing of it is made."""
    number = partitions(connection)
    if number == 1:
        connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) {options}")
        return
    connection.exec_driver_sql(
        f"CREATE TABLE IF NOT EXISTS {name} ({columns}) PARTITION BY HASH (organization_id)"
    )
    for part in range(number):
        values = f"FOR VALUES WITH (MODULUS {number}, REMAINDER {part})"
        connection.exec_driver_sql(
            f"CREATE TABLE IF NOT EXISTS {name}_p{part} PARTITION OF {name} {values} {options}"
        )
