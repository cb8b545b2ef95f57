"""Views: named selections of documents. A view is a filter wherever documents are selected."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import sqlalchemy as sa
from pydantic import AfterValidator, Field

from kb_documents.tables import saved_views
from kb_documents.view_models import SaveViewIn, View, ViewIn, ViewPage, filters_model
from kb_framework.api import Actor, Selection
from kb_framework.api.messages import nearest
from kb_framework.api.models import clean_tag, validate
from kb_framework.api.paging import PageIn
from kb_framework.api.parts import Plugins, Selector, Store, Tx
from kb_framework.api.times import now
from kb_framework.errors import Conflict, InvalidInput, KBError, NotFound, ViewInvalid

# A filter that is not one of a view's own: views are not nested.
VIEW = "view"
_MOST = 1000


class ViewsService:
    def __init__(self, store: Store, plugins: Plugins, selector: Selector) -> None:
        self._store = store
        self._plugins = plugins
        self._selector = selector

    def list(self, asked: PageIn, actor: Actor) -> ViewPage:
        page = asked.wanted
        with self._store.read(actor.organization_id) as tx:
            here = tx.owns(saved_views)
            total = tx.scalar(sa.select(sa.func.count()).select_from(saved_views).where(here))
            query = sa.select(saved_views).where(here).order_by(saved_views.c.name)
            rows = tx.rows(page.cut(query))
        return ViewPage(data=[self._shown(row) for row in rows], meta=page.meta(total))

    def get(self, asked: ViewIn, actor: Actor) -> View:
        with self._store.read(actor.organization_id) as tx:
            return self._shown(_existing(tx, asked.name))

    def save(self, asked: SaveViewIn, actor: Actor) -> View:
        """Create or replace a view."""
        filters = self._selector.given(asked.filters, "documents").filters
        # The model has checked the values; JSON is what a request would have.
        sent = asked.filters.model_dump(mode="json", include=set(filters))
        row = {"description": asked.description, "filters": sent, "updated_at": now()}

        def work(tx: Tx) -> View:
            here = tx.owns(saved_views) & (saved_views.c.name == asked.name)
            # Refuse now what would be refused whenever the view is used.
            self._selector.condition(Selection(filters), tx, "documents")
            if tx.scalar(sa.select(saved_views.c.name).where(here)) is None:
                _require_room(tx)
                owner = {"organization_id": tx.organization_id, "user_id": actor.user_id}
                added = {**row, **owner, "name": asked.name, "created_at": row["updated_at"]}
                tx.execute(sa.insert(saved_views).values(added))
            else:
                tx.execute(sa.update(saved_views).where(here).values(row))
            return self._shown(_existing(tx, asked.name))

        return self._store.run(actor.organization_id, work)

    def remove(self, asked: ViewIn, actor: Actor) -> None:
        def work(tx: Tx) -> None:
            _existing(tx, asked.name)
            here = tx.owns(saved_views) & (saved_views.c.name == asked.name)
            tx.execute(sa.delete(saved_views).where(here))

        self._store.run(actor.organization_id, work)

    def _shown(self, row: Mapping[str, Any]) -> View:
        try:
            checked(row["name"], row["filters"], self._plugins)
            problem = None
        except KBError as error:
            problem = error.message
        return View.model_validate({**row, "problem": problem})


def view(
    value: Annotated[str, Field(min_length=1, max_length=128), AfterValidator(clean_tag)],
    tx: Tx,
    plugins: Plugins,
    selector: Selector,
) -> sa.ColumnElement[bool]:
    """The selection filter: what the view selects now."""
    filters = stored_filters(tx, value)
    if filters is None:
        known = list(
            tx.connection.scalars(sa.select(saved_views.c.name).where(tx.owns(saved_views)))
        )
        near = nearest(value, known)
        raise InvalidInput(
            f"view: there is no view {value!r}" + (f"; nearest: {near!r}" if near else ""),
            hint="kb views list" if known else None,
            field=VIEW,
        )
    return selector.condition(checked(value, filters, plugins), tx, "documents")


def stored_filters(tx: Tx, name: str) -> dict[str, Any] | None:
    """Return the filters of a view as they were saved; None where there is no such view."""
    here = tx.owns(saved_views) & (saved_views.c.name == name)
    return tx.scalar(sa.select(saved_views.c.filters).where(here))


def all_filters(filters: Mapping[str, Any], tx: Tx) -> Mapping[str, Any]:
    """Return the filters of a selection with those of its view."""
    return {**(stored_filters(tx, filters[VIEW]) or {}), **filters} if VIEW in filters else filters


def checked(name: str, filters: Any, plugins: Plugins) -> Selection:
    """Return the selection of a view; ViewInvalid where any of its filters cannot be applied."""
    model = filters_model(plugins)
    given = filters if isinstance(filters, dict) else {}
    if VIEW in given:
        raise ViewInvalid(
            f"the view {name!r} cannot be used: a view cannot contain a view",
            hint="save the view again",
            view=name,
        )
    lost = sorted(set(given) - set(model.model_fields))
    if lost:
        raise ViewInvalid(
            f"the view {name!r} cannot be used: no plugin offers its filter {lost[0]!r}",
            hint="switch the plugin on again, or save the view without that filter",
            view=name,
        )
    try:
        valid = validate(model, given)
    except InvalidInput as error:
        raise ViewInvalid(
            f"the view {name!r} cannot be used: {error.message}",
            hint="save the view again",
            view=name,
        ) from None
    chosen = {key: value for key in given if (value := getattr(valid, key)) is not None}
    if not chosen:
        raise ViewInvalid(f"the view {name!r} cannot be used: it has no filters", view=name)
    return Selection(chosen)


def follow_ids(row: Mapping[str, Any], document_ids: Mapping[int, int]) -> Mapping[str, Any]:
    """Return a view as it is imported, with the ids that its documents were given."""
    filters = json.loads(row["filters"]) if isinstance(row["filters"], str) else row["filters"]
    if not isinstance(filters, dict) or not isinstance(ids := filters.get("document_ids"), list):
        return row
    followed = [document_ids.get(number, number) for number in ids]
    return {**row, "filters": {**filters, "document_ids": followed}}


def _existing(tx: Tx, name: str) -> dict[str, Any]:
    here = tx.owns(saved_views) & (saved_views.c.name == name)
    rows = tx.rows(sa.select(saved_views).where(here))
    if not rows:
        raise NotFound(f"there is no view {name!r}", view=name)
    return rows[0]


def _require_room(tx: Tx) -> None:
    count = sa.select(sa.func.count()).select_from(saved_views).where(tx.owns(saved_views))
    if tx.scalar(count) >= _MOST:
        raise Conflict(f"there are {_MOST} views already; remove one first")
