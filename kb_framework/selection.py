"""Selections: which documents an operation is about. Filters come from plugins; an empty selection is never 'all'."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Annotated, Any

import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, Field, create_model

from kb_framework.api import Selection, resolve
from kb_framework.errors import InvalidInput
from kb_framework.plugins import Plugins
from kb_framework.validation import validate


class SelectionFields(BaseModel):
    """The base of every body that selects documents; the filters of all plugins are its fields."""

    model_config = ConfigDict(extra="forbid")


class Selector:
    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins

    def fields(self) -> dict[str, Any]:
        """The filters as optional fields for `pydantic.create_model`; null means absent."""
        found: dict[str, Any] = {}
        for item in self._plugins.filters:
            parameter = inspect.signature(resolve(item.target), eval_str=True).parameters["value"]
            found[item.name] = (Annotated[parameter.annotation | None, Field(description=item.help)], None)
        return found

    def parse(self, values: Mapping[str, Any]) -> Selection:
        """Validate filter values given by name."""
        model = create_model("Selection", __base__=SelectionFields, **self.fields())
        return self.given(validate(model, dict(values)))

    def given(self, body: BaseModel) -> Selection:
        """The filters that a body names. None at all is refused."""
        names = [item.name for item in self._plugins.filters]
        chosen = {name: value for name in names if (value := getattr(body, name, None)) is not None}
        if not chosen:
            raise InvalidInput(f"no selection: give at least one of {', '.join(names)}", field=names[0] if names else None)
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
