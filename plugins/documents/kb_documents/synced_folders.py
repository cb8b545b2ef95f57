"""Folders that were synced: the options to sync them by, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import sqlalchemy as sa

from kb_documents.folders import INSIDE
from kb_documents.source_models import (
    FolderIn,
    FolderPage,
    FolderRoot,
    MoveIn,
    MoveOut,
    RecalledFolder,
    SyncedFolder,
)
from kb_documents.source_paths import take_path
from kb_documents.tables import sources, synced_folders
from kb_framework.api import Actor
from kb_framework.api.paging import PageIn
from kb_framework.api.parts import Store, Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import documents
from kb_framework.errors import InvalidInput, NotFound

_FIELDS = [column for column in synced_folders.c if column.name != "organization_id"]


class SyncedFolders:
    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self, asked: PageIn, actor: Actor) -> FolderPage:
        page = asked.wanted
        with self._store.read(actor.organization_id) as tx:
            mine = tx.owns(synced_folders)
            total = tx.scalar(sa.select(sa.func.count()).select_from(synced_folders).where(mine))
            rows = tx.rows(
                page.cut(sa.select(*_FIELDS).where(mine).order_by(synced_folders.c.root))
            )
        return FolderPage(data=[SyncedFolder(**row) for row in rows], meta=page.meta(total))

    def recall(self, wanted: FolderRoot, actor: Actor) -> RecalledFolder:
        with self._store.read(actor.organization_id) as tx:
            found = _find(tx, wanted.root)
        return RecalledFolder(folder=SyncedFolder(**found) if found else None)

    def remember(self, folder: FolderIn, actor: Actor) -> SyncedFolder:
        given = folder.model_dump(exclude_none=True)
        with self._store.write(actor.organization_id) as tx:
            known = _find(tx, folder.root)
            if known is None:
                row = {
                    "tags": [],
                    "include": [],
                    "exclude": [],
                    **given,
                    "name": _free_name(tx, folder.root),
                }
                tx.execute(
                    sa.insert(synced_folders).values(organization_id=tx.organization_id, **row)
                )
            else:
                tx.execute(sa.update(synced_folders).where(_is(tx, folder.root)).values(**given))
            return SyncedFolder(**_find(tx, folder.root) or {})

    def forget(self, folder: FolderRoot, actor: Actor) -> None:
        root = folder.root
        with self._store.write(actor.organization_id) as tx:
            if not tx.execute(sa.delete(synced_folders).where(_is(tx, root))).rowcount:
                raise NotFound(f"{root} is not a synced folder", hint="kb folders lists them")

    def move(self, wanted: MoveIn, actor: Actor) -> MoveOut:
        """Let documents follow a folder that has another name or place now."""
        root, old, new = (text.rstrip("/") for text in (wanted.root, wanted.old, wanted.new))
        if new != root and not new.startswith(root + "/"):
            raise InvalidInput(f"new: {new} is not below {root}", field="new")
        with self._store.write(actor.organization_id) as tx:
            self._move_memory(tx, old, new)
            known = _find(tx, root)
            name = known["name"] if known else _free_name(tx, root, moved_from=old)
            rows = tx.rows(
                sa.select(sources.c.source, sources.c.path, sources.c.document_id).where(
                    _below(tx, old)
                )
            )
            targets = {row["source"]: new + row["source"][len(old) :] for row in rows}
            taken = set(
                tx.connection.scalars(
                    sa.select(sources.c.source).where(
                        tx.owns(sources), among(sources.c.source, targets.values())
                    )
                )
            )
            moved = [
                {
                    "was": row["source"],
                    "now": target,
                    "number": row["document_id"],
                    "before": row["path"],
                }
                | {"after": name + target[len(root) :].replace(INSIDE, "/")}
                for row in rows
                if (target := targets[row["source"]]) not in taken
            ]
            if not moved:
                return MoveOut(moved=0)
            to_source = sa.update(sources).where(
                tx.owns(sources), sources.c.source == sa.bindparam("was")
            )
            tx.execute(
                to_source.values(source=sa.bindparam("now"), path=sa.bindparam("after")), moved
            )
            shown = (
                documents.c.id == sa.bindparam("number"),
                documents.c.path == sa.bindparam("before"),
            )
            tx.execute(
                sa.update(documents)
                .where(tx.owns(documents), *shown)
                .values(path=sa.bindparam("after")),
                moved,
            )
            for row in moved:
                if INSIDE in row["now"]:
                    # Its metadata names the path of the file that it is inside of.
                    take_path(tx, row["number"])
            return MoveOut(moved=len(moved))

    def _move_memory(self, tx: Tx, old: str, new: str) -> None:
        """Move what is remembered of the folder and of those below it."""
        query = sa.select(synced_folders.c.root).where(tx.owns(synced_folders))
        for root in list(tx.connection.scalars(query)):
            if root != old and not root.startswith(old + "/"):
                continue
            place = new + root[len(old) :]
            if _find(tx, place):
                tx.execute(sa.delete(synced_folders).where(_is(tx, root)))
            else:
                moved = {"root": place, "name": _free_name(tx, place, moved_from=root)}
                tx.execute(sa.update(synced_folders).where(_is(tx, root)).values(**moved))


def of_any_machine(row: Mapping[str, Any], _: Mapping[int, int]) -> Mapping[str, Any]:
    """A folder as it is imported: which machine has it is not known."""
    return {**row, "host": None}


def _is(tx: Tx, root: str) -> sa.ColumnElement[bool]:
    return tx.owns(synced_folders) & (synced_folders.c.root == root)


def _find(tx: Tx, root: str) -> dict[str, Any] | None:
    return next(iter(tx.rows(sa.select(*_FIELDS).where(_is(tx, root)))), None)


def _below(tx: Tx, folder: str) -> sa.ColumnElement[bool]:
    return tx.owns(sources) & sources.c.source.startswith(folder.rstrip("/") + "/", autoescape=True)


def _free_name(tx: Tx, root: str, moved_from: str = "") -> str:
    """The end of a folder's path, as long as needed to tell it from other folders."""
    own = _below(tx, root) | _below(tx, moved_from) if moved_from else _below(tx, root)
    parts = [part for part in PurePosixPath(root).parts if part != "/"]
    for length in range(1, len(parts) + 1):
        name = "/".join(parts[-length:])
        remembered = sa.select(synced_folders.c.root).where(
            tx.owns(synced_folders),
            synced_folders.c.name == name,
            synced_folders.c.root.not_in([root, moved_from]),
        )
        used = sa.select(sources.c.source).where(
            tx.owns(sources), sources.c.path.startswith(name + "/", autoescape=True), ~own
        )
        if tx.scalar(sa.select(sa.exists(remembered) | sa.exists(used))) is not True:
            return name
    return "/".join(parts)
