"""What registration hooks return: frozen descriptions, by name and import path.

They are named tuples because every command pays for defining them, and a frozen dataclass costs ten times as much. Write
their fields by name: the order is not part of the interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

Profile = Literal["read", "write", "curate", "admin"]
BuiltInRole = Literal["viewer", "editor", "admin"]
Over = Literal["documents", "chunks"]


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

    It returns a `kb_framework.api.engine.Engine`. `scheme` is that of KB_DATABASE_URL; `sqlite` is used without one.
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

    Lists of commands show the first line of `help`; `examples` are command lines.

    The flags of the command of an `Operation` are the fields of the operation's input, less those in `omit`; with `only`, those
    fields alone, in this order. Those in `positional` are arguments without a flag, of which a list takes all words that are
    left. `flags` renames some, `defaults` replaces their defaults. `words` is a field of text that takes all words that are
    left, or standard input for `-` and, with `stdin`, where there are none. `render` is the target of a function
    `(cli, answer, given)` that prints the answer and may return an exit code.

    A command that is more than one call of its operation has a target: a function `(cli, operation, given, …) -> int | None`,
    called with the fields that were given. Its further parameters are further arguments and flags.
    """

    name: str
    target: str = ""
    help: str = ""
    group: str = ""
    # Where a command is made of another plugin's contribution: that plugin, which then answers for a clash.
    contributed_by: str = ""
    # What the group of its first word is for, as a sentence; one command of the group says it.
    about: str = ""
    render: str = ""
    positional: tuple[str, ...] = ()
    words: str = ""
    stdin: bool = False
    only: tuple[str, ...] = ()
    omit: tuple[str, ...] = ()
    flags: Mapping[str, str] = {}
    defaults: Mapping[str, Any] = {}
    examples: tuple[str, ...] = ()


class Tool(NamedTuple):
    """An MCP tool: a function whose first parameter is the engine client; its docstring is the description.

    With `asks`, the function's second parameter is an `Ask`; with `samples`, it is a `Sample`. The operations that it calls
    decide what it may do; `permission` is that of the first of them, and hides the tool from those who lack it.

    The tool of an `Operation` needs no target: its parameters are the fields of the operation's
    input, less those in `omit`, with the defaults of `defaults` and the operation's permission.
    Those in `seldom` are only named, in the parameter `filters`; the parts of those in `brief` are
    not described. `help` is its description, or `describe`, the target of a function `(operation)
    -> str`; without either the operation's. `shape` is the target of a function `(answer) -> dict`
    that makes an answer leaner for a model. With a target, that function is called instead: with
    the engine, the operation, the `Ask` or `Sample`, and these parameters by name; its keyword-only
    parameters that are no fields of the input are further parameters of the tool.
    """

    name: str
    target: str = ""
    title: str = ""
    profile: Profile = "read"
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    contributed_by: str = ""
    asks: bool = False
    samples: bool = False
    permission: str = ""
    help: str = ""
    describe: str = ""
    omit: tuple[str, ...] = ()
    seldom: tuple[str, ...] = ()
    brief: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = {}
    shape: str = ""


class SelectionFilter(NamedTuple):
    """A named condition on documents, or on chunks, that selects the same in changes, searches, lists, contexts and exports.

    The target takes one annotated parameter, `value`, and returns a SQL condition over `documents`; one over chunks may use
    `chunks` too. It may also take `tx`, `plugins` and `selector`, by name. The annotation is the field's type in bodies,
    flags and tool parameters. Operations on chunks take both: a document's filter selects the chunks of the documents that
    match. With `lifts`, a filter over chunks is also one of documents: those that have such a chunk. Its condition is then
    over `chunks` alone. With `seldom`, MCP tools describe it among others in one parameter, since models pay for each.
    """

    name: str
    target: str
    help: str
    flag: str = ""
    over: Over = "documents"
    lifts: bool = False
    seldom: bool = False


class Seldom(NamedTuple):
    """In a field's `Annotated`: a tool takes it inside of its parameter `filters`, where it has that."""


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
    """A class built like a service, with `search(query: ResearchQuery) -> list[ResearchResult]`, best first.

    Its attribute `filters` names the filters of selections that it applies; without it `tags`, `created_after` and
    `created_before`. While a request has other filters, the source is left out and a hint says so.
    """

    name: str
    target: str


class WireObject(NamedTuple):
    """What is sent under a name and a version, `"weather_report.v1"`.

    The target is its pydantic model, or a function of the plugins that returns it.
    """

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

    The target is called with the address, or None, and the data folder, and returns a `kb_framework.api.parts.Files`.
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
