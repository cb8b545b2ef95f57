"""A store with its own little corpora, and a keeper that makes side indexes of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from kb_documents.api import content_hash, delete_documents, insert_document
from kb_sqlite.accelerator.builder import SegmentBuilder
from kb_sqlite.accelerator.tables import TEXT, side_indexes
from kb_sqlite.engine import SqliteEngine
from kb_sqlite.full_text import SqliteText
from kb_text.api import text_query
from kb_text.plugin import kb_migrations

from kb_framework.api import DEFAULT_ORGANIZATION, ChunkText
from kb_framework.api.spaces import Space, active_space, create_space
from kb_framework.api.tables import chunks, documents, organizations
from kb_framework.api.times import now
from kb_framework.storage.migrations import by_plugin, migrate
from kb_framework.storage.store import Store, Tx
from kb_testing.stores import pairs

OTHER = "00000000-0000-4000-8000-0000000000aa"
WEIGHTS = (2.0, 1.5, 1.0)
DIMENSIONS = 16
_FEW_WORDS = [
    "the",
    "of",
    "and",
    "backup",
    "zebra",
    "café",
    "Straße",
    "日本語",
    "백업은",
    "νέα",
    "x1",
]


@dataclass
class Corpus:
    """Documents put in and taken out, and both ways of searching them."""

    path: Path
    store: Store

    def add(
        self,
        pieces: Sequence[str],
        *,
        title: str = "title",
        tag: str = "",
        organization: str = DEFAULT_ORGANIZATION,
    ) -> int:
        with self.store.write(organization) as tx:
            return self._insert(tx, pieces, title, tag)

    def _insert(self, tx: Tx, pieces: Sequence[str], title: str, tag: str) -> int:
        values = {
            "doc_type": "note",
            "title": title,
            "path": f"{title}.md",
            "media": "text/plain",
            "trust": "primary",
        }
        values |= {"metadata": {}, "content_hash": content_hash(title), "bytes": 1}
        vectors = {content_hash(text): vector_of(text) for text in pieces}
        space = active_space(tx) or create_space(tx, "random", DIMENSIONS)
        rows = [ChunkText(text, {"heading_path": ["Head", text.split(" ")[0]]}) for text in pieces]
        return insert_document(tx, values, [tag] if tag else [], rows, "job", vectors, space)

    def fill(self, count: int, seed: int = 0, organization: str = DEFAULT_ORGANIZATION) -> None:
        chance = random.Random(seed)
        with self.store.write(organization) as tx:
            for number in range(count):
                pieces = [some_words(chance) for _ in range(chance.randint(1, 4))]
                self._insert(
                    tx, pieces, f"note {number} {chance.choice(_FEW_WORDS)}", f"t{number % 10}"
                )

    def delete(self, number: int, organization: str = DEFAULT_ORGANIZATION) -> None:
        with self.store.write(organization) as tx:
            delete_documents(tx, sa.select(documents.c.id).where(documents.c.id == number))

    def keeper(self, min_chunks: int = 1, tail_rows: int = 16) -> SegmentBuilder:
        return SegmentBuilder(
            self.store, self.store.engine.side_folder, min_chunks, tail_rows, grace=0
        )

    def allowed(
        self, *conditions: sa.ColumnElement[bool], organization: str = DEFAULT_ORGANIZATION
    ) -> sa.Select:
        found = sa.select(chunks.c.seq).where(chunks.c.organization_id == organization)
        if conditions:
            found = found.join(documents, documents.c.id == chunks.c.document_id).where(*conditions)
        return found

    def text(
        self,
        query: str,
        *conditions,
        limit: int = 10,
        organization: str = DEFAULT_ORGANIZATION,
        side: bool = True,
    ):
        with self.store.read(organization) as tx:
            allowed = self.allowed(*conditions, organization=organization)
            assert not side or self.is_live(TEXT, organization)
            wanted = text_query(query, WEIGHTS)
            if not side:
                return pairs(
                    SqliteText(tx.engine, tx.connection, organization).ranked(
                        wanted, allowed, limit
                    )
                )
            return pairs(*tx.text.search([wanted], allowed, limit))

    def vectors(
        self, query: str, *conditions, limit: int = 10, organization: str = DEFAULT_ORGANIZATION
    ):
        with self.store.read(organization) as tx:
            space = self.space()
            assert self.is_live(space.index_name, organization)
            allowed = self.allowed(*conditions, organization=organization) if conditions else None
            return pairs(
                *tx.vector_index(space.index_name).search([vector_of(query)], allowed, limit)
            )

    def exact_vectors(
        self, query: str, *conditions, limit: int = 10, organization: str = DEFAULT_ORGANIZATION
    ):
        with self.store.read() as tx:
            seqs = list(tx.connection.scalars(self.allowed(*conditions, organization=organization)))
            stored = tx.vector_index(self.space().index_name).read(seqs)
        asked = np.frombuffer(vector_of(query), "<f4")
        scored = [
            (seq, float(np.frombuffer(vector, "<f4") @ asked)) for seq, vector in stored.items()
        ]
        return sorted(scored, key=lambda pair: -pair[1])[:limit]

    def space(self) -> Space:
        with self.store.read() as tx:
            space = active_space(tx)
        assert space is not None
        return space

    def is_live(self, source: str, organization: str = DEFAULT_ORGANIZATION) -> bool:
        with self.store.read() as tx:
            mine = (
                side_indexes.c.source == source,
                side_indexes.c.organization_id == organization,
                side_indexes.c.live,
            )
            return tx.scalar(sa.select(sa.func.count()).select_from(side_indexes).where(*mine)) == 1

    def count(self, table: str) -> int:
        with self.store.read() as tx:
            return tx.connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()


def some_words(chance: random.Random) -> str:
    """A few words that nearly every chunk has, and some that few have."""
    rare = [f"w{int(chance.paretovariate(0.6)) % 300}" for _ in range(chance.randint(1, 12))]
    words = [*rare, *chance.choices(_FEW_WORDS, k=chance.randint(1, 8))]
    chance.shuffle(words)
    return " ".join(words)


def vector_of(text: str) -> bytes:
    chance = np.random.default_rng(list(text.encode()))
    vector = chance.normal(size=DIMENSIONS)
    return (vector / np.linalg.norm(vector)).astype("<f4").tobytes()


def open_store(path: Path) -> Store:
    store = Store(SqliteEngine(path, busy_timeout=600))
    steps = by_plugin(("text", step) for step in kb_migrations())
    migrate(store, steps, lambda name, error: pytest.fail(f"{name}: {error}"))
    return store


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[Corpus]:
    store = open_store(tmp_path / "kb.sqlite")
    with store.write() as tx:
        tx.execute(sa.insert(organizations).values(id=OTHER, name="other", created_at=now()))
    yield Corpus(tmp_path, store)
    store.close()


Close = Callable[[list[tuple[int, float]], list[tuple[int, float]]], None]


@pytest.fixture
def same() -> Close:
    """The same chunks with the same scores, in the same order but for equals."""

    def compare(found: list[tuple[int, float]], wanted: list[tuple[int, float]]) -> None:
        assert [score for _, score in found] == pytest.approx(
            [score for _, score in wanted], rel=1e-4, abs=1e-4
        )
        if wanted:
            last = min(score for _, score in wanted) + 1e-3
            assert {seq for seq, score in found if score > last} == {
                seq for seq, score in wanted if score > last
            }

    return compare
