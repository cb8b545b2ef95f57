"""How PostgreSQL spells the pieces of SQL that every engine spells its own way."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

from kb_framework.api.sql import Forbidden, JsonObject, JsonValues, NewUuid


@compiles(JsonValues, "postgresql")
def _json_values(element: JsonValues, compiler: Any, **options: Any) -> str:
    cast = "::bigint" if element.numbers else ""
    return f"(SELECT value{cast} FROM json_array_elements_text({compiler.process(element.document, **options)}::json))"


@compiles(NewUuid, "postgresql")
def _new_uuid(_: NewUuid, __: Any, **___: Any) -> str:
    return "gen_random_uuid()::text"


@compiles(JsonObject, "postgresql")
def _json_object(element: JsonObject, compiler: Any, **options: Any) -> str:
    pairs = zip(element.names, element.values, strict=True)
    parts = [f"'{name}', {compiler.process(value, **options)}" for name, value in pairs]
    return f"json_build_object({', '.join(parts)})"


@compiles(Forbidden, "postgresql")
def _forbidden(element: Forbidden, _: Any, **__: Any) -> str:
    message = element.message.replace("'", "''")
    return (
        f"CREATE OR REPLACE FUNCTION {element.name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION USING MESSAGE = '{message}', ERRCODE = 'integrity_constraint_violation'; END $$; "
        f"CREATE TRIGGER {element.name} BEFORE {element.verb} ON {element.table} "
        f"FOR EACH ROW EXECUTE FUNCTION {element.name}()"
    )


class VectorBytes(sa.TypeDecorator[bytes]):
    """A vector as pgvector sends it (a header, then numbers with the high byte first) becomes plain little-endian float32."""

    impl = sa.LargeBinary
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Any) -> bytes | None:
        return None if value is None else from_sent(value)


def from_sent(sent: bytes) -> bytes:
    return b"" if not sent else _swapped(bytes(sent[4:]))


def to_text(vector: bytes) -> str:
    """A vector of float32 as pgvector reads it."""
    from array import array

    return str(array("f", vector).tolist())


def _swapped(numbers: bytes) -> bytes:
    from array import array

    swapped = array("f", numbers)
    swapped.byteswap()
    return swapped.tobytes()
