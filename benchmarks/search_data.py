"""What `search.py` searches: text with the word frequencies of real text, vectors in clusters, questions about both.

Everything is made from one seed, so that every engine gets the same, and so does every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

WORDS = 200_000
DIMENSIONS = 256
CHUNKS_PER_DOCUMENT = 10
TOPICS = 2000
# Of the documents, by number: every tenth, every twentieth, every hundredth.
TENTH, TWENTIETH, HUNDREDTH = 10, 20, 100


@dataclass(frozen=True)
class Question:
    text: str
    vector: np.ndarray


@dataclass(frozen=True)
class Data:
    """`size` chunks, in documents of ten."""

    size: int

    @cached_property
    def vocabulary(self) -> list[str]:
        """The frequent words are short, as in every language."""
        chance = np.random.default_rng(1)
        syllables = [
            a + b for a in "bdfghjklmnprstvwz" for b in ("a", "e", "i", "o", "u", "ar", "en")
        ]
        words: dict[str, None] = {}
        while len(words) < WORDS:
            count = 1 + int(len(words) > 60) + int(len(words) > 3000) + int(chance.random() < 0.5)
            words["".join(syllables[i] for i in chance.integers(0, len(syllables), count))] = None
        return list(words)

    @cached_property
    def _chances(self) -> np.ndarray:
        # Zipf's law; the most frequent word is a thirteenth of all text.
        share = 1 / np.arange(1, WORDS + 1)
        return np.cumsum(share / share.sum())

    @cached_property
    def _centres(self) -> np.ndarray:
        return unit(np.random.default_rng(2).normal(size=(TOPICS, DIMENSIONS)))

    def chunks(
        self, begin: int, end: int, *, only_vectors: bool = False
    ) -> tuple[list[str], np.ndarray]:
        """Texts and vectors; always the same for the same numbers, if asked for in whole thousands."""
        texts: list[str] = []
        vectors: list[np.ndarray] = []
        for first in range(begin, end, 1000):
            chance = np.random.default_rng([3, first])
            lengths = chance.integers(60, 121, 1000)
            places = chance.random(int(lengths.sum()))
            if not only_vectors:
                words = [
                    self.vocabulary[rank]
                    for rank in np.searchsorted(self._chances, places).tolist()
                ]
                ends = np.cumsum(lengths).tolist()
                texts += [
                    " ".join(words[end - length : end])
                    for end, length in zip(ends, lengths.tolist(), strict=True)
                ]
            # Some topics are much written about, most are not.
            topics = np.minimum((chance.pareto(0.7, 1000) * 20).astype(int), TOPICS - 1)
            vectors.append(
                unit(
                    self._centres[topics]
                    + chance.normal(size=(1000, DIMENSIONS)) / np.sqrt(DIMENSIONS)
                )
            )
        return texts, np.concatenate(vectors)

    def batches(self, size: int = 10_000) -> Iterator[tuple[int, list[str], np.ndarray]]:
        for begin in range(0, self.size, size):
            yield begin, *self.chunks(begin, min(begin + size, self.size))

    def questions(self, count: int) -> list[Question]:
        """Eight words of a chunk, frequent, ordinary and rare; and a vector near that chunk's."""
        chance = np.random.default_rng(4)
        rank = {word: number for number, word in enumerate(self.vocabulary)}
        found = []
        for _ in range(count):
            number = int(chance.integers(0, self.size))
            texts, vectors = self.chunks(number // 1000 * 1000, number // 1000 * 1000 + 1000)
            words = sorted(set(texts[number % 1000].split(" ")), key=rank.__getitem__)
            third = len(words) // 3
            few = [
                *words[: third // 2 : max(1, third // 6)][:3],
                *words[third : 2 * third : max(1, third // 3)][:3],
                *words[-2:],
            ]
            near = vectors[number % 1000] + 0.6 * chance.normal(size=DIMENSIONS) / np.sqrt(
                DIMENSIONS
            )
            found.append(Question(" ".join(chance.permutation(few).tolist()), unit(near[None])[0]))
        return found

    def frequent_questions(self, count: int) -> list[Question]:
        """Three words each of which many chunks have; without a vector."""
        chance = np.random.default_rng(5)
        words = self.vocabulary[5:60]
        return [
            Question(" ".join(chance.choice(words, 3, replace=False).tolist()), np.zeros(0))
            for _ in range(count)
        ]


def tags_of(document: int) -> list[str]:
    return [
        name
        for name, every in (("tenth", TENTH), ("hundredth", HUNDREDTH))
        if document % every == 0
    ]


def path_of(document: int) -> str:
    return f"folder{document % TWENTIETH:02d}/part{document // 1000}/document{document}.md"


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
