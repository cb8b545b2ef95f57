"""What hooks and their targets receive and return while an operation runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kb_framework.errors import Forbidden

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select

    from kb_framework.api.text_query import Expression

DEFAULT_ORGANIZATION = "00000000-0000-4000-8000-000000000001"
LOCAL_USER = "00000000-0000-4000-8000-000000000002"
# With it a client says that a model reads the answer.
READER_HEADER = "KB-Reader"
Reader = Literal["person", "model"]
# In a route's `opt`: everyone may ask, with or without a key.
PUBLIC = "public"
# In a route's `opt`: whoever shows a key may ask, whatever it allows. Behind it there is nothing but who they are (`/whoami`), or
# what is authenticated again (`/mcp`).
ANY_KEY = "any key"
# What the person at the data folder holds: every permission there is.
EVERYTHING = frozenset({"*"})


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
    """What to look for in a source, and what must hold: all tags, one of the types, the times, the beginning of a path.

    `filters` are all filters that were given, by name. A source is asked only where it applies every one of them.
    """

    text: str
    actor: Actor
    limit: int
    tags: tuple[str, ...] = ()
    source_types: tuple[str, ...] = ()
    created_after: str | None = None
    created_before: str | None = None
    path_prefix: str | None = None
    filters: Mapping[str, Any] = {}


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


class Answer(NamedTuple):
    """What a person said to a tool's question, with what the tool wanted to remember meanwhile."""

    action: Literal["accept", "decline", "cancel"]
    state: str


class Sampled(NamedTuple):
    """What the MCP client's own model made of a prompt, with what the tool wanted to remember meanwhile."""

    text: str
    model: str
    state: str
