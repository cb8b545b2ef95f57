"""The nouns that plugins return and receive: frozen, typed, free of heavy imports.

They are named tuples because every command pays for defining them, and a frozen dataclass costs ten times as much.

A `target` is an import path, `"package.module:attribute"`, resolved only when it is needed, so that a plugin's
entry point costs nothing at start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from kb_framework.errors import Forbidden

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select

    from kb_framework.store.store import Tx

DEFAULT_ORGANIZATION = "00000000-0000-4000-8000-000000000001"
LOCAL_USER = "00000000-0000-4000-8000-000000000002"

Profile = Literal["read", "write", "curate", "admin"]
BuiltInRole = Literal["viewer", "editor", "admin"]

# In a route's `opt`: everyone may ask, with or without a key.
PUBLIC = "public"
# What the person at the data folder holds: every permission there is.
EVERYTHING = frozenset({"*"})


def resolve(target: str) -> Any:
    """The object behind an import path."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


class Actor(NamedTuple):
    """Who asks, and in which organization."""

    organization_id: str = DEFAULT_ORGANIZATION
    user_id: str = LOCAL_USER
    permissions: frozenset[str] = EVERYTHING
    # The key that was shown; None for the person at the data folder.
    key_id: str | None = None

    def may(self, permission: str) -> bool:
        return permission in self.permissions or self.permissions == EVERYTHING

    def require(self, permission: str) -> None:
        if not self.may(permission):
            raise Forbidden(f"this needs the permission {permission}", permission=permission)


# What registration hooks return


class SettingsSection(NamedTuple):
    """A pydantic-settings model (a `kb_framework.settings.Section`), read as `KB_<NAME>_<FIELD>` and `[name]`."""

    name: str
    target: str


class Migration(NamedTuple):
    """One step of a plugin's schema; `target` is called with the transaction, once per database."""

    version: int
    name: str
    target: str


class Permission(NamedTuple):
    """Something a key may be allowed to do: `documents.read`.

    `role` is the least of the built-in roles that has it: an editor has all that a viewer has, an admin everything. With
    `engine` it is about all organizations at once, and only admins of the first organization have it.
    """

    name: str
    help: str
    role: BuiltInRole = "admin"
    engine: bool = False


class Service(NamedTuple):
    """A framework-free class, built once per engine. Handlers receive it by its name, which no field of their bodies may have.

    Its constructor's parameters are filled by name: `store`, `files`, `settings` (the plugin's own section), `host_settings`,
    `plugins`, `selector`, `mutation`, `retrieval`, `embedding`, `access`, or another service's name.
    """

    name: str
    target: str


class Routes(NamedTuple):
    """A Litestar handler or a list of them, mounted under `/api/v1`; with `build`, a function of the plugins that gives them.

    Each names the permission it needs, `opt={"permission": "documents.read"}`. One that names none is refused to every key.
    """

    name: str
    target: str
    build: bool = False


class Command(NamedTuple):
    """A cyclopts command; `"chunks get"` is the command `get` of the group `chunks`.

    With `build`, the target is a function of the plugins and the command's name that returns the command.
    """

    name: str
    target: str
    help: str
    group: str
    build: bool = False
    # Where a command is made of another plugin's contribution: that plugin, which then answers for a clash.
    contributed_by: str = ""


class Tool(NamedTuple):
    """An MCP tool: a function whose first parameter is the engine client; its docstring is the description.

    What it may do is decided by the routes that it asks; `permission` is that of the first of them, and keeps it out of the
    list of those who lack it. With `build`, the target is a function of the plugins and the tool's name that returns it.
    """

    name: str
    target: str
    title: str
    profile: Profile
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    build: bool = False
    contributed_by: str = ""
    permission: str = ""


class ClientMethod(NamedTuple):
    """A method of the engine client: a function whose first parameter is the client."""

    name: str
    target: str
    build: bool = False
    contributed_by: str = ""


class SelectionFilter(NamedTuple):
    """A named condition on documents.

    The target takes one annotated parameter, `value`, and returns a SQL condition over `documents`. The annotation is the
    field's type in bodies, flags and tool parameters.
    """

    name: str
    target: str
    help: str
    flag: str = ""


class Flag(NamedTuple):
    """In a field's `Annotated`: the command-line flag to use instead of the field's own name."""

    name: str


class MutationKind(NamedTuple):
    """An operation on a selection of documents.

    The target is an `Operation`: a pydantic model of the operation's own fields with `apply(tx, documents)`, which changes all
    of them at once. `bulk` offers it over any selection; without it the kind serves single documents only.
    Whoever asks for it needs `permission`.
    """

    name: str
    target: str
    verb: str
    help: str
    destructive: bool = False
    bulk: bool = True
    command: str = ""
    tool: str = ""
    permission: str = "documents.write"

    @property
    def job_type(self) -> str:
        return f"bulk_{self.name}"

    @property
    def route_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def command_name(self) -> str:
        return self.command or f"bulk-{self.route_name}"

    @property
    def tool_name(self) -> str:
        return self.tool or f"kb_bulk_{self.name}"


class Retriever(NamedTuple):
    """A class built like a service, with `retrieve(query, tx) -> list[Candidate]`, best first."""

    name: str
    target: str


class Embedder(NamedTuple):
    """A class built like a service that satisfies `EmbedderObject`."""

    name: str
    target: str


class Extractor(NamedTuple):
    """A function `(data: bytes, name: str) -> Extracted` for files of one kind.

    What a file is, is decided by its content where that tells (`media`), else by its name (`suffixes`). With `isolated`
    it runs in a worker process with limits on time and memory: for whatever parses a complicated format.
    """

    name: str
    target: str
    media: str
    suffixes: tuple[str, ...]
    isolated: bool = False


class Chunker(NamedTuple):
    """A function `(extracted: Extracted) -> list[ChunkText]`."""

    name: str
    target: str


class ExportTable(NamedTuple):
    """A table of the plugin that belongs into exports. It has a column `organization_id`, and `key` names a row in any database.

    A whole-number `id` is kept where it is free. A `document_id` follows its document, which may get another id on import;
    where there is more to it, `adapt` is a function `(row, document_ids) -> row | None` that is given the row and the ids
    that changed, and returns what to insert, or None to leave the row out.
    """

    name: str
    table: str
    key: str
    adapt: str = ""


# What in-flight hooks receive and return


class Selection(NamedTuple):
    """Which documents: the filters that were given, by name."""

    filters: Mapping[str, Any]


class Plan(NamedTuple):
    """A mutation about to happen, with its documents frozen.

    `documents` selects their ids; it is valid inside the transaction it came with and never widens.
    """

    kind: str
    actor: Actor
    operation: Any
    selection: Mapping[str, Any]
    documents: Select
    matched: int


class Objection(NamedTuple):
    """Why one document, or (without an id) the whole plan, must not be changed."""

    reason: str
    document_id: int | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What a transaction did to which documents. `action` is `added`, or the mutation kind's name."""

    action: str
    actor: Actor
    documents: Select
    count: int


class MutationResult(NamedTuple):
    kind: str
    actor: Actor
    job_id: int | None
    matched: int
    succeeded: int
    failed: int
    errors: list[dict[str, Any]]

    @property
    def status(self) -> str:
        return "partial_failure" if self.failed else "done"


class RetrievalQuery(NamedTuple):
    """What to look for. `condition` is the AND of filters and narrowings over `documents` and `chunks`, or None for all.

    `limit` is how many candidates each retriever returns; `retrievers` which of them run.
    """

    text: str
    actor: Actor
    limit: int
    retrievers: tuple[str, ...]
    purpose: str = "search"
    condition: ColumnElement[bool] | None = None


class Candidate(NamedTuple):
    """A chunk by its number in the store, with the retriever's own score: higher is better."""

    chunk: int
    score: float


class Hit(NamedTuple):
    """A fused candidate: its score, and rank and score in each list that had it."""

    chunk: int
    score: float
    ranks: Mapping[str, int]
    scores: Mapping[str, float]


class Attachment(NamedTuple):
    """A file inside a file: a mail's attachment, an archive's member. It becomes a document of its own."""

    name: str
    data: bytes


class Extracted(NamedTuple):
    """A file turned into text; `markdown` says that its structure is marked up as Markdown.

    `pages` says where each page begins, as (offset in the text, page number), in order. `body_start` is where the prose
    begins, after a head that became metadata: the text stays whole, because chunks are cited by its lines.
    """

    text: str
    media: str
    title: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    markdown: bool = False
    pages: tuple[tuple[int, int], ...] = ()
    attachments: tuple[Attachment, ...] = ()
    body_start: int = 0


class ChunkText(NamedTuple):
    content: str
    metadata: Mapping[str, Any] = {}


class EmbedderObject(Protocol):
    """What an embedder target offers.

    A vector is the bytes of `dimensions` float32 numbers, of unit length, or all zeros for a text without content.
    One that needs something first, a file or an address, may have an attribute `problem`: a sentence that says what, or None.
    Meanwhile text is stored and searched without vectors. What fails while encoding raises instead, and nothing is stored.
    """

    model: str
    dimensions: int

    def encode(self, texts: list[str]) -> list[bytes]: ...


class Operation(Protocol):
    """What a mutation kind's target offers."""

    def apply(self, tx: Tx, documents: Select) -> None: ...
