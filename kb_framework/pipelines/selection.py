"""Selections: which documents or chunks an operation is about. Filters come from plugins; an empty one is never 'all'.

The same filters narrow searches, lists and contexts. There an empty one is 'not given'.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, get_args

import sqlalchemy as sa
from pydantic import BaseModel, Field, create_model, model_validator

from kb_framework.api import (
    Actor,
    Flag,
    MutationKind,
    Over,
    Seldom,
    Selection,
    SelectionFilter,
    resolve,
)
from kb_framework.api.messages import shown
from kb_framework.api.models import Question, takes_list
from kb_framework.api.tables import chunks, documents
from kb_framework.errors import InvalidInput, PluginFailed
from kb_framework.plugins import Plugins, Registry
from kb_framework.storage.hints import why_empty
from kb_framework.storage.store import Tx


class Scope(NamedTuple):
    """What can be selected: `key` numbers it in the store, `document` is the document that it is or belongs to."""

    name: Over
    table: sa.Table
    source: sa.FromClause
    key: sa.Column[int]
    document: sa.Column[int]
    # What the world calls it by, and under which name.
    public: sa.Column[Any]
    public_name: str


SCOPES: dict[Over, Scope] = {
    "documents": Scope(
        "documents",
        documents,
        documents,
        documents.c.id,
        documents.c.id,
        documents.c.id,
        "document_id",
    ),
    "chunks": Scope(
        "chunks",
        chunks,
        chunks.join(documents, documents.c.id == chunks.c.document_id),
        chunks.c.seq,
        chunks.c.document_id,
        chunks.c.id,
        "chunk_id",
    ),
}


class Filtered(Question):
    """The base of inputs that search or list: an empty text or an empty list is a filter that was not given."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty_lists(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        lists = {
            name
            for name, info in cls.model_fields.items()
            if not info.is_required() and takes_list(info.annotation)
        }
        return {name: value for name, value in values.items() if value != [] or name not in lists}


class Selector:
    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins

    def offered(self, over: Over) -> list[SelectionFilter]:
        """Return the filters that can select these; chunks are also selected by what their documents are."""
        return [
            item
            for item in self._plugins.filters
            if over == "chunks" or item.over == over or item.lifts
        ]

    def fields(self, over: Over) -> dict[str, Any]:
        """Return the filters as optional fields for `pydantic.create_model`; null means absent."""
        return {item.name: filter_field(item, resolve(item.target)) for item in self.offered(over)}

    def given(self, body: BaseModel, over: Over) -> Selection:
        """Return the filters that the body of a change names. None at all is refused."""
        names = [item.name for item in self.offered(over)]
        chosen = self.named(body, over).filters
        for name, value in chosen.items():
            # Left out, it would widen the selection.
            if value == "" or (isinstance(value, list) and "" in value):
                raise InvalidInput(
                    f"{name}: must not be empty; leave it out to select by something else",
                    field=name,
                )
        if not chosen:
            raise InvalidInput(
                f"no selection: give at least one of {', '.join(names)}",
                field=names[0] if names else None,
            )
        return Selection(chosen)

    def named(self, body: BaseModel, over: Over) -> Selection:
        """Return the filters that a search or a list names; there may be none."""
        names = (item.name for item in self.offered(over))
        return Selection(
            {name: value for name in names if (value := getattr(body, name, None)) is not None}
        )

    def condition(self, selection: Selection, tx: Tx, over: Over) -> sa.ColumnElement[bool]:
        """Return the filters as SQL, all of them combined; a selection without any is refused."""
        offered = {item.name: item for item in self.offered(over)}
        if not selection.filters:
            raise InvalidInput("no selection")
        conditions: list[sa.ColumnElement[bool]] = []
        for name, value in selection.filters.items():
            item = offered.get(name)
            if item is None:
                raise InvalidInput(f"there is no selection filter {name!r}", field=name)
            conditions.append(self._condition(item, value, tx, over))
        return sa.and_(*conditions)

    def _condition(
        self, item: SelectionFilter, value: Any, tx: Tx, over: Over
    ) -> sa.ColumnElement[bool]:
        function = resolve(item.target)
        parts: dict[str, Any] = {"tx": tx, "plugins": self._plugins, "selector": self}
        taken = {name: parts[name] for name in _parts_of(function)}
        found = function(value=value, **taken)
        if item.over == "chunks" and over == "documents":
            # A table of its own: the query around it may select from `chunks` too.
            having = sa.select(chunks.c.document_id).where(tx.owns(chunks), found).correlate(None)
            return documents.c.id.in_(having)
        return found

    def visible(
        self, selection: Selection, actor: Actor, tx: Tx, over: Over
    ) -> list[sa.ColumnElement[bool]]:
        """Return the conditions of a list: the filters, and what plugins withhold."""
        chosen = [self.condition(selection, tx, over)] if selection.filters else []
        return [*chosen, *self._plugins.narrow_selection(selection, actor, "read", tx)]

    def why_empty(
        self,
        tx: Tx,
        filters: Mapping[str, Any],
        over: Over = "documents",
        more: Mapping[str, tuple[str, sa.Column[Any]]] | None = None,
        names: Mapping[str, str] | None = None,
        beside: Sequence[str] = (),
    ) -> str | None:
        """Return which filter nothing matches, with the nearest value that exists. Only for empty answers.

        `more` are columns whose values a hint may name, beyond those of documents, each with its label. `names` are those
        of filters that the request calls otherwise. `beside` are further conditions of the request, by name.
        """
        scope = SCOPES[over]
        of_documents = {item.name for item in self.offered("documents")}
        called = names or {}
        for own, value in filters.items():
            name = called.get(own, own)
            alone = self.condition(Selection({name: value}), tx, over)
            here = sa.select(scope.key).select_from(scope.source).where(tx.owns(scope.table), alone)
            if tx.scalar(here.limit(1)) is None:
                noun = "document" if name in of_documents else "chunk"
                said = why_empty(tx, {name: value}, more, noun)
                return said or f"no {noun} matches {own} {_told(value)}"
        names_here = {called.get(own, own) for own in filters}
        of_chunks = over == "chunks" and (beside or not names_here <= of_documents)
        noun = "chunk" if of_chunks else "document"
        every = (*beside, *filters)
        return f"no {noun} matches all of {', '.join(every)}" if len(every) > 1 else None


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(shown(str(item)) for item in value[:5])
    return shown(str(value))


def with_filters(
    name: str, base: type[BaseModel], plugins: Plugins, over: Over, without: Collection[str] = ()
) -> type[Any]:
    """Return a model that has the fields of `base` and every filter that it does not have itself."""
    left_out = {*base.model_fields, *without}
    offered = (item for item in Selector(plugins).offered(over) if item.name not in left_out)
    return _with_filters(name, base, tuple((item, resolve(item.target)) for item in offered))


# The same filters make the same model: a schema has one definition of each name.
@functools.lru_cache(maxsize=64)
def _with_filters(
    name: str,
    base: type[BaseModel],
    offered: tuple[tuple[SelectionFilter, Callable[..., Any]], ...],
) -> type[Any]:
    fields: dict[str, Any] = {item.name: filter_field(item, function) for item, function in offered}
    return create_model(name, __base__=base, __doc__=base.__doc__, **fields)


def filter_field(item: SelectionFilter, function: Callable[..., Any]) -> Any:
    """Return a filter as an optional field for `pydantic.create_model`."""
    more = [*([Flag(item.flag)] if item.flag else []), *([Seldom()] if item.seldom else [])]
    return Annotated[_taken(function) | None, Field(description=item.help), *more], None


# Fields of every bulk body, command or tool, which no filter and no operation may take.
RESERVED = frozenset(
    {"force", "yes", "dry_run", "plan", "operation", "json", "debug", "cli", "engine"}
)

# Fields of searches and lists, which would hide a filter of that name.
_FIELDS_OF_LISTS = frozenset(
    {"page", "per_page", "sort", "q", "k", "mode", "cursor", "by", "top", "since", "until"}
)


def check_contributions(plugins: Plugins) -> None:
    """Fail the plugins whose filters or kinds cannot be used, so that nothing made of them fails somebody else."""
    for item in list(plugins.filters):
        _try(plugins, plugins.filters, item, _check_filter)
    for kind in list(plugins.kinds):
        if kind.bulk:
            _try(plugins, plugins.kinds, kind, _check_kind)
    for kind in list(plugins.kinds):
        fields = set(resolve(kind.target).model_fields) if kind.bulk else set()
        for name in sorted(fields & {item.name for item in Selector(plugins).offered(kind.over)}):
            owners = plugins.kinds.plugin_of(kind.name), plugins.filters.plugin_of(name)
            later = max(owners, key=plugins.load_order)
            plugins.fail(
                later,
                PluginFailed(
                    f"{name!r} is both a field of {kind.name!r} and a selection filter ({owners[1]!r})"
                ),
            )


def _try(
    plugins: Plugins, registry: Registry[Any], item: Any, check: Callable[[Any], None]
) -> None:
    if registry.get(item.name) is None:
        return
    try:
        taken = RESERVED | _FIELDS_OF_LISTS if isinstance(item, SelectionFilter) else RESERVED
        if item.name in taken:
            raise PluginFailed(f"the {registry.noun} {item.name!r} has a reserved name")
        check(item)
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything
        plugins.fail(registry.plugin_of(item.name), error)


def _check_over(item: SelectionFilter | MutationKind) -> None:
    if item.over not in get_args(Over):
        raise PluginFailed(
            f"{item.name!r} is over {item.over!r}, not over {' or '.join(get_args(Over))}"
        )


def _check_filter(item: SelectionFilter) -> None:
    _check_over(item)
    if _taken(resolve(item.target)) is inspect.Parameter.empty:
        raise PluginFailed(
            f"the selection filter {item.name!r} must take one annotated parameter, value; "
            f"beside it, {', '.join(sorted(_PARTS))}"
        )


# What pydantic is known to take need not be tried, whenever an engine is opened.
_PLAIN = (int, str, bool, float, list[int], list[str])


# What a filter's function may take beside its value, by name.
_PARTS = frozenset({"tx", "plugins", "selector"})


@functools.lru_cache(maxsize=256)
def _taken(function: Callable[..., Any]) -> Any:
    """Return the type of a filter's value, which every kind's body asks for again; empty where it is unusable."""
    parameters = dict(inspect.signature(function, eval_str=True).parameters)
    value = parameters.pop("value", None)
    if value is None or value.annotation is inspect.Parameter.empty or parameters.keys() - _PARTS:
        return inspect.Parameter.empty
    if value.annotation not in _PLAIN:
        create_model("Filter", value=(value.annotation, ...))
    return value.annotation


@functools.lru_cache(maxsize=256)
def _parts_of(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(function).parameters if name in _PARTS)


def _check_kind(kind: MutationKind) -> None:
    _check_over(kind)
    operation = resolve(kind.target)
    if not (
        isinstance(operation, type)
        and issubclass(operation, BaseModel)
        and callable(getattr(operation, "apply", None))
    ):
        raise PluginFailed(
            f"the mutation kind {kind.name!r} must be a pydantic model with apply(tx, selected)"
        )
    taken = sorted(set(operation.model_fields) & RESERVED)
    if taken:
        raise PluginFailed(
            f"the mutation kind {kind.name!r} has a field with a reserved name: {taken[0]}"
        )
