"""The nouns that plugins return and receive: frozen, typed, free of heavy imports.

They are named tuples because every command pays for defining them, and a frozen dataclass costs ten times as much.

A `target` is an import path, `"package.module:attribute"`, resolved only when it is needed, so that a plugin's
entry point costs nothing at start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from kb_framework.api.operation import Download as Download
from kb_framework.api.operation import Http as Http
from kb_framework.api.operation import Operation as Operation
from kb_framework.errors import Forbidden

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import ColumnElement, Select

    from kb_framework.storage.store import Tx
    from kb_framework.storage.text_query import Expression

DEFAULT_ORGANIZATION = "00000000-0000-4000-8000-000000000001"
LOCAL_USER = "00000000-0000-4000-8000-000000000002"

# With it a client says that a model reads the answer.
READER_HEADER = "KB-Reader"

Profile = Literal["read", "write", "curate", "admin"]
BuiltInRole = Literal["viewer", "editor", "admin"]
Reader = Literal["person", "model"]
Over = Literal["documents", "chunks"]

# In a route's `opt`: everyone may ask, with or without a key.
PUBLIC = "public"
# In a route's `opt`: whoever shows a key may ask, whatever it allows. Behind it there is nothing but who they are (`/whoami`), or
# what is authenticated again (`/mcp`).
ANY_KEY = "any key"
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
    # Who reads the answer. What a plugin keeps from models is left out for "model"; it can only take away.
    reader: Reader = "person"

    def may(self, permission: str) -> bool:
        return permission in self.permissions or self.permissions == EVERYTHING

    def require(self, permission: str) -> None:
        if not self.may(permission):
            raise Forbidden(f"this needs the permission {permission}", permission=permission)


class Credentials(NamedTuple):
    """What a request shows: the key of its Authorization header, its headers by lower-case name, and where it comes from."""

    key: str | None
    headers: Mapping[str, str]
    address: str


# What registration hooks return


class SettingsSection(NamedTuple):
    """A pydantic-settings model (a `kb_framework.settings.Section`), read as `KB_<NAME>_<FIELD>` and `[name]`.

    With `top_level` its variables are `KB_<FIELD>`, and its entries are at the top of a TOML file.
    """

    name: str
    target: str
    top_level: bool = False

    @property
    def prefix(self) -> str:
        return "KB_" if self.top_level else f"KB_{self.name.upper()}_"


class Hookspecs(NamedTuple):
    """The import path of a module that specifies hooks, `"kb_weather.hookspecs"`."""

    module: str

    @property
    def name(self) -> str:
        return self.module


class Store(NamedTuple):
    """A kind of database. `target` is called with a `StoreLocation` and the plugin's settings (None if it declares none).

    It returns a `kb_framework.storage.contract.Engine`. `scheme` is that of KB_DATABASE_URL; `sqlite` is used without one.
    """

    name: str
    scheme: str
    target: str


class StoreLocation(NamedTuple):
    """Where a database is: at the address in KB_DATABASE_URL or, without one, in the data folder."""

    url: str | None
    data_dir: Path
    # Seconds to wait for another process's write.
    busy_timeout: float


class Migration(NamedTuple):
    """One step of a plugin's schema; `target` is called with the transaction, once per database.

    A database records its steps under the plugin's name, or under `recorded_as`.
    """

    version: int
    name: str
    target: str
    recorded_as: str = ""


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

    Its constructor's parameters are filled by name: `store`, `files`, `settings` (the plugin's first section) or
    `<section>_settings`, `host_settings`, `plugins`, `selector`, `mutation`, `retrieval`, `access`, `all_settings`,
    `build` (makes a plugin's object, by plugin and target), `services` (all of them, by name), `dispatcher`,
    or another service's name.
    A parameter with a default keeps it where nothing has its name: the plugin that offers it may be switched off.
    `capabilities` are what an engine with this service can do, for `GET /api/v1/schema`.
    """

    name: str
    target: str
    capabilities: tuple[str, ...] = ()


class Routes(NamedTuple):
    """A Litestar handler or a list of them, mounted under `/api/v1`; with `build`, a function of the plugins that gives them.

    With a `base`, such as `/console`, they are pages: mounted there, and left out of the API's documentation.
    Each names the permission it needs, `opt={"permission": "documents.read"}`. One that names none is refused to every key.
    """

    name: str
    target: str
    build: bool = False
    base: str = ""


class Command(NamedTuple):
    """A cyclopts command; `"chunks get"` is the command `get` of the group `chunks`.

    With `build`, the target is a function of the plugins and the command's name that returns the command.

    The command of an `Operation` has no target: its flags are the fields of the operation's input, less those in `omit`;
    those in `positional` are arguments without a flag, of which a list takes all words that are left. `flags` renames some.
    `words` is a field of text that takes all words that are left, or standard input for `-` and, with `stdin`, where there
    are none. `render` is the target of a function `(cli, answer, given)` that prints the answer and may return an exit code.
    `examples` are command lines.
    """

    name: str
    target: str = ""
    help: str = ""
    group: str = ""
    build: bool = False
    # Where a command is made of another plugin's contribution: that plugin, which then answers for a clash.
    contributed_by: str = ""
    # What the group of its first word is for, as a sentence; one command of the group says it.
    about: str = ""
    render: str = ""
    positional: tuple[str, ...] = ()
    words: str = ""
    stdin: bool = False
    omit: tuple[str, ...] = ()
    flags: Mapping[str, str] = {}
    examples: tuple[str, ...] = ()


class Tool(NamedTuple):
    """An MCP tool: a function whose first parameter is the engine client; its docstring is the description.

    With `build`, the target is a function of the plugins and the tool's name that returns it. With `asks`, the function's second
    parameter is an `Ask`; with `samples`, it is a `Sample`. What it may do is decided by the routes that it asks;
    `permission` is that of the first of them, and keeps it out of the list of those who lack it.

    The tool of an `Operation` needs no target: its parameters are the fields of the operation's input, less those in `omit`,
    with the defaults of `defaults` and the operation's permission. `help` is its description; without one the operation's.
    `shape` is the target of a function `(answer) -> dict` that makes an answer leaner for a model. One with `asks` or `samples`
    has a target, which is called with these parameters by name.
    """

    name: str
    target: str = ""
    title: str = ""
    profile: Profile = "read"
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    build: bool = False
    contributed_by: str = ""
    asks: bool = False
    samples: bool = False
    permission: str = ""
    help: str = ""
    omit: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = {}
    shape: str = ""


class ClientMethod(NamedTuple):
    """A method of the engine client: a function whose first parameter is the client."""

    name: str
    target: str
    build: bool = False
    contributed_by: str = ""


class SelectionFilter(NamedTuple):
    """A named condition on documents, or on chunks, that selects the same in changes, searches, lists, contexts and exports.

    The target takes one annotated parameter, `value`, and returns a SQL condition over `documents`; one over chunks may use
    `chunks` too. It may also take `tx`, `plugins` and `selector`, by name. The annotation is the field's type in bodies,
    flags and tool parameters. Operations on chunks take both: a document's filter selects the chunks of the documents that
    match. With `lifts`, a filter over chunks is also one of documents: those that have such a chunk. Its condition is then
    over `chunks` alone.
    """

    name: str
    target: str
    help: str
    flag: str = ""
    over: Over = "documents"
    lifts: bool = False


class Flag(NamedTuple):
    """In a field's `Annotated`: the command-line flag to use instead of the field's own name."""

    name: str


class MutationKind(NamedTuple):
    """An operation on a selection of documents, or of chunks.

    The target is a `MutationObject`: a pydantic model of the operation's own fields with `apply(tx, selected)`, which changes all
    of them at once. `bulk` offers it over any selection; without it the kind serves single documents or chunks only.
    `route`, `command` and `tool` replace the names that are made of the kind's own. `example` is what follows the command's name
    where its help shows how to use it. Whoever asks for it needs `permission`.
    """

    name: str
    target: str
    verb: str
    help: str
    destructive: bool = False
    bulk: bool = True
    command: str = ""
    tool: str = ""
    over: Over = "documents"
    route: str = ""
    permission: str = "documents.write"
    example: str = ""

    @property
    def job_type(self) -> str:
        return f"bulk_{self.name}"

    @property
    def path(self) -> str:
        return (
            self.route
            or f"{'/chunks' if self.over == 'chunks' else ''}/bulk/{self.name.replace('_', '-')}"
        )

    @property
    def command_name(self) -> str:
        return self.command or f"bulk-{self.name.replace('_', '-')}"

    @property
    def tool_name(self) -> str:
        return self.tool or f"kb_bulk_{self.name}"


class Retriever(NamedTuple):
    """A class built like a service, with `retrieve(query, tx) -> list[Candidate]`, best first.

    It may have `weight(query) -> float`: how much its list counts for this query where lists are fused, 1 by default; and
    `hint(query, tx) -> str | None`: what whoever asked should know, such as that it would find more with another model. With
    `retrieve_all(queries, tx) -> list[list[Candidate]]` it answers several queries at once, each as it would alone; if that
    raises, they are asked one by one.
    """

    name: str
    target: str


class Reranker(NamedTuple):
    """A class built like a service, with `rerank(query, hits, tx) -> list[Hit]`: the same hits, better ordered."""

    name: str
    target: str


class Embedder(NamedTuple):
    """A class built like a service that satisfies `EmbedderObject`."""

    name: str
    target: str


class Extractor(NamedTuple):
    """A function `(data: bytes, name: str) -> Extracted` for files of one kind.

    What a file is, is decided by its content where that tells (`media`), else by its name (`suffixes`). It runs in a worker
    process with limits on time, memory and output: whatever a file does to it costs that one file.

    Of several extractors for one kind of file the one with the highest `precedence` is used. The built-in ones have 0, so an
    extractor that says nothing replaces them. Where it raises `NoText`, the one with the next lower precedence is used, so a
    negative precedence is for files that the built-in extractors find no text in. Two plugins with the same precedence for one
    kind clash.
    """

    name: str
    target: str
    media: str
    suffixes: tuple[str, ...]
    precedence: int = 100

    @property
    def claims(self) -> tuple[str, ...]:
        """The kinds of files that it reads."""
        return (self.media, *self.suffixes)


class Chunker(NamedTuple):
    """A function `(extracted: Extracted) -> list[ChunkText]`.

    A file's text is cut in the process that read it, within the same limits; that of a note in the engine's own.
    """

    name: str
    target: str


class ChunkColumn(NamedTuple):
    """A column that the plugin's migration added to `chunks`, with a default for rows that do not name it.

    `in_chunks` shows it wherever a chunk is read, `in_hits` in every search hit. It stays with the chunk when a document is
    read again, and goes into exports, because it is part of the row.
    """

    name: str
    type: Literal["text", "boolean", "number", "json"] = "text"
    in_chunks: bool = True
    in_hits: bool = False


class Generator(NamedTuple):
    """A class built like a service that satisfies `GeneratorObject`."""

    name: str
    target: str


class ResearchSource(NamedTuple):
    """A class built like a service, with `search(query: ResearchQuery) -> list[ResearchResult]`, best first."""

    name: str
    target: str


class WireObject(NamedTuple):
    """What is sent under a name and a version, `"weather_report.v1"`: the target is its pydantic model."""

    name: str
    target: str


class Check(NamedTuple):
    """Something that `kb doctor` checks: a class built like a service that satisfies `CheckObject`.

    Checks run in the order of `rank`, those with the same in the order of loading. The built-in ones have less than 100.
    """

    name: str
    target: str
    rank: int = 1000


class FileStore(NamedTuple):
    """A place for stored files, chosen by the scheme of KB_FILES_URL; `file` is also used without one.

    The target is called with the address, or None, and the data folder, and returns a `kb_framework.files.Files`.
    """

    name: str
    scheme: str
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


# What checks yield

Level = Literal["ok", "warning", "error"]


class Finding(NamedTuple):
    """What a check found: `name` is what it is about, `hint` what to do about it."""

    level: Level
    name: str
    message: str
    hint: str = ""


class Progress(NamedTuple):
    """What is under way, and how far it is."""

    what: str
    done: int
    total: int | None


class CheckObject(Protocol):
    """What a check's target offers. These methods may be added:

    - `repair() -> Iterator[str | Progress]` repairs what is wrong, for `kb doctor --repair`. It yields a sentence for each
      thing that it did. It may be given up after any event, so it holds no lock and no transaction when it yields.
    - `check_all() -> Iterator[Finding | Progress]` reads everything, for `kb doctor --deep`, where `check` reads a part.
    - `rebuild() -> Iterator[Progress]` makes derived data again whatever its state, for `kb reindex`, after the vectors.
    """

    def check(self) -> Iterable[Finding]: ...


# What in-flight hooks receive and return


class Selection(NamedTuple):
    """Which documents or chunks: the filters that were given, by name."""

    filters: Mapping[str, Any]


class Plan(NamedTuple):
    """A mutation about to happen, with what it is about frozen; `matched` counts that.

    `documents` selects the ids of the documents concerned. Where the kind acts on chunks, `chunks` selects their numbers
    (`chunks.seq`), and `documents` the documents that they belong to. Both are valid inside the transaction they came with
    and never widen. Of an addition (`kind` is "add", one document) the `operation` is None.
    """

    kind: str
    actor: Actor
    operation: Any
    selection: Mapping[str, Any]
    documents: Select
    matched: int
    chunks: Select | None = None


class Objection(NamedTuple):
    """Why one document, one chunk, or (without an id) the whole plan must not be changed.

    Whatever the kind acts on, an objection covers what it names: one to a document also its chunks, one to a chunk also
    the document that would change with it.
    """

    reason: str
    document_id: int | None = None
    chunk_id: str | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What a transaction did to which documents. `action` is `added`, or the mutation kind's name; `count` counts documents.

    Where the kind acts on chunks, `chunks` selects the numbers of those that it changed.
    """

    action: str
    actor: Actor
    documents: Select
    count: int
    chunks: Select | None = None


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

    `limit` is how many candidates each retriever returns; `retrievers` which of them run. Whoever asks several questions at
    once may give the text's `vector`, to have them all embedded in one go. An `expression` says what full text must match;
    without one any of the text's words will do. `weights` is for fusion: what a retriever says its list is worth for this
    query, where it says so.
    """

    text: str
    actor: Actor
    limit: int
    retrievers: tuple[str, ...]
    purpose: str = "search"
    condition: ColumnElement[bool] | None = None
    vector: bytes | None = None
    expression: Expression | None = None
    weights: Mapping[str, float] = {}


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


class ScoredChunk(NamedTuple):
    """A hit with its text, for whoever judges whether it is relevant."""

    chunk: int
    chunk_id: str
    title: str
    content: str
    score: float
    ranks: Mapping[str, int]
    scores: Mapping[str, float]


class Rejection(NamedTuple):
    """Why a hit, by its number, is not relevant."""

    chunk: int
    reason: str


class ResearchQuery(NamedTuple):
    """What to look for in a source, and what must hold: all tags, one of the types, the times, the beginning of a path."""

    text: str
    actor: Actor
    limit: int
    tags: tuple[str, ...] = ()
    source_types: tuple[str, ...] = ()
    created_after: str | None = None
    created_before: str | None = None
    path_prefix: str | None = None


class ResearchResult(NamedTuple):
    """A whole snippet with where it is from. What is a chunk already says so, and what that chunk was decided to be."""

    snippet_text: str
    score: float
    source_type: str
    source_ref: str | None = None
    source_title: str | None = None
    chunk_id: str | None = None
    document_id: int | None = None
    chunk_kind: str | None = None
    usage_policy: str | None = None


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
    One that knows some languages only may have `languages`, a set of ISO 639-1 codes: for questions in others it counts less.
    """

    model: str
    dimensions: int

    def encode(self, texts: list[str]) -> list[bytes]: ...


class GeneratorObject(Protocol):
    """What a generator target offers.

    `generate` gives the text piece by piece, as it comes. One that needs something first, a key or an address, may have an
    attribute `problem`: a sentence that says what, or None. What fails raises a `KBError`.
    """

    model: str

    def generate(self, prompt: str) -> Iterator[str]: ...


class Answer(NamedTuple):
    """What a person said to a tool's question, with what the tool wanted to remember meanwhile."""

    action: Literal["accept", "decline", "cancel"]
    state: str


class Ask(Protocol):
    """Puts a yes-or-no question to the person behind an MCP client.

    Some clients answer while the tool waits. Others come back with the answer in a second call, in which the tool finds it in
    `answer` with the state that it gave: so look there first. The state is seen by the client, and what comes back is what the
    client sends: it has to prove itself.
    """

    # Whether there is a client that can ask.
    possible: bool
    answer: Answer | None

    def __call__(self, question: str, state: str) -> Answer: ...


class Sampled(NamedTuple):
    """What the MCP client's own model made of a prompt, with what the tool wanted to remember meanwhile."""

    text: str
    model: str
    state: str


class Sample(Protocol):
    """Has the MCP client's own model answer a prompt. Some clients come back with it in a second call, as with `Ask`."""

    # Whether there is a client that offers its model.
    possible: bool
    answer: Sampled | None

    def __call__(self, prompt: str, max_tokens: int, state: str) -> Sampled: ...


class MutationObject(Protocol):
    """What a mutation kind's target offers; `selected` selects the ids of documents, or the numbers of chunks.

    One over documents that leaves every chunk as it is may say so with a class attribute, `keeps_chunks = True`: nobody need
    look for chunks that are gone.
    """

    def apply(self, tx: Tx, selected: Select, /) -> None: ...
