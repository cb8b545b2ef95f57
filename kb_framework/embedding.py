"""The chosen embedding model and the space its vectors live in."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kb_framework.api import EmbedderObject
from kb_framework.errors import EmbedderUnavailable, KBError
from kb_framework.plugins import Plugins
from kb_framework.settings import HostSettings
from kb_framework.store.documents import Space, active_space, create_space
from kb_framework.store.store import Store, Tx

log = logging.getLogger("kb.embedding")


def embedded_text(title: str, content: str, metadata: Mapping[str, Any]) -> str:
    """What is embedded for a chunk: the title and headings it stands under, where it does not have them itself, and its text."""
    above = dict.fromkeys([title, *(metadata.get("heading_path") or ())])
    # A title that was made of the first words ends in dots.
    return "\n".join([*(part for part in above if part.removesuffix("…") not in content), content])


class Embedding:
    """Loads nothing until something is embedded. Without a usable embedder, `problem` says why and search is lexical."""

    def __init__(
        self,
        store: Store,
        plugins: Plugins,
        host_settings: HostSettings,
        build: Callable[[str, str], EmbedderObject],
    ) -> None:
        self._store = store
        self._plugins = plugins
        self._choice = host_settings.embedder
        self._build = build
        self._embedder: EmbedderObject | None = None
        self._warned = False

    def named(self, choice: str | None) -> Embedding:
        """The same with another embedder than the configured one."""
        if choice is None or choice == self._choice:
            return self
        other = copy.copy(self)
        other._choice, other._embedder, other._warned = choice, None, False
        return other

    def others(self) -> Iterator[Embedding]:
        """The same with each other embedder that there is."""
        return (self.named(item.name) for item in self._plugins.embedders if item.name != self._choice)

    @property
    def problem(self) -> str | None:
        if self._choice == "none":
            return "no embedder is configured (KB_EMBEDDER=none)"
        if self._plugins.embedders.get(self._choice) is None:
            names = ", ".join(item.name for item in self._plugins.embedders) or "none"
            return f"the embedder {self._choice!r} is not available (KB_EMBEDDER); available: {names}"
        if self._store.backend.vectors_missing:
            return f"vectors cannot be stored: {self._store.backend.vectors_missing}"
        try:
            # An embedder that needs something first, a file or an address, says what; the others have no such attribute.
            return getattr(self._built(), "problem", None)
        except KBError:
            # It cannot even be built: whoever wants a vector is told why.
            return None

    def embedder(self) -> EmbedderObject:
        if problem := self.problem:
            raise EmbedderUnavailable(problem)
        return self._built()

    def _built(self) -> EmbedderObject:
        if self._embedder is None:
            item = self._plugins.embedders.get(self._choice)
            assert item is not None
            self._embedder = self._build(self._plugins.embedders.plugin_of(item.name), item.target)
        return self._embedder

    @property
    def name(self) -> str:
        return self._choice

    @property
    def languages(self) -> frozenset[str] | None:
        """The languages it knows, by their ISO 639-1 codes; None where it does not say."""
        if self._choice == "none" or self._plugins.embedders.get(self._choice) is None:
            return None
        try:
            return getattr(self._built(), "languages", None)
        except KBError:
            return None

    def encode(self, texts: list[str]) -> list[bytes] | None:
        """Vectors for texts, or None where there is no embedder."""
        return None if self.problem else self.embedder().encode(texts)

    def mismatch(self, tx: Tx) -> str | None:
        """Why the vectors that are here are of no use to this embedder; None where they are, and where there are none."""
        return self._mismatch(active_space(tx))

    def _mismatch(self, space: Space | None) -> str | None:
        if space and space.model != self.embedder().model:
            return f"the vectors here were made by {space.model}, but the embedder is {self.embedder().model}"
        return None

    def space(self, tx: Tx) -> Space | None:
        """The space to search in; None while nothing has been embedded. Another model's space is an error."""
        space = active_space(tx)
        problem = self._mismatch(space)
        if space and not problem and space.dimensions != self.embedder().dimensions:
            # An endpoint can give another model the same name.
            lengths = f"{space.dimensions} numbers, but it gives {self.embedder().dimensions} now"
            problem = f"the vectors here were made by {space.model} with {lengths}"
        if problem:
            raise EmbedderUnavailable(
                problem, hint="choose the former again with KB_EMBEDDER, or rebuild the vectors: kb reindex"
            )
        return space

    def space_for_writing(self, tx: Tx) -> Space:
        try:
            space = self.space(tx)
            if space is None:
                # Another organization may be writing its first vectors at the same time.
                tx.backend.take_turns(tx.connection, "embedding spaces")
                space = self.space(tx)
            return space or create_space(tx, self.embedder().model, self.embedder().dimensions)
        except EmbedderUnavailable as error:
            if not self._warned:
                # Once for all that is written: the text is kept and found by its words.
                log.warning("stored without vectors, to be found by words only: %s; %s", error.message, error.hint)
                self._warned = True
            raise
