"""How a plugin states an operation: once, for HTTP, the command line, MCP and the client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    from kb_framework.api import Command, Tool

In = TypeVar("In")
Out = TypeVar("Out")

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Dialect = Literal["flat", "v1", "envelope"]
# What a request carries: a JSON object, bytes, bytes in parts (an `Upload`), or a form with files.
Content = Literal["json", "bytes", "stream", "form"]


class Http(NamedTuple):
    """The request of an operation, under `/api/v1`.

    `path` has Litestar's typed parameters (`/jobs/{job_id:int}`), each a field of the input. The other fields are the query
    of a GET or DELETE and the JSON body of any other method, except those in `query`. `answers` documents further status
    codes as (model target, description). With `by_hand`, the route itself is one of the plugin's `kb_routes`.
    """

    method: Method
    path: str
    status: int = 200
    query: tuple[str, ...] = ()
    content: Content = "json"
    # For a form: the target of a function `(fields, content)` that returns its fields, and its files as (field, name, bytes).
    form: str = ""
    # The media type of an answer that is a `Download`.
    download: str = ""
    # The answer is an iterator of `output`, sent as lines of JSON as they come. An error after the first is the last line.
    lines: bool = False
    errors: Dialect = "flat"
    answers: Mapping[int, tuple[str, str]] = {}
    # The message of an unexpected error, where a document prescribes one.
    failure: str = ""
    by_hand: bool = False
    # The largest body in bytes; 0 for KB_MAX_BODY_BYTES. The service itself limits bytes in parts.
    max_body_bytes: int = 0

    @property
    def sends_query(self) -> bool:
        """Whether all fields that are not in the path are sent in the query."""
        return self.method in ("GET", "DELETE") or self.content in ("bytes", "stream")


class Download(NamedTuple):
    """Bytes in parts, as the answer of an operation."""

    parts: Iterator[bytes]
    media: str
    headers: Mapping[str, str] = {}


class Upload(NamedTuple):
    """Bytes in parts, sent beside the fields of an operation; `length` is 0 where nobody knows it."""

    parts: Iterable[bytes]
    length: int


class Operation(NamedTuple, Generic[In, Out]):
    """One request and its answer, on every surface that it names.

    `call` is `"service.method"`, called with the input and the actor, or the import path of a function (`"module:name"`)
    whose keyword-only parameters are the input's fields and whose other parameters are filled by name: `tx`, `actor`,
    `settings`, a part of the host, or a service. `input` and `output` are targets of pydantic models, `output` also of a
    union of them; a function states both by its signature. Where the input depends on what plugins contribute, `input` is
    a function `(plugins)` that returns the model. With a `subject` it is a function `(plugins, subject)`, and the subject
    is the method's first argument. `help` is a sentence for the route, the command and the tool.
    """

    name: str
    call: str
    permission: str
    http: Http
    input: str = ""
    output: str = ""
    help: str = ""
    command: Command | None = None
    tool: Tool | None = None
    subject: Any = None
    # Where an operation is made of another plugin's contribution: that plugin, which then answers for a clash.
    contributed_by: str = ""

    def __deepcopy__(self, memo: Any) -> Operation[In, Out]:
        """Return itself: nothing in it changes, and Litestar copies what a handler carries."""
        return self
