"""Tags: a list of them, renaming one, merging several."""

from __future__ import annotations

import sqlalchemy as sa

from kb_documents.missing import not_missing
from kb_documents.models import (
    Changed,
    SampleTitle,
    TagMerge,
    TagPage,
    TagPreview,
    TagRename,
)
from kb_documents.mutations import ChangeTags
from kb_framework.api import Actor
from kb_framework.api.mutation import Fingerprint, Promise
from kb_framework.api.paging import PageIn
from kb_framework.api.parts import Mutation, Store, Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import document_tags, documents
from kb_framework.errors import Conflict, InvalidInput, NotFound

_SAMPLE = 10


class TagsService:
    def __init__(self, store: Store, mutation: Mutation) -> None:
        self._store = store
        self._mutation = mutation

    def list(self, asked: PageIn, actor: Actor) -> TagPage:
        """Return a page of tags with how many documents have each, most used first."""
        page = asked.wanted
        count = sa.func.count()
        with self._store.read(actor.organization_id) as tx:
            grouped = sa.select(document_tags.c.tag, count.label("count")).where(
                tx.owns(document_tags), not_missing(tx)
            )
            grouped = grouped.group_by(document_tags.c.tag)
            total = tx.scalar(sa.select(count).select_from(grouped.subquery()))
            rows = tx.rows(page.cut(grouped.order_by(count.desc(), document_tags.c.tag)))
        return TagPage.model_validate({"data": rows, "meta": page.meta(total)})

    def rename(self, asked: TagRename, actor: Actor) -> Changed:
        """Rename a tag to an unused name. It can be renamed back, so the threshold does not apply."""
        if asked.old == asked.new:
            raise InvalidInput("new: is the name that the tag has", field="new")
        unused = _Unused(asked.old, asked.new)
        return self._replace([asked.old], asked.new, actor, force=True, promise=unused)

    def merge(self, asked: TagMerge, actor: Actor) -> Changed | TagPreview:
        """Give every document that has one of the tags the one tag instead. Nothing tells them apart afterwards."""
        old = list(dict.fromkeys(tag for tag in asked.tags if tag != asked.into))
        if not old:
            raise InvalidInput("tags: nothing to merge", field="tags")
        if asked.preview:
            return self._preview(old, actor)
        return self._replace(old, asked.into, actor, force=asked.force, promise=_Used(old))

    def _preview(self, old: list[str], actor: Actor) -> TagPreview:
        kind = self._mutation.kind("tags")
        with self._store.read(actor.organization_id) as tx:
            where, selection = _having(old), {"any_tags": old}
            found = self._mutation.matching(
                tx, kind, [documents.c.id, documents.c.title], where, actor, selection
            )
            matched = tx.scalar(sa.select(sa.func.count()).select_from(found.subquery()))
            share = self._mutation.share(tx, kind, matched, actor, selection)
            sample = tx.rows(found.order_by(documents.c.id).limit(_SAMPLE))
        return TagPreview(
            matched=share.matched,
            total=share.total,
            percent=share.percent,
            threshold=share.threshold,
            exceeds=share.exceeds,
            sample=[SampleTitle.model_validate(row) for row in sample],
        )

    def _replace(
        self, old: list[str], into: str, actor: Actor, *, force: bool, promise: Promise
    ) -> Changed:
        result = self._mutation.run(
            "tags",
            ChangeTags(add=[into], remove=old),
            _having(old),
            actor,
            selection={"any_tags": old},
            force=force,
            promise=promise,
        )
        assert result.job_id is not None
        return Changed(
            matched=result.matched,
            succeeded=result.succeeded,
            failed=result.failed,
            errors=result.errors,
            job_id=result.job_id,
        )


class _Used:
    """Refuses, in the transaction of the change, what would change nothing."""

    def __init__(self, tags: list[str]) -> None:
        self._tags = tags

    def earlier(self, tx: Tx) -> None:
        pass

    def require_same(self, found: Fingerprint) -> None:
        if not found.matched:
            raise NotFound(
                f"no document has the tag {self._tags[0]!r}"
                if len(self._tags) == 1
                else "no document has any of the tags"
            )

    def keep(self, tx: Tx, job_id: int) -> None:
        pass


class _Unused(_Used):
    """Refuses a new name that is in use, in the transaction of the renaming."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__([old])
        self._new = new

    def earlier(self, tx: Tx) -> None:
        query = (
            sa.select(document_tags.c.tag)
            .where(tx.owns(document_tags), document_tags.c.tag == self._new)
            .limit(1)
        )
        if tx.scalar(query) is not None:
            raise Conflict(
                f"the tag {self._new!r} is in use", hint="merge the tags instead", field="new"
            )


def _having(tags: list[str]) -> sa.ColumnElement[bool]:
    return documents.c.id.in_(
        sa.select(document_tags.c.document_id).where(among(document_tags.c.tag, tags))
    )
