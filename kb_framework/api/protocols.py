"""What the targets of descriptions offer, as types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sqlalchemy import Select

    from kb_framework.api.nouns import (
        Answer,
        Candidate,
        ChunkText,
        Extracted,
        Finding,
        Hit,
        ResearchQuery,
        ResearchResult,
        RetrievalQuery,
        Sampled,
    )
    from kb_framework.storage.store import Tx


class CheckObject(Protocol):
    """What a check's target offers. These methods may be added:

    - `repair() -> Iterator[str | Progress]` repairs what is wrong, for `kb doctor --repair`. It yields a sentence for each
      thing that it did. It may be given up after any event, so it holds no lock and no transaction when it yields.
    - `check_all() -> Iterator[Finding | Progress]` reads everything, for `kb doctor --deep`, where `check` reads a part.
    - `rebuild() -> Iterator[Progress]` makes derived data again whatever its state, for `kb reindex`, after the vectors.
    """

    def check(self) -> Iterable[Finding]: ...


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


class Sample(Protocol):
    """Has the MCP client's own model answer a prompt. Some clients come back with it in a second call, as with `Ask`."""

    # Whether there is a client that offers its model.
    possible: bool
    answer: Sampled | None

    def __call__(self, prompt: str, max_tokens: int, state: str) -> Sampled: ...


class MutationObject(Protocol):
    """What a mutation kind's target offers; `selected` selects the ids of documents, or the numbers of chunks.

    `apply` may have a further parameter, `actor`: who asked for the change.

    One over documents that leaves every chunk as it is may say so with a class attribute, `keeps_chunks = True`: nobody need
    look for chunks that are gone.
    """

    def apply(self, tx: Tx, selected: Select, /) -> None: ...


class RetrieverObject(Protocol):
    """What a retriever's target offers; `Retriever` says what may be added."""

    def retrieve(self, query: RetrievalQuery, tx: Tx, /) -> Iterable[Candidate]: ...


class RerankerObject(Protocol):
    """What a reranker's target offers: the same hits, better ordered."""

    def rerank(self, query: RetrievalQuery, hits: Sequence[Hit], tx: Tx, /) -> Iterable[Hit]: ...


class ResearchSourceObject(Protocol):
    """What a research source's target offers: whole snippets, best first."""

    def search(self, query: ResearchQuery, /) -> Iterable[ResearchResult]: ...


class ExtractorFunction(Protocol):
    """What an extractor's target is: it turns a file's bytes, with its name, into text."""

    def __call__(self, data: bytes, name: str, /) -> Extracted: ...


class ChunkerFunction(Protocol):
    """What a chunker's target is: it cuts a text into chunks."""

    def __call__(self, extracted: Extracted, /) -> list[ChunkText]: ...


class MigrationFunction(Protocol):
    """What a migration's target is. It runs once for each database, under the write lock."""

    def __call__(self, tx: Tx, /) -> object: ...


class AdaptFunction(Protocol):
    """What the `adapt` of an export table is: the row to insert, given the document ids that changed, or None."""

    def __call__(
        self, row: Mapping[str, Any], document_ids: Mapping[int, int], /
    ) -> Mapping[str, Any] | None: ...
