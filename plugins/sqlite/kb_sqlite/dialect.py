"""SQLite's spelling of the pieces of SQL that every engine spells in its own way."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

from kb_framework.api.sql import Forbidden, JsonObject, JsonValues, NewUuid


@compiles(JsonValues, "sqlite")
def _json_values(element: JsonValues, compiler: Any, **options: Any) -> str:
    return f"(SELECT value FROM json_each({compiler.process(element.document, **options)}))"


@compiles(NewUuid, "sqlite")
def _new_uuid(_: NewUuid, __: Any, **___: Any) -> str:
    return (
        "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || "
        "substr(hex(randomblob(2)), 2) || '-' || substr('89ab', 1 + (abs(random()) % 4), 1) || "
        "substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))"
    )


@compiles(JsonObject, "sqlite")
def _json_object(element: JsonObject, compiler: Any, **options: Any) -> str:
    parts = []
    for name, value in zip(element.names, element.values, strict=True):
        shown = compiler.process(value, **options)
        # SQLite stores booleans as numbers.
        is_boolean = isinstance(value.type, sa.Boolean)
        shown = f"json(iif({shown}, 'true', 'false'))" if is_boolean else shown
        parts.append(f"'{name}', {shown}")
    return f"json_object({', '.join(parts)})"


@compiles(Forbidden, "sqlite")
def _forbidden(element: Forbidden, _: Any, **__: Any) -> str:
    return (
        f"CREATE TRIGGER {element.name} BEFORE {element.verb} ON {element.table} "
        f"BEGIN SELECT RAISE(ABORT, '{element.message}'); END"
    )
