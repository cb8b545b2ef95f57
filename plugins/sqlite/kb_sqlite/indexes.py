"""Indexes of the host's tables that SQLite needs otherwise than the host declares them."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.api.tables import chunks, documents, jobs


def leave_out_row_numbers(connection: sa.Connection) -> None:
    """Index an organization's rows without their numbers, which SQLite adds to every index itself.

    With the number twice in an index, the planner looks up every pair of two lists of numbers, `seq IN (…) AND seq IN (…)`.
    """
    for table in (documents, chunks, jobs):
        name = f"{table.name}_by_organization"
        connection.exec_driver_sql(f"DROP INDEX IF EXISTS {name}")
        connection.exec_driver_sql(f"CREATE INDEX {name} ON {table.name} (organization_id)")
