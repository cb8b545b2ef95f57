"""The chosen embedding model and the space its vectors live in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from kb_framework.api import Embedder, EmbedderObject
from kb_framework.api.engine import VectorFill
from kb_framework.api.parts import Plugins, Store, Tx
from kb_framework.api.plugins import Chosen
from kb_framework.api.spaces import Space, active_space, create_space
from kb_framework.errors import EmbedderUnavailable, KBError, WrongType
from kb_models.languages import LanguageAdvice, advise, count_languages
from kb_models.settings import ModelsSettings
from kb_models.vectors import VectorRebuild, add_missing_vectors

log = logging.getLogger("kb.embedding")

_CHOOSE = "kb config set embedder NAME chooses one"


class Embedding:
    """The embedder that `KB_EMBEDDER` names. It is loaded when something is first embedded.

    Without a usable embedder, `problem` says why, and search is lexical.
    """

    def __init__(
        self,
        store: Store,
        plugins: Plugins,
        settings: ModelsSettings,
        build: Callable[[str, str], EmbedderObject],
    ) -> None:
        self._store = store
        self._plugins = plugins
        self._settings = settings
        self._build = build
        self._choose(settings.embedder)

    def _choose(self, name: str) -> None:
        self._chosen: Chosen[EmbedderObject] = Chosen(
            self._plugins,
            self._plugins.registry(Embedder),
            self._build,
            name,
            variable="KB_EMBEDDER",
        )
        self._advice = LanguageAdvice(self)
        self._warned = False

    def named(self, choice: str | None) -> Embedding:
        """Return the same with another embedder than the configured one."""
        if choice is None or choice == self.name:
            return self
        other = Embedding(self._store, self._plugins, self._settings, self._build)
        other._choose(choice)
        return other

    def others(self) -> Iterator[Embedding]:
        """Yield the same with each other embedder that there is."""
        return (
            self.named(item.name)
            for item in self._plugins.registry(Embedder)
            if item.name != self.name
        )

    @property
    def name(self) -> str:
        return self._chosen.name

    @property
    def problem(self) -> str | None:
        if self.name == "none":
            return f"no embedder is configured (KB_EMBEDDER=none); {_CHOOSE}"
        if missing := self._chosen.missing:
            return f"{missing}; {_CHOOSE}"
        if self._store.engine.vectors_missing:
            return f"vectors cannot be stored: {self._store.engine.vectors_missing}"
        return self._chosen.problem

    def embedder(self) -> EmbedderObject:
        if problem := self.problem:
            raise EmbedderUnavailable(problem)
        return self._chosen.get()

    @property
    def languages(self) -> frozenset[str] | None:
        """The ISO 639-1 codes of the languages it knows; None where it does not say."""
        return self._chosen.attribute("languages")

    # Vectors

    def encode(self, texts: list[str]) -> list[bytes] | None:
        """Return vectors for texts, or None where there is no embedder."""
        return None if self.problem else self.vectors(texts)

    def vectors(self, texts: list[str]) -> list[bytes]:
        """Return vectors for texts. A wrong answer is an error with the plugin's name, and nothing is stored."""
        embedder = self.embedder()
        try:
            return _checked(embedder.encode(texts), len(texts), embedder.dimensions)
        except WrongType as error:
            raise self._chosen.failed(error) from error

    # The space

    def mismatch(self, tx: Tx) -> str | None:
        """Say why this embedder cannot use the stored vectors; None where it can, or where there are none."""
        return self._mismatch(active_space(tx))

    def _mismatch(self, space: Space | None) -> str | None:
        if space and space.model != self.embedder().model:
            return f"the vectors here were made by {space.model}, but the embedder is {self.embedder().model}"
        return None

    def space(self, tx: Tx) -> Space | None:
        """Return the space to search in; None while nothing has been embedded. Another model's space is an error."""
        space = active_space(tx)
        problem = self._mismatch(space)
        if space and not problem and space.dimensions != self.embedder().dimensions:
            # An endpoint can give another model the same name.
            lengths = f"{space.dimensions} numbers, but it gives {self.embedder().dimensions} now"
            problem = f"the vectors here were made by {space.model} with {lengths}"
        if problem and space:
            maker = self._maker(space) or "NAME"
            raise EmbedderUnavailable(
                problem,
                hint=f"kb config set embedder {maker} uses them again; kb reindex replaces them with those of {self.name}",
            )
        return space

    def _maker(self, space: Space) -> str | None:
        """Return the name of the embedder that made a space's vectors, where it is one that can be used here."""
        for other in self.others():
            try:
                if other.problem is None and other.embedder().model == space.model:
                    return other.name
            except KBError:
                continue
        return None

    def space_for_writing(self, tx: Tx) -> Space:
        """Return the active space; the first vectors create it."""
        try:
            space = self.space(tx)
            if space is None:
                # Another organization may be writing its first vectors at the same time.
                tx.engine.take_turns(tx.connection, "embedding spaces")
                space = self.space(tx)
            return space or create_space(tx, self.embedder().model, self.embedder().dimensions)
        except EmbedderUnavailable as error:
            if not self._warned:
                # One warning for all writes: the text is kept and found by its words.
                log.warning(
                    "stored without vectors, to be found by words only: %s; %s",
                    error.message,
                    error.hint,
                )
                self._warned = True
            raise

    # For maintenance

    def advice(self, tx: Tx) -> str | None:
        """Say what to do where this organization has documents in languages that the embedder does not know."""
        return self._advice.on(tx)

    def advice_for_all(self, tx: Tx) -> str | None:
        """The same for the documents of all organizations, counted now."""
        return advise(count_languages(tx), self)

    def fill(self, tx: Tx) -> VectorFill | None:
        """Return how well the active index uses its space; None where there is no index."""
        return tx.vectors.maintenance.fill() if tx.vectors else None

    def rebuild(self, *, copy: bool = False) -> VectorRebuild:
        return VectorRebuild(self._store, self, copy=copy)

    def add_missing(self) -> Iterator[int]:
        """Embed the chunks without a vector; yields how many were embedded so far."""
        return add_missing_vectors(self._store, self)


class _SwitchedOff(Embedding):
    """Stands in for the embedding while the plugin is switched off."""

    def __init__(self) -> None:
        pass

    def named(self, choice: str | None) -> Embedding:
        return self

    def others(self) -> Iterator[Embedding]:
        return iter(())

    @property
    def name(self) -> str:
        return "none"

    @property
    def problem(self) -> str | None:
        return "no embedder is available: the plugin models is switched off"

    @property
    def languages(self) -> frozenset[str] | None:
        return None

    def advice(self, tx: Tx) -> str | None:
        return None

    def advice_for_all(self, tx: Tx) -> str | None:
        return None

    def rebuild(self, *, copy: bool = False) -> VectorRebuild:
        raise EmbedderUnavailable(self.problem or "")

    def add_missing(self) -> Iterator[int]:
        return iter(())


NO_EMBEDDING: Embedding = _SwitchedOff()


def _checked(vectors: Any, count: int, dimensions: int) -> list[bytes]:
    if not isinstance(vectors, list | tuple):
        raise WrongType(f"expected a list of vectors, not {type(vectors).__name__}")
    if len(vectors) != count:
        raise WrongType(f"expected {count} vectors, not {len(vectors)}")
    for vector in vectors:
        expected = f"{dimensions} float32 numbers"
        if not isinstance(vector, bytes):
            raise WrongType(f"expected the bytes of {expected}, not {type(vector).__name__}")
        if len(vector) != 4 * dimensions:
            raise WrongType(f"expected {4 * dimensions} bytes ({expected}), not {len(vector)}")
    return list(vectors)
