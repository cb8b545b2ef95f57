"""What plugins add to the console: pages, panels on its pages, and their style sheets and scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

Slot = Literal["home", "document", "chunk", "job", "preview"]


class Page(NamedTuple):
    """A page of the console at `/console` + `path`, in its menu under `group`.

    It shows what `operation` answers to the fields of the page's query, or what the target, a `PageTarget`, returns.
    `template` is a Jinja2 file of the plugin's package, `"kb_weather:pages/weather.html"`, with what comes below the page's
    title; it is given the target's values, or the operation's `answer`. Without one they are shown as a table. Only those
    who may call the operation, or have `permission`, see the page. Pages of a group are listed by `rank`.
    """

    name: str
    path: str
    title: str
    group: str = "More"
    operation: str = ""
    template: str = ""
    target: str = ""
    permission: str = ""
    rank: int = 1000


class Panel(NamedTuple):
    """A part of the console's own pages: on the home page, or beside a document, a chunk, a job or a preview.

    The target, a `PanelTarget`, is called with what the page shows. `template` is as for a `Page`; without one the values are
    listed by name.
    """

    name: str
    slot: Slot
    title: str
    target: str
    template: str = ""
    permission: str = ""
    rank: int = 1000


class PageAsset(NamedTuple):
    """A style sheet (`.css`) or module (`.js`) that every page of the console loads: `"kb_weather:pages/weather.css"`."""

    name: str
    file: str


class Call(Protocol):
    """Calls an operation by its name as the person who looks at the page, and returns its answer as JSON would have it."""

    def __call__(self, operation: str, /, **fields: Any) -> Any: ...


class PageTarget(Protocol):
    """What a page's target is: a function of how to call operations and of the page's query, each name with its values.

    It returns the values that its template may use.
    """

    def __call__(self, call: Call, query: Mapping[str, list[str]], /) -> Mapping[str, Any]: ...


class PanelTarget(Protocol):
    """What a panel's target is: a function of how to call operations and of what the page shows.

    For the slot `document` that is the document as `GET /documents/{id}` answers it, and likewise for the others; for `home`
    it is empty. It returns the values to show, or None for no panel here.
    """

    def __call__(self, call: Call, subject: Mapping[str, Any], /) -> Mapping[str, Any] | None: ...
