"""Bringing a database to this program's schema: once, in order, under the write lock, per plugin."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb_framework import api
from kb_framework.api import tables
from kb_framework.api.spaces import show_active_space
from kb_framework.api.times import now
from kb_framework.errors import StoreUnusable

if TYPE_CHECKING:
    from kb_framework.storage.store import Store, Tx

HOST = "host"
# The steps that rebuild the full text: before those of plugins, which may search in theirs, and they must succeed.
FULL_TEXT = "full text"
# While another database is being copied into this one, it says so in the place of a plugin; its name tells which database.
UNFINISHED_COPY = "unfinished copy"


def create_base(tx: Tx) -> None:
    tables.metadata.create_all(tx.connection)
    tx.execute(
        sa.insert(tables.organizations).values(
            id=api.DEFAULT_ORGANIZATION, name="default", created_at=now()
        )
    )
    tx.engine.create_text(tx.connection)


def moved(tx: Tx) -> None:
    """A step whose tables a plugin creates now; older databases have them already."""


def create_side_index(tx: Tx) -> None:
    """Create what the engine keeps beside its indexes, and an index that finds documents by path for filters."""
    tx.engine.upgrade_indexes(tx.connection)
    tx.execute(sa.text("CREATE INDEX documents_by_path ON documents (organization_id, path)"))


def create_access(tx: Tx) -> None:
    """Create users. Keys and roles, which older databases have from this step, are created by a plugin."""
    tables.access_metadata.create_all(tx.connection)


def index_partitions(tx: Tx) -> None:
    """Let vec0 find vectors of older databases by organization."""
    tx.engine.upgrade_indexes(tx.connection)


def leave_out_row_numbers(tx: Tx) -> None:
    """Index the rows of an organization without their numbers, where the engine adds those itself."""
    tx.engine.upgrade_indexes(tx.connection)


def create_integrity(tx: Tx) -> None:
    tables.integrity_metadata.create_all(tx.connection)


def index_values(tx: Tx) -> None:
    """Let documents be counted and filtered by their values, and by when they were added, without reading the rows."""
    tx.execute(sa.text("DROP INDEX IF EXISTS documents_by_type"))
    columns = "organization_id, doc_type, media, lang, trust, created_at"
    tx.execute(sa.text(f"CREATE INDEX IF NOT EXISTS documents_by_value ON documents ({columns})"))


Step = tuple[int, str, Callable[["Tx"], None]]

HOST_MIGRATIONS: list[Step] = [
    (1, "base", create_base),
    (2, "limits", moved),
    (3, "side index", create_side_index),
    (4, "access", create_access),
    (5, "active vectors", show_active_space),
    (6, "partitions", index_partitions),
    (7, "integrity", create_integrity),
    (8, "row numbers", leave_out_row_numbers),
    (9, "values", index_values),
]


def migrate(
    store: Store,
    plugin_steps: dict[str, list[api.Migration]],
    on_failure: Callable[[str, Exception], None],
    before_first: Callable[[], None] = lambda: None,
) -> list[str]:
    """Apply what is due; returns `plugin/version name` of each step. A newer database is refused untouched.

    `before_first` is called under the write lock before the first step of an empty database, and may refuse.

    A plugin whose step fails is rolled back alone and handed to `on_failure`; the host's own steps, indexing among them, must
    succeed.
    """
    steps = _all_steps(plugin_steps)
    with store.read() as tx:
        if not _due(steps, _applied(tx)):
            return []
    done: list[str] = []
    with store.write() as tx:
        if not sa.inspect(tx.connection).has_table(tables.migrations.name):
            before_first()
            tx.engine.prepare(tx.connection)
            tables.migrations.create(tx.connection)
        for plugin, due in itertools.groupby(_due(steps, _applied(tx)), key=lambda pair: pair[0]):
            try:
                # Not `tx.savepoint`, which needs the tables that may be made here.
                with tx.connection.begin_nested():
                    done += [_apply(tx, plugin, step) for _, step in due]
            except Exception as error:
                if plugin in {HOST, FULL_TEXT}:
                    raise
                on_failure(plugin, error)
    return done


def require_current(tx: Tx, plugin_steps: dict[str, list[api.Migration]]) -> None:
    """Refuse a database that this program, with these plugins, would have to migrate, or does not know all of."""
    steps, applied = _all_steps(plugin_steps), _applied(tx)
    if HOST not in applied:
        raise StoreUnusable(
            "this is no database of a knowledge base",
            hint="name its file: kb.sqlite in the data folder",
        )
    if due := _due(steps, applied):
        names = ", ".join(f"{plugin}/{version} {name}" for plugin, (version, name, _) in due)
        raise StoreUnusable(
            f"the database was written by an older version; these steps are due: {names}",
            hint="open it once with this program: kb doctor, with KB_DATA_DIR set to its folder",
        )
    if unknown := sorted(applied.keys() - steps.keys()):
        raise StoreUnusable(
            f"the database has tables of plugins that are not loaded here: {', '.join(unknown)}",
            hint="install or enable them first",
        )


def _all_steps(plugin_steps: dict[str, list[api.Migration]]) -> dict[str, list[Step]]:
    steps: dict[str, list[Step]] = {HOST: HOST_MIGRATIONS}
    full_text_first = sorted(plugin_steps.items(), key=lambda pair: (pair[0] != FULL_TEXT, pair[0]))
    for plugin, migrations in full_text_first:
        ordered = sorted(migrations, key=lambda migration: migration.version)
        steps[plugin] = [
            (m.version, m.name, functools.partial(_run_target, m.target)) for m in ordered
        ]
    return steps


def _run_target(target: str, tx: Tx) -> None:
    api.resolve(target)(tx)


def _apply(tx: Tx, plugin: str, step: Step) -> str:
    version, name, run = step
    run(tx)
    row = {"plugin": plugin, "version": version, "name": name, "applied_at": now()}
    tx.execute(sa.insert(tables.migrations).values(row))
    return f"{plugin}/{version} {name}"


def _applied(tx: Tx) -> dict[str, int]:
    if not sa.inspect(tx.connection).has_table(tables.migrations.name):
        return {}
    latest = sa.select(tables.migrations.c.plugin, sa.func.max(tables.migrations.c.version))
    return {row[0]: row[1] for row in tx.execute(latest.group_by(tables.migrations.c.plugin))}


def _due(steps: dict[str, list[Step]], applied: dict[str, int]) -> list[tuple[str, Step]]:
    if UNFINISHED_COPY in applied:
        raise StoreUnusable(
            "another database is being copied into this one, and not all of it is here",
            hint="kb migrate-store, as it was called before, goes on where it stopped",
        )
    for plugin, known in steps.items():
        newest = max((version for version, _, _ in known), default=0)
        if applied.get(plugin, 0) > newest:
            raise StoreUnusable(
                f"the database was written by a newer version (schema {applied[plugin]} of {plugin!r}, "
                f"this program knows {newest}); nothing was changed",
                hint="install the newer version, or choose another folder with KB_DATA_DIR",
            )
    return [
        (plugin, step)
        for plugin, known in steps.items()
        for step in known
        if step[0] > applied.get(plugin, 0)
    ]


def by_plugin(pairs: Iterable[tuple[str, api.Migration]]) -> dict[str, list[api.Migration]]:
    grouped: dict[str, list[api.Migration]] = {}
    for plugin, migration in pairs:
        grouped.setdefault(migration.recorded_as or plugin, []).append(migration)
    return grouped
