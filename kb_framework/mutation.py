"""The mutation pipeline: every change to existing documents, one or ten thousand, goes through `Mutation.run`.

select → freeze → guards → threshold → apply → observers in the transaction → job → commit → observers after it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from kb_framework.api import Actor, Changes, MutationKind, MutationResult, Plan, Selection
from kb_framework.errors import InvalidInput, KBError, MutationRefused
from kb_framework.plugins import Plugins
from kb_framework.safety import Share
from kb_framework.settings import HostSettings
from kb_framework.store.jobs import insert_job
from kb_framework.store.sql import among
from kb_framework.store.store import Store, Tx
from kb_framework.store.tables import documents, plan_documents

log = logging.getLogger("kb.mutation")

# What became of a document of the plan.
_WAITING, _APPLYING, _DONE, _FAILED = 0, 1, 2, -1


class Mutation:
    def __init__(self, store: Store, plugins: Plugins, host_settings: HostSettings, services: Mapping[str, Any]) -> None:
        self._store = store
        self._plugins = plugins
        self._threshold = host_settings.bulk_safety_percent
        self._services = services

    def kind(self, name: str) -> MutationKind:
        kind = self._plugins.kinds.get(name)
        if kind is None:
            raise InvalidInput(f"there is no operation {name!r}", field="operation")
        return kind

    def share(self, tx: Tx, where: sa.ColumnElement[bool], actor: Actor, selection: Mapping[str, Any]) -> Share:
        """How much an operation on these documents would touch, without touching it."""
        matched = tx.scalar(self.narrowed(tx, sa.select(sa.func.count()), where, actor, selection))
        return Share(matched, self._total(tx), self._threshold)

    def narrowed(
        self,
        tx: Tx,
        query: sa.Select,
        where: sa.ColumnElement[bool],
        actor: Actor,
        selection: Mapping[str, Any],
    ) -> sa.Select:
        """`query` over the documents that match and that no plugin withholds."""
        more = self._plugins.narrow_selection(Selection(selection), actor, "mutation", tx)
        return query.select_from(documents).where(tx.owns(documents), where, *more)

    def run(
        self,
        kind_name: str,
        operation: Any,
        where: sa.ColumnElement[bool],
        actor: Actor,
        *,
        selection: Mapping[str, Any] | None = None,
        force: bool = False,
    ) -> MutationResult:
        """Do it. With a `selection` (the filters behind `where`) it is a bulk operation: threshold and job record apply."""
        kind = self.kind(kind_name)
        # Whatever route led here: a selection is deleted only by who may delete.
        actor.require(kind.permission)
        self._plugins.require_all_loaded()
        try:
            with self._store.write(actor.organization_id) as tx:
                result = self._run_in(tx, kind, operation, where, actor, selection, force)
        except KBError:
            raise
        except Exception as error:
            if selection is not None:
                self._record_failure(kind, actor, selection, error)
            raise
        self._plugins.mutation_applied(result, self._services)
        return result

    def _run_in(
        self,
        tx: Tx,
        kind: MutationKind,
        operation: Any,
        where: sa.ColumnElement[bool],
        actor: Actor,
        selection: Mapping[str, Any] | None,
        force: bool,
    ) -> MutationResult:
        tx.backend.begin_plan(tx.connection)
        ids = self.narrowed(tx, sa.select(documents.c.id, sa.literal(_WAITING)), where, actor, selection or {})
        frozen = tx.execute(sa.insert(plan_documents).from_select(["document_id", "state"], ids))
        plan = Plan(
            kind.name,
            actor,
            operation,
            selection or {},
            sa.select(plan_documents.c.document_id),
            frozen.rowcount,
        )

        failures: dict[int, str] = {}
        for objection in self._plugins.guard_mutation(plan, tx):
            if objection.document_id is None:
                raise MutationRefused(objection.reason)
            failures.setdefault(objection.document_id, objection.reason)
        # A guard may know of more documents than this plan is about.
        planned = among(plan_documents.c.document_id, list(failures))
        here = set(tx.connection.scalars(plan.documents.where(planned))) if failures else set()
        failures = {number: reason for number, reason in failures.items() if number in here}
        if selection is not None and not force:
            Share(plan.matched, self._total(tx), self._threshold).require_within()

        self._mark(tx, failures, _FAILED)
        self._apply(tx, plan, failures)
        done = sa.select(plan_documents.c.document_id).where(plan_documents.c.state == _DONE)
        succeeded = tx.scalar(sa.select(sa.func.count()).select_from(done.subquery()))
        self._plugins.documents_changed(Changes(kind.name, actor, done, succeeded), tx)

        errors = [{"document_id": number, "error": reason} for number, reason in sorted(failures.items())]
        result = MutationResult(kind.name, actor, None, plan.matched, succeeded, plan.matched - succeeded, errors)
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
        return MutationResult(kind.name, actor, job_id, result.matched, succeeded, result.failed, errors)

    def _total(self, tx: Tx) -> int:
        return tx.scalar(sa.select(sa.func.count()).select_from(documents).where(tx.owns(documents)))

    def _mark(self, tx: Tx, ids: Mapping[int, Any] | list[int], state: int) -> None:
        if ids:
            tx.execute(sa.update(plan_documents).where(among(plan_documents.c.document_id, list(ids))).values(state=state))

    def _apply(self, tx: Tx, plan: Plan, failures: dict[int, str]) -> None:
        """All at once; where that fails, in halves, until the documents that cannot be processed stand alone."""
        applying = sa.select(plan_documents.c.document_id).where(plan_documents.c.state == _APPLYING)
        parts: list[list[int] | None] = [None]
        while parts:
            part = parts.pop()
            if part is None:
                tx.execute(sa.update(plan_documents).where(plan_documents.c.state == _WAITING).values(state=_APPLYING))
            else:
                self._mark(tx, part, _APPLYING)
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
            tx.execute(sa.update(plan_documents).where(plan_documents.c.state == _APPLYING).values(state=outcome))

    def _record_failure(self, kind: MutationKind, actor: Actor, selection: Mapping[str, Any], error: Exception) -> None:
        try:
            with self._store.write(actor.organization_id) as tx:
                insert_job(
                    tx,
                    actor,
                    kind.job_type,
                    status="failed",
                    filename=json.dumps(dict(selection), ensure_ascii=False),
                    document_id=0,
                    error=json.dumps([{"document_id": None, "error": _reason(error)}]),
                    matched=0,
                    succeeded=0,
                    failed=0,
                )
        except Exception as second:  # noqa: BLE001 - the first error is the one to tell
            log.error("the failed job could not be recorded: %s", second)


def _reason(error: Exception) -> str:
    """Why a document failed, without SQL or paths."""
    if isinstance(error, KBError):
        return error.message
    log.warning("a document could not be processed", exc_info=error)
    if isinstance(error, exc.IntegrityError):
        return "a database constraint refused the change"
    return f"the change failed ({type(error).__name__})"
