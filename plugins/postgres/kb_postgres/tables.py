"""The tables of full text, and the condition that searches them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

fts = sa.table(
    "chunks_fts",
    sa.column("seq", sa.BigInteger),
    sa.column("organization_id", sa.String),
    sa.column("length", sa.Integer),
    sa.column("words"),
)
totals = sa.table(
    "chunks_fts_totals",
    sa.column("organization_id", sa.String),
    sa.column("chunks", sa.BigInteger),
    sa.column("length", sa.BigInteger),
)


class _TsQuery(sa.types.UserDefinedType[str]):
    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "TSQUERY"


_TSQUERY = _TsQuery()


def has(query: str) -> sa.ColumnElement[bool]:
    """The condition that a row of full text matches a query."""
    asked = sa.cast(sa.literal(query, sa.Text), _TSQUERY)
    return fts.c.words.op("@@", is_comparison=True, return_type=sa.Boolean())(asked)
