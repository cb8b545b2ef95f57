"""The mutation pipeline: every change to existing documents or chunks, one or ten thousand, goes through `Mutation.run`.

select → freeze → guards → threshold → apply → observers in the transaction → job → commit → observers after it.
Additions ask the guards too: `Mutation.require_addition`, once the new rows are in the transaction.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from kb_framework.api import (
    Actor,
    Changes,
    MutationKind,
    MutationResult,
    Objection,
    Plan,
    Selection,
)
from kb_framework.api.jobs import insert_job
from kb_framework.api.sql import among
from kb_framework.api.tables import chunks, documents, plan_items
from kb_framework.errors import Busy, InvalidInput, KBError, MutationRefused, PluginFailed
from kb_framework.pipelines.promises import Foreseen, Limit, Promise, fingerprint
from kb_framework.pipelines.safety import Share
from kb_framework.pipelines.selection import SCOPES
from kb_framework.plugins import Plugins
from kb_framework.settings import HostSettings
from kb_framework.storage.store import Store, Tx

log = logging.getLogger("kb.mutation")

# What became of a document or chunk of the plan.
_WAITING, _APPLYING, _DONE, _FAILED = 0, 1, 2, -1
# How many objections a preview lists.
_FORESEEN = 100
# The kind of a plan that adds documents.
ADD = "add"


# A condition over what the kind acts on, or a function that makes it in the transaction.
Where = sa.ColumnElement[bool] | Callable[[Tx], sa.ColumnElement[bool]]


class Mutation:
    def __init__(
        self,
        store: Store,
        plugins: Plugins,
        host_settings: HostSettings,
    ) -> None:
        self._store = store
        self._plugins = plugins
        self._threshold = host_settings.bulk_safety_percent

    def kind(self, name: str) -> MutationKind:
        kind = self._plugins.kinds.get(name)
        if kind is None:
            raise InvalidInput(f"there is no operation {name!r}", field="operation")
        return kind

    def matching(
        self,
        tx: Tx,
        kind: MutationKind,
        columns: Sequence[sa.ColumnElement[Any]],
        where: sa.ColumnElement[bool],
        actor: Actor,
        selection: Mapping[str, Any],
    ) -> sa.Select:
        """A query over the documents, or chunks with their documents, that match and that no plugin withholds."""
        scope = SCOPES[kind.over]
        more = self._plugins.narrow_selection(Selection(selection), actor, "mutation", tx)
        return (
            sa.select(*columns).select_from(scope.source).where(tx.owns(scope.table), where, *more)
        )

    def share(
        self, tx: Tx, kind: MutationKind, matched: int, actor: Actor, selection: Mapping[str, Any]
    ) -> Share:
        """The share of everything that a selection could match, had it no filters."""
        scope = SCOPES[kind.over]
        more = self._plugins.narrow_selection(Selection(selection), actor, "mutation", tx)
        # Without a condition, chunks are counted without their documents.
        source = scope.source if more else scope.table
        total = tx.scalar(
            sa.select(sa.func.count()).select_from(source).where(tx.owns(scope.table), *more)
        )
        return Share(matched, total, self._threshold, kind.over)

    def run(
        self,
        kind_name: str,
        operation: Any,
        where: Where,
        actor: Actor,
        *,
        selection: Mapping[str, Any] | None = None,
        force: bool = False,
        promise: Promise | None = None,
        limit: Limit | None = None,
    ) -> MutationResult:
        """Do it. With a `selection` (the filters behind `where`) it is a bulk operation: threshold and job record apply.

        With a `promise` it is what was announced, or nothing; if it has happened already, this is what came of it.
        A `limit` replaces the threshold; it raises to refuse the plan.
        """
        kind = self.kind(kind_name)
        # Whatever route led here: a selection is deleted only by who may delete.
        actor.require(kind.permission)
        self._plugins.require_all_loaded()

        def work(tx: Tx) -> tuple[MutationResult, bool]:
            if promise and (earlier := promise.earlier(tx)):
                return earlier, True
            return self._run_in(
                tx, kind, operation, where, actor, selection, force, promise, limit
            ), False

        try:
            result, was_done = self._store.run(actor.organization_id, work)
        except Exception as error:
            # A refusal leaves no job. Where somebody else is writing, waiting for them once more would help nobody.
            refused = isinstance(error, KBError) and (
                error.http_status < 500 or isinstance(error, Busy)
            )
            if selection is not None and not refused:
                self._record_failure(kind, actor, selection, error)
            raise
        if not was_done:
            self._plugins.mutation_applied(result)
        return result

    def _run_in(
        self,
        tx: Tx,
        kind: MutationKind,
        operation: Any,
        where: Where,
        actor: Actor,
        selection: Mapping[str, Any] | None,
        force: bool,
        promise: Promise | None,
        limit: Limit | None,
    ) -> MutationResult:
        scope = SCOPES[kind.over]
        tx.engine.begin_plan(tx.connection)
        # All of them are tried at once first.
        columns = [scope.key, scope.document.label("document"), sa.literal(_APPLYING)]
        condition = where if isinstance(where, sa.ColumnElement) else where(tx)
        found = self.matching(tx, kind, columns, condition, actor, selection or {})
        freeze = sa.insert(plan_items).from_select(["item", "document_id", "state"], found)
        frozen = tx.execute(freeze.execution_options(preserve_rowcount=True))
        plan = Plan(
            kind.name,
            actor,
            operation,
            selection or {},
            documents=_concerned(kind),
            matched=frozen.rowcount,
            chunks=sa.select(plan_items.c.item) if kind.over == "chunks" else None,
        )

        if promise:
            promise.require_same(
                fingerprint(tx, sa.select(plan_items.c.item).order_by(plan_items.c.item))
            )
        failures = self._objections(tx, kind, plan, plan_items)
        if selection is not None and not force:
            if limit:
                limit(tx, plan)
            else:
                self.share(tx, kind, plan.matched, actor, selection).require_within()

        self._mark(tx, failures, _FAILED)
        if len(failures) < plan.matched:
            self._apply(tx, plan, failures)
        succeeded = tx.scalar(sa.select(sa.func.count()).where(plan_items.c.state == _DONE))
        self._plugins.documents_changed(self._changes(tx, kind, actor, succeeded), tx)

        names = self._public_names(tx, kind, failures)
        errors = [
            {scope.public_name: names[number], "error": reason}
            for number, reason in sorted(failures.items())
        ]
        result = MutationResult(
            kind.name, actor, None, plan.matched, succeeded, plan.matched - succeeded, errors
        )
        if selection is None:
            return result
        job_id = insert_job(
            tx,
            actor,
            kind.job_type,
            status=result.status,
            filename=json.dumps(dict(selection), ensure_ascii=False),
            document_id=succeeded,
            error=json.dumps(errors, ensure_ascii=False) if errors else None,
            matched=result.matched,
            succeeded=succeeded,
            failed=result.failed,
        )
        if promise:
            promise.keep(tx, job_id)
        return MutationResult(
            kind.name, actor, job_id, result.matched, succeeded, result.failed, errors
        )

    def _objections(
        self, tx: Tx, kind: MutationKind, plan: Plan, items: sa.FromClause
    ) -> dict[int, str]:
        """Why single items of the plan must stay as they are. A guard may know of more than this plan is about.

        `items` has the columns `item` and `document_id`.
        """
        by_document: dict[int, str] = {}
        by_chunk: dict[str, str] = {}
        for objection in self._plugins.guard_mutation(plan, tx):
            if objection.chunk_id is not None:
                by_chunk.setdefault(objection.chunk_id, objection.reason)
            elif objection.document_id is not None:
                by_document.setdefault(objection.document_id, objection.reason)
            else:
                raise MutationRefused(objection.reason)
        found: dict[int, str] = {}
        if by_document:
            held = sa.select(items.c.item, items.c.document_id)
            held = held.where(among(items.c.document_id, list(by_document)))
            found = {item: by_document[document] for item, document in tx.execute(held)}
        if by_chunk:
            item = chunks.c.seq if kind.over == "chunks" else chunks.c.document_id
            held = sa.select(items.c.item, chunks.c.id).join(chunks, item == items.c.item)
            found = {
                item: by_chunk[chunk]
                for item, chunk in tx.execute(held.where(among(chunks.c.id, list(by_chunk))))
            } | found
        return found

    def foreseen(
        self,
        tx: Tx,
        kind: MutationKind,
        operation: Any,
        where: sa.ColumnElement[bool],
        actor: Actor,
        selection: Mapping[str, Any],
        matched: int,
    ) -> Foreseen:
        """What guards say to an operation that is not executed yet, in a transaction that only reads."""
        name = SCOPES[kind.over].public_name
        try:
            self._plugins.require_all_loaded()
            if not self._plugins.has_guards:
                return Foreseen(0, [])
            scope = SCOPES[kind.over]
            columns = [scope.key.label("item"), scope.document.label("document_id")]
            # As a table of its own: a guard selects from `documents` and must not be taken to mean this one.
            items = self.matching(tx, kind, columns, where, actor, selection).subquery()
            every = sa.select(items.c.item)
            concerned = (
                every if kind.over == "documents" else sa.select(items.c.document_id).distinct()
            )
            numbers = every if kind.over == "chunks" else None
            plan = Plan(
                kind.name,
                actor,
                operation,
                selection,
                documents=concerned,
                matched=matched,
                chunks=numbers,
            )
            refused = self._objections(tx, kind, plan, items)
        except (PluginFailed, MutationRefused) as error:
            return Foreseen(matched, [{name: None, "error": error.message}])
        shown = dict(sorted(refused.items())[:_FORESEEN])
        names = self._public_names(tx, kind, shown)
        return Foreseen(
            len(refused),
            [{name: names[number], "error": reason} for number, reason in shown.items()],
        )

    @property
    def guards_additions(self) -> bool:
        """Whether any plugin is to be asked about new documents: then each is written in a savepoint of its own."""
        return self._plugins.has_guards

    def require_addition(self, tx: Tx, actor: Actor, document_id: int) -> None:
        """Ask the guards about a new document, whose rows are in the transaction; MutationRefused in the guard's own words."""
        if not self._plugins.has_guards:
            return
        added = sa.select(documents.c.id).where(documents.c.id == document_id).subquery()
        plan = Plan(ADD, actor, None, {}, documents=sa.select(added.c.id), matched=1)
        for objection in self._plugins.guard_mutation(plan, tx):
            if self._concerns(tx, objection, document_id):
                raise MutationRefused(objection.reason)

    def _concerns(self, tx: Tx, objection: Objection, document_id: int) -> bool:
        if objection.chunk_id is not None:
            return (
                tx.scalar(sa.select(chunks.c.document_id).where(chunks.c.id == objection.chunk_id))
                == document_id
            )
        return objection.document_id in (None, document_id)

    def _changes(self, tx: Tx, kind: MutationKind, actor: Actor, succeeded: int) -> Changes:
        done = plan_items.c.state == _DONE
        concerned = _concerned(kind).where(done)
        if kind.over == "documents":
            return Changes(kind.name, actor, concerned, succeeded)
        count = tx.scalar(sa.select(sa.func.count()).select_from(concerned.subquery()))
        return Changes(kind.name, actor, concerned, count, sa.select(plan_items.c.item).where(done))

    def _public_names(self, tx: Tx, kind: MutationKind, items: Mapping[int, str]) -> dict[int, Any]:
        scope = SCOPES[kind.over]
        query = sa.select(scope.key, scope.public).where(among(scope.key, items))
        return {row[0]: row[1] for row in tx.execute(query)} if items else {}

    def _mark(self, tx: Tx, ids: Mapping[int, Any] | list[int], state: int) -> None:
        if ids:
            tx.execute(
                sa.update(plan_items).where(among(plan_items.c.item, list(ids))).values(state=state)
            )

    def _apply(self, tx: Tx, plan: Plan, failures: dict[int, str]) -> None:
        """All at once; where that fails, in halves, until the documents or chunks that cannot be processed stand alone."""
        applying = sa.select(plan_items.c.item).where(plan_items.c.state == _APPLYING)
        parts: list[list[int]] = [[]]
        while parts:
            self._mark(tx, parts.pop(), _APPLYING)
            try:
                with tx.savepoint():
                    self._plugins.apply_mutation(plan, applying, tx)
                outcome = _DONE
            except (exc.OperationalError, exc.InterfaceError):
                # The disk or the database, not a document: nothing of this plan can be trusted to work.
                raise
            except Exception as error:  # noqa: BLE001 - whatever a document's change raises costs that document alone
                ids = list(tx.connection.scalars(applying))
                if len(ids) == 1:
                    failures[ids[0]] = _reason(error)
                    outcome = _FAILED
                else:
                    middle = len(ids) // 2
                    parts += [ids[middle:], ids[:middle]]
                    outcome = _WAITING
            tx.execute(
                sa.update(plan_items).where(plan_items.c.state == _APPLYING).values(state=outcome)
            )

    def _record_failure(
        self, kind: MutationKind, actor: Actor, selection: Mapping[str, Any], error: Exception
    ) -> None:
        try:
            with self._store.write(actor.organization_id) as tx:
                insert_job(
                    tx,
                    actor,
                    kind.job_type,
                    status="failed",
                    filename=json.dumps(dict(selection), ensure_ascii=False),
                    document_id=0,
                    error=json.dumps(
                        [{SCOPES[kind.over].public_name: None, "error": _reason(error)}]
                    ),
                    matched=0,
                    succeeded=0,
                    failed=0,
                )
        except Exception as second:  # noqa: BLE001 - the first error is the one to tell
            log.error("the failed job could not be recorded: %s", second)


def _concerned(kind: MutationKind) -> sa.Select:
    """The documents of the plan, each once."""
    return (
        sa.select(plan_items.c.item)
        if kind.over == "documents"
        else sa.select(plan_items.c.document_id).distinct()
    )


def _reason(error: Exception) -> str:
    """Why a document failed, without SQL or paths."""
    if isinstance(error, KBError):
        return error.message
    log.warning("a document could not be processed", exc_info=error)
    if isinstance(error, exc.IntegrityError):
        return "a database constraint refused the change"
    return f"the change failed ({type(error).__name__})"
