"""One request of a page: who looks, what the address says, what was sent, and how to answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from kb_console import copy_as
from kb_console.service import Console
from kb_console.shown import address
from kb_framework.api import Actor, Operation
from kb_framework.api.dispatch import from_texts
from kb_framework.errors import KBError, NotFound

Texts = dict[str, list[str]]
# Fields of an address that only one page of a list has: its place, and what was just done.
_OF_ONE_PAGE = ("page", "cursor", "done")


class Html(NamedTuple):
    """A whole page."""

    text: str
    status: int = 200


class Lines(NamedTuple):
    """An answer that is still being made: objects, sent as lines of JSON as they come."""

    parts: Iterator[dict[str, Any]]


class Go(NamedTuple):
    """The address to show next, and what to say there."""

    path: str
    said: str = ""


class View:
    """What a page's function is given."""

    def __init__(
        self,
        console: Console,
        actor: Actor,
        path: Mapping[str, Any],
        query: Texts,
        fields: Texts | None = None,
        files: Any = (),
        cookies: Mapping[str, str] | None = None,
        current: str = "",
        origin: str = "",
    ) -> None:
        self.console = console
        self.actor = actor
        self.path = path
        self.query = query
        self.fields = fields or {}
        self.files = files
        self.cookies = cookies or {}
        self.current = current
        self.origin = origin
        self._calls: list[tuple[Operation[Any, Any], Mapping[str, Any]]] = []

    # What was asked

    def text(self, name: str, default: str = "") -> str:
        """Return a text of the address."""
        return (self.query.get(name) or [default])[-1]

    def field(self, name: str, default: str = "") -> str:
        """Return a text of what was sent."""
        return (self.fields.get(name) or [default])[-1]

    @property
    def page(self) -> int:
        number = self.text("page", "1")
        return int(number) if number.isascii() and number.isdigit() and 0 < len(number) < 10 else 1

    def model(self, name: str) -> type[BaseModel]:
        operation = self.console.operation(name)
        if operation is None:
            raise NotFound(f"there is no operation {name!r}")
        return self.console.dispatcher.model(operation)

    def values(
        self, name: str, texts: Texts | None = None, leave_out: Iterable[str] = ()
    ) -> dict[str, Any]:
        """Return the fields of an operation that the address (or `texts`) names, as their types."""
        return typed(self.model(name), self.query if texts is None else texts, leave_out)

    # Calls

    def may(self, name: str) -> bool:
        return self.console.may(self.actor, name)

    def call(self, name: str, /, **values: Any) -> Any:
        """Call an operation as the person who looks."""
        return self.console.call(self.actor, name, values)

    def call_with(self, name: str, values: Mapping[str, Any]) -> Any:
        return self.console.call(self.actor, name, values)

    def main(self, name: str, values: Mapping[str, Any]) -> Any:
        """Call the operation that the page is about: the page offers it as a command, a request and a tool call."""
        self.note(name, values)
        return self.console.call(self.actor, name, values)

    def note(self, name: str, values: Mapping[str, Any]) -> None:
        """Offer a call of an operation as a command, a request and a tool call."""
        operation = self.console.operation(name)
        if operation is not None:
            self._calls.append((operation, values))

    def attempt(self, name: str, /, **values: Any) -> Any:
        """Return what an operation answers, None where the person may not call it or it fails."""
        if not self.may(name):
            return None
        try:
            return self.call(name, **values)
        except KBError:
            return None

    # Answers

    def show(self, template: str, title: str, *, status: int = 200, **values: Any) -> Html:
        """Return a page."""
        return Html(
            self.console.render(
                template,
                title=title,
                view=self,
                may=self.may,
                menu=self._menu(),
                who=self._who(),
                here=self.current,
                copies=[copy_as.copies(self.console.plugins, *call) for call in self._calls],
                **values,
            ),
            status,
        )

    def _menu(self) -> list[tuple[str, list[Any]]]:
        groups: dict[str, list[Any]] = {}
        for page in self.console.pages(self.actor):
            groups.setdefault(page.group, []).append(page)
        return list(groups.items())

    def _who(self) -> Any:
        return self.attempt("whoami")

    def at(self, path: str) -> str:
        """Return the address of another page with the fields of this one."""
        return address(path, self.query)

    def without(self, *names: str, **changed: Any) -> str:
        """Return this page's address without some fields, and with others set."""
        return address(self.current, {**self._kept(*names), **changed})

    def without_value(self, name: str, value: str) -> str:
        """Return this page's address without one value of a field."""
        kept = self._kept()
        kept[name] = [item for item in kept.get(name, []) if item != value]
        return address(self.current, kept)

    def with_value(self, name: str, value: str) -> str:
        """Return this page's address with one more value of a field."""
        kept = self._kept()
        return address(self.current, {**kept, name: [*kept.get(name, []), value]})

    def _kept(self, *without: str) -> Texts:
        """Return the fields of the address that another page of the same list has too."""
        left_out = {*without, *_OF_ONE_PAGE}
        return {name: values for name, values in self.query.items() if name not in left_out}


def typed(model: type[BaseModel], texts: Texts, leave_out: Iterable[str] = ()) -> dict[str, Any]:
    """Return the values of a model's fields that were sent as text; empty ones were not given."""
    skipped = set(leave_out)
    given = {
        name: [value for value in values if value != ""]
        for name, values in texts.items()
        if name in model.model_fields and name not in skipped
    }
    return from_texts(model, {name: values for name, values in given.items() if values})
