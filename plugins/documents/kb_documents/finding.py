"""Finding a document by what a person calls it: its title, or a path that is longer or shorter than the one it has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Annotated, Any

import sqlalchemy as sa
from pydantic import Field

from kb_documents.tables import sources
from kb_framework.api.models import Text
from kb_framework.api.parts import Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import documents
from kb_framework.errors import InvalidInput, KBError, NotFound

# Documents that an error names.
_LISTED = 10


def is_called(name: str) -> sa.ColumnElement[bool]:
    """Return the condition that a document has this title or path.

    Whole folders and names must agree: `notes/a.md` is `~/notes/a.md`, and not `b-notes/a.md`.
    """
    parts = name.strip("/").split("/")
    shorter = {name, *("/".join(parts[start:]) for start in range(len(parts)))}
    return (
        (sa.func.lower(documents.c.title) == sa.func.lower(name))
        | among(documents.c.path, shorter)
        | documents.c.path.endswith(f"/{name}", autoescape=True)
    )


def named(value: Annotated[Text, Field(min_length=1, max_length=1000)]) -> sa.ColumnElement[bool]:
    return is_near(value)


def is_near(text: str) -> sa.ColumnElement[bool]:
    """Return the condition that a document's title or path, or the path of a copy, contains a text."""
    texts = (documents.c.title, documents.c.path, sources.c.path)
    in_title, in_path, in_source = (column.icontains(text, autoescape=True) for column in texts)
    copies = sa.select(sources.c.document_id).where(in_source)
    return in_title | in_path | documents.c.id.in_(copies)


def find_id(tx: Tx, name: str, visible: Sequence[sa.ColumnElement[bool]]) -> int:
    """Return the id of the one document that is called so; raise, with a list, for none or several."""
    found = _named(tx, is_called(name), visible)
    if len(found) == 1:
        return found[0]["id"]
    if found:
        count = tx.scalar(
            sa.select(sa.func.count()).where(tx.owns(documents), is_called(name), *visible)
        )
        raise InvalidInput(f"{count} documents are called {name!r}; give an id:\n{_listed(found)}")
    raise _not_found(name, _named(tx, is_near(name) | is_near(PurePath(name).name), visible))


def _not_found(name: str, near: Sequence[Any]) -> KBError:
    meant = f"; these are near:\n{_listed(near)}" if near else ""
    return NotFound(
        f"no document has the id, path or title {name!r}{meant}",
        hint=None if near else "kb list lists documents",
    )


def _named(
    tx: Tx, where: sa.ColumnElement[bool], visible: Sequence[sa.ColumnElement[bool]]
) -> Sequence[Any]:
    columns = (documents.c.id, documents.c.title, documents.c.path)
    query = sa.select(*columns).where(tx.owns(documents), where, *visible)
    return tx.rows(query.order_by(documents.c.id).limit(_LISTED))


def _listed(rows: Sequence[Any]) -> str:
    return "\n".join(f"    {row['id']}  {row['path'] or row['title']}" for row in rows)
