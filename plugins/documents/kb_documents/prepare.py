"""The slow part of ingesting, before the write lock is taken: read, cut and embed files, several at a time."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import NamedTuple

from kb_models.api import Embedding, embedded_text
from kb_text.api import detect_by

from kb_documents.document_rows import content_hash
from kb_documents.extraction import Extraction, LeftOut
from kb_documents.models import FileFields, NoteIn
from kb_documents.reading import Cutting, Parts, take_apart
from kb_documents.skip_rules import kind_inside, why_unread
from kb_framework.api import Actor, Chunker, ChunkText, Extracted
from kb_framework.api.parts import HostSettings, Plugins
from kb_framework.errors import ConfigInvalid, KBError, PayloadTooLarge

# In a document's metadata: how many files its file holds.
HOLDS = "attachments"
# There as well: files inside that could not be read, or not all of them.
NOT_READ = frozenset({"not_read", "files_not_read", "empty_files"})
# Chunks that are embedded in one call.
_AT_ONCE = 1024


class Queued(NamedTuple):
    """The job of a file that waited, and the lease of the worker who has it."""

    job_id: int
    uuid: str
    lease: str


@dataclass(frozen=True, slots=True)
class Incoming:
    data: bytes
    filename: str
    fields: NoteIn | FileFields
    actor: Actor
    started: str
    is_note: bool = False
    # How many files this one is inside of.
    depth: int = 0
    queued: Queued | None = None
    # For a file inside another: the reading of the outermost file.
    reading: str | None = None
    content_hash: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "content_hash", sha256(self.data).hexdigest())

    def new_job(self) -> str:
        """The UUID of the job that is about this file."""
        return self.queued.uuid if self.queued else str(uuid.uuid4())

    @property
    def source(self) -> str | None:
        return getattr(self.fields, "source", None)

    @property
    def path(self) -> str | None:
        return None if self.is_note else getattr(self.fields, "path", None) or self.filename


@dataclass(slots=True)
class Ready:
    """What the slow part made of a file."""

    # All but the text, which the pieces hold.
    extracted: Extracted
    title: str
    lang: str | None
    pieces: list[ChunkText]
    words: Sequence[Sequence[str]] | None
    # By content hash, of the chunks that are new.
    vectors: dict[str, bytes] = field(default_factory=dict)


def _name_inside(incoming: Incoming) -> str:
    """Return the name of a file in the file that holds it."""
    outer = str(incoming.fields.metadata.get("parent_path"))
    return (incoming.path or incoming.filename).removeprefix(f"{outer}/")


class Preparation:
    def __init__(self, plugins: Plugins, embedding: Embedding, host_settings: HostSettings) -> None:
        self._plugins = plugins
        self._embedding = embedding
        self._settings = host_settings
        self._extraction = Extraction(plugins, host_settings)

    def close(self) -> None:
        self._extraction.close()

    def prepare(self, several: Sequence[tuple[Incoming, set[str]]]) -> list[Ready | KBError]:
        """Each file made ready, or why it cannot be. With each come the hashes of chunks that have their vectors already."""
        made = [self._cut(incoming) for incoming, _ in several]
        new = (
            (ready, _new_pieces(ready, there))
            for ready, (_, there) in zip(made, several, strict=True)
            if isinstance(ready, Ready)
        )
        waiting = (
            (ready, digest, piece) for ready, pieces in new for digest, piece in pieces.items()
        )
        try:
            # Part by part: of a large file the texts that are embedded must not all be there at once.
            while part := list(islice(waiting, _AT_ONCE)):
                self._embed(part)
        except KBError as error:
            # What is told of one file must not be written into what is told of another.
            return [ready if isinstance(ready, KBError) else _alike(error) for ready in made]
        return made

    def extract(self, incoming: Incoming) -> Extracted:
        return self._extraction.extract(incoming.data, incoming.filename, incoming.depth)

    def _cut(self, incoming: Incoming) -> Ready | KBError:
        limit, size = self._settings.max_file_bytes, len(incoming.data)
        if size > limit:
            return PayloadTooLarge(
                f"{incoming.filename} has {size} bytes; at most {limit} are allowed (KB_MAX_FILE_BYTES)"
            )
        if incoming.depth and (kind := kind_inside(_name_inside(incoming), incoming.data)):
            return LeftOut(why_unread(kind), file_kind=kind)
        try:
            extracted, parts = self._take_apart(incoming)
        except KBError as error:
            return error
        if extracted.attachments:
            extracted = extracted._replace(
                metadata={**extracted.metadata, HOLDS: len(extracted.attachments)}
            )
        # Not where it was read: each of those processes would have a language model of its own.
        lang = incoming.fields.lang or detect_by(parts.sample)
        return Ready(extracted, parts.title, lang, parts.pieces, parts.words)

    def _take_apart(self, incoming: Incoming) -> tuple[Extracted, Parts]:
        chunker = self._plugins.registry(Chunker).get(self._settings.chunker)
        if chunker is None:
            raise ConfigInvalid(
                f"KB_CHUNKER names {self._settings.chunker!r}, which no plugin provides"
            )
        cutting = Cutting(chunker.target, incoming.fields.title, incoming.path)
        if not incoming.is_note:
            return self._extraction.take_apart(
                incoming.data, incoming.filename, cutting, incoming.depth
            )
        extracted = Extracted(incoming.data.decode(), media="markdown", markdown=True)
        return extracted._replace(text=""), take_apart(extracted, cutting)

    def _embed(self, part: Sequence[tuple[Ready, str, ChunkText]]) -> None:
        """Give chunks their vectors, in one call; none where there is no embedder."""
        texts = [
            embedded_text(ready.title, piece.content, piece.metadata) for ready, _, piece in part
        ]
        different = list(dict.fromkeys(texts))
        encoded = self._embedding.encode(different)
        if encoded:
            vectors = dict(zip(different, encoded, strict=True))
            for (ready, digest, _), text in zip(part, texts, strict=True):
                ready.vectors[digest] = vectors[text]


def _new_pieces(ready: Ready, there: set[str]) -> dict[str, ChunkText]:
    pieces = {content_hash(piece.content): piece for piece in ready.pieces}
    return {digest: piece for digest, piece in pieces.items() if digest not in there}


def _alike(error: KBError) -> KBError:
    return type(error)(error.message, hint=error.hint, code=error.code, **error.details)
