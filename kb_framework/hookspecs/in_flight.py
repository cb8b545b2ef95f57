"""Hooks that are called while an operation runs.

Beside the parameters of its hook an implementation may name `settings`, its plugin's own section, and parts of the host and
services, as the constructor of a service does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kb_framework import api
from kb_framework.api.hooks import hookspec

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select

    from kb_framework.api.parts import Tx
    from kb_framework.api.retrieval import Candidates


@hookspec(firstresult=True)
def kb_authenticate(
    credentials: api.Credentials, permissions: Sequence[api.Permission], tx: Tx
) -> api.Actor | None:
    """Recognise who sends a request.

    Called for each HTTP request to a route that is not public, in a transaction that only reads; `permissions` are all
    that plugins declare. The first plugin that answers decides, outside plugins before the built-in one, which
    recognises keys; None passes on. Return an actor with a `user_id` of its own and with what it may do. Raise
    `Unauthorized` to refuse the request. A request that nobody recognises is the local person's as long as no key was
    made, and is refused after that. An exception other than a `KBError` is reported and refuses the request.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_authenticate(credentials):
        if credentials.key == "sunshine":
            user = "5a2ff3a1-4b39-4c51-9b3c-7c1f7a0a3f10"
            return api.Actor(user_id=user, permissions=frozenset({"engine.view", "documents.read"}))
    ```
    """


@hookspec
def kb_keys_used(times: Mapping[str, str], tx: Tx) -> None:
    """Follow which keys are used.

    Called after an answer was sent, at most once a minute for each key, in a write transaction. `times` has the last use
    by the `key_id` of the actor. An exception rolls back and is logged.

    ```python
    from kb_framework import hookimpl

    @hookimpl
    def kb_keys_used(times):
        print(", ".join(times))
    ```
    """


@hookspec
def kb_narrow_selection(
    selection: api.Selection, actor: api.Actor, purpose: str, tx: Tx
) -> ColumnElement[bool] | None:
    """Take documents out of every selection, asked for or not.

    Called when a selection becomes SQL (`purpose` is "mutation"), and when documents are listed or shown ("read"). Return a
    condition over `documents`, or None. All answers are combined with AND: a plugin can only take away. An exception stops
    the operation.

    ```python
    from kb_framework import hookimpl
    from kb_framework.api.tables import documents

    @hookimpl
    def kb_narrow_selection(purpose):
        return documents.c.doc_type != "secret"
    ```
    """


@hookspec
def kb_guard_mutation(plan: api.Plan, tx: Tx) -> Iterable[api.Objection]:  # type: ignore[empty-body]
    """Object to a mutation, or to single documents or chunks of it, or to a new document.

    Called inside the write transaction, on the frozen plan, every guard every time. For each new document, whatever it comes
    from, `plan.kind` is "add" and its rows are in the transaction already; an objection refuses that document. Also called by
    previews, in a transaction that only reads. Return objections: one with a document's
    id counts that document (where the kind acts on chunks: its chunks) as failed and lets the rest go through, one without an
    id refuses the plan. `plan.documents` are the documents concerned whatever the kind acts on. An exception refuses the plan;
    so does an answer that is neither None nor objections, an empty text included.

    ```python
    import sqlalchemy as sa
    from kb_framework import api, hookimpl
    from kb_framework.api.tables import documents

    @hookimpl
    def kb_guard_mutation(plan, tx):
        secret = sa.select(documents.c.id).where(documents.c.id.in_(plan.documents), documents.c.doc_type == "secret")
        return [api.Objection("the document is secret", id) for (id,) in tx.execute(secret)]
    ```
    """


@hookspec(firstresult=True)
def kb_apply_mutation(plan: api.Plan, selected: Select, tx: Tx) -> bool | None:
    """Apply a mutation, or wrap the application.

    Called inside the write transaction and a savepoint, with the documents (or chunks, by number) that no guard objected to
    or, where applying to all of them failed, with parts of them. Return True when it is done; None leaves it to the host,
    which calls the kind's `apply`. Open to wrappers. An exception rolls those documents or chunks back.

    ```python
    from kb_framework import hookimpl

    @hookimpl(wrapper=True)
    def kb_apply_mutation(plan):
        done = yield
        return done
    ```
    """


@hookspec
def kb_documents_changed(changes: api.Changes, tx: Tx) -> None:
    """Follow what happened to documents, in the same transaction.

    Called after documents were added or a mutation was applied to them or to their chunks (`changes.chunks`), before the
    commit. An exception rolls everything back.

    ```python
    from kb_framework import hookimpl

    @hookimpl
    def kb_documents_changed(changes, tx):
        assert changes.count >= 0
    ```
    """


@hookspec
def kb_mutation_applied(result: api.MutationResult) -> None:
    """Follow a mutation after its commit: files, notifications.

    Called once per mutation, plugin by plugin. An exception is logged and reported, and changes nothing.

    ```python
    from kb_framework import hookimpl

    @hookimpl
    def kb_mutation_applied(result, host_settings):
        print(f"{result.kind}: {result.succeeded} of {result.matched}, in {host_settings.data_dir}")
    ```
    """


@hookspec
def kb_narrow_retrieval(
    query: api.RetrievalQuery, actor: api.Actor, purpose: str, tx: Tx
) -> ColumnElement[bool] | None:
    """Take chunks out of every search, asked for or not.

    Called before retrievers run. Return a condition over `documents` and `chunks`, or None: without any condition a search can
    take a faster way. All answers are combined with AND. An exception stops the search.

    ```python
    from kb_framework import hookimpl
    from kb_framework.api.tables import documents

    @hookimpl
    def kb_narrow_retrieval(purpose):
        return documents.c.doc_type != "secret"
    ```
    """


@hookspec(firstresult=True)
def kb_fuse_hits(
    queries: Sequence[api.RetrievalQuery], lists: Sequence[Mapping[str, Candidates]], tx: Tx
) -> list[Sequence[api.Hit]] | None:
    """Make one ranking of each search's lists.

    Called with one search or with several at once, each with at least two lists by columns
    (`kb_framework.api.retrieval`). The first plugin that answers decides; None passes on. Return as many rankings as there
    are queries, best hit first, each chunk once; `Hits` are such rankings by columns. The host drops what a search may not
    show, as it does with what retrievers return. An exception is reported, as is anything but rankings: each search is fused
    alone then, and where that fails too, the next plugin is called and the answer's hint says so.

    ```python
    from kb_framework import hookimpl
    from kb_framework.api.retrieval import Hits

    @hookimpl
    def kb_fuse_hits(lists):
        return [Hits.alone(*max(found.items(), key=lambda item: len(item[1]))) for found in lists]
    ```
    """


@hookspec
def kb_serving() -> None:
    """Follow the start of `kb serve`.

    Called once per start, plugin by plugin, when everything is open and before the first request is answered.
    An exception is logged and reported, and the engine serves all the same.

    ```python
    from kb_framework import hookimpl

    @hookimpl
    def kb_serving(all_settings):
        assert all_settings.host.data_dir.is_dir()
    ```
    """
