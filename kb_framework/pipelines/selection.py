"""Selections: which documents or chunks an operation is about. Filters come from plugins; an empty one is never 'all'."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, get_args

import sqlalchemy as sa
from pydantic import BaseModel, Field, create_model

from kb_framework.api import MutationKind, Over, Selection, SelectionFilter, resolve
from kb_framework.errors import InvalidInput, PluginFailed
from kb_framework.plugins import Plugins, Registry
from kb_framework.storage.tables import chunks, documents


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


class Selector:
    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins

    def offered(self, over: Over) -> list[SelectionFilter]:
        """The filters that can select these; chunks are also selected by what their documents are."""
        return [item for item in self._plugins.filters if over == "chunks" or item.over == over]

    def fields(self, over: Over) -> dict[str, Any]:
        """The filters as optional fields for `pydantic.create_model`; null means absent."""
        return {item.name: filter_field(item, resolve(item.target)) for item in self.offered(over)}

    def given(self, body: BaseModel, over: Over) -> Selection:
        """The filters that a body names. None at all is refused."""
        names = [item.name for item in self.offered(over)]
        chosen = {name: value for name in names if (value := getattr(body, name, None)) is not None}
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

    def condition(self, selection: Selection) -> sa.ColumnElement[bool]:
        """The filters as SQL, all of them combined."""
        conditions = []
        for name, value in selection.filters.items():
            item = self._plugins.filters.get(name)
            if item is None:
                raise InvalidInput(f"there is no selection filter {name!r}", field=name)
            conditions.append(resolve(item.target)(value))
        return sa.and_(*conditions)


def filter_field(item: SelectionFilter, function: Callable[..., Any]) -> Any:
    """A filter as an optional field for `pydantic.create_model`."""
    return Annotated[_taken(function) | None, Field(description=item.help)], None


# Fields of every bulk body, command or tool, which no filter and no operation may take.
RESERVED = frozenset(
    {"force", "yes", "dry_run", "plan", "operation", "json", "debug", "cli", "engine"}
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
        if item.name in RESERVED:
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
            f"the selection filter {item.name!r} must take one annotated parameter, value"
        )


# What pydantic is known to take need not be tried, whenever an engine is opened.
_PLAIN = (int, str, bool, float, list[int], list[str])


@functools.lru_cache(maxsize=256)
def _taken(function: Callable[..., Any]) -> Any:
    """The type that a filter's function takes, which every kind's body asks for anew; empty where it is not to be used."""
    parameters = inspect.signature(function, eval_str=True).parameters
    if list(parameters) != ["value"] or parameters["value"].annotation is inspect.Parameter.empty:
        return inspect.Parameter.empty
    annotation = parameters["value"].annotation
    if annotation not in _PLAIN:
        create_model("Filter", value=(annotation, ...))
    return annotation


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
