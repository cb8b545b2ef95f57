"""Checks that every store must pass, for authors of stores and for the built-in ones."""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

import sqlalchemy as sa
from kb_documents.api import content_hash, delete_documents, insert_document

from kb_framework.api import DEFAULT_ORGANIZATION, ChunkText
from kb_framework.api.engine import Columns
from kb_framework.api.spaces import Space, create_space, drop_space
from kb_framework.api.tables import chunks, documents, organizations
from kb_framework.api.text_query import Adjacent, Phrase, TextQuery, Word
from kb_framework.api.times import now
from kb_framework.storage.store import Store

_OTHER = "00000000-0000-4000-8000-0000000000cc"
# Title, heading and body of each document, in words that are indexed as they are.
_TEXTS = (
    ("zebra", "", "grass and water"),
    ("lion", "zebra", "grass"),
    ("lion", "", "zebra zebra and water"),
    ("owl", "", "night"),
)
_VECTORS = ((1.0, 0.0), (0.6, 0.8), (0.0, 1.0), (-1.0, 0.0))


class _Added(NamedTuple):
    """Documents of one chunk each, and their chunks, by number."""

    documents: list[int]
    numbers: list[int]


def pairs(columns: Columns) -> list[tuple[int, float]]:
    """Return the hits of a search as pairs of a chunk's number and its score."""
    numbers, scores = (list(column) for column in columns)
    return [(int(number), float(score)) for number, score in zip(numbers, scores, strict=True)]


def check_store(store: Store, settle: Callable[[], object] = lambda: None) -> None:
    """Raise an AssertionError where a store breaks its contract. `store` is a new, migrated database.

    `settle` is called after writing, for a store that builds indexes in the background.
    """
    with store.write() as tx:
        tx.execute(sa.insert(organizations).values(id=_OTHER, name="other", created_at=now()))
        space = create_space(tx, "check", len(_VECTORS[0]))
    # The other organization has the same words: they neither are found nor count.
    _add(store, _OTHER, space)
    added = _add(store, DEFAULT_ORGANIZATION, space)
    settle()
    _check_text(store, added)
    _check_expressions(store, added)
    _check_vectors(store, added, space)
    _check_transactions(store, added, space, settle)
    _check_maintenance(store, added, space)


def _add(store: Store, organization: str, space: Space) -> _Added:
    added = []
    with store.write(organization) as tx:
        for (title, heading, body), vector in zip(_TEXTS, _VECTORS, strict=True):
            values = {
                "doc_type": "note",
                "title": title,
                "path": f"{title}.md",
                "media": "text/plain",
            }
            values |= {
                "trust": "primary",
                "metadata": {},
                "content_hash": content_hash(body),
                "bytes": 1,
            }
            piece = ChunkText(body, {"heading_path": [heading]})
            vectors = {content_hash(body): _bytes(vector)}
            added.append(insert_document(tx, values, [], [piece], "job", vectors, space))
        query = (
            sa.select(chunks.c.seq)
            .where(chunks.c.document_id.in_(added))
            .order_by(chunks.c.document_id)
        )
        return _Added(added, list(tx.connection.scalars(query)))


def _bytes(vector: Sequence[float]) -> bytes:
    return array("f", vector).tobytes()


def _any(*words: str, title: float = 1.0) -> TextQuery:
    return TextQuery(words=tuple(map(Word, words)), weights=(title, 1.0, 1.0))


def _phrase(*words: str, prefix: bool = False, field: str | None = None) -> Phrase:
    return Phrase((Adjacent(words, prefix),), field)  # type: ignore[arg-type]


def _found(
    store: Store, query: TextQuery, within: sa.Select | None = None, limit: int = 10
) -> list[int]:
    with store.read() as tx:
        (columns,) = tx.text.search([query], within, limit)
        ranked = pairs(columns)
        matching = sa.select(chunks.c.seq).where(
            tx.owns(chunks), tx.text.matches(query, chunks.c.seq)
        )
        if within is None and limit >= len(_TEXTS):
            assert set(tx.connection.scalars(matching)) == {number for number, _ in ranked}
    scores = [score for _, score in ranked]
    assert scores == sorted(scores, reverse=True), "better hits come first, and have higher scores"
    return [number for number, _ in ranked]


def _check_text(store: Store, added: _Added) -> None:
    first, second, third, fourth = added.numbers
    assert set(_found(store, _any("zebra"))) == {first, second, third}
    assert _found(store, _any("zebra", title=100.0))[0] == first, "a weight lifts matches in titles"
    assert set(_found(store, _any("night", "water"))) == {first, third, fourth}, (
        "any of the words is enough"
    )
    assert _found(store, _any("unicorn")) == []
    assert _found(store, TextQuery()) == [], "an empty query matches nothing"
    within = sa.select(chunks.c.seq).where(chunks.c.seq.in_([second, fourth]))
    assert _found(store, _any("zebra"), within) == [second]
    assert len(_found(store, _any("zebra"), limit=2)) == 2
    with store.read() as tx:
        several = tx.text.search([_any("owl"), _any("unicorn"), _any("lion")], None, 10)
    assert [{number for number, _ in pairs(columns)} for columns in several] == [
        {fourth},
        set(),
        {second, third},
    ]


def _check_expressions(store: Store, added: _Added) -> None:
    first, second, third, fourth = added.numbers
    both = TextQuery(wanted=(_phrase("zebra"), _phrase("grass")))
    assert set(_found(store, both)) == {first, second}, "every wanted phrase must match"
    without = TextQuery(wanted=(_phrase("zebra"),), unwanted=(_phrase("water"),))
    assert _found(store, without) == [second]
    assert _found(store, TextQuery(wanted=(_phrase("zebra", field="title"),))) == [first]
    assert _found(store, TextQuery(wanted=(_phrase("zebra", "zebra"),))) == [third], (
        "words of a phrase are neighbours"
    )
    assert _found(store, TextQuery(wanted=(_phrase("ni", prefix=True),))) == [fourth]
    assert _found(store, TextQuery(words=(Word("ni", prefix=True),))) == [fourth]
    either = Phrase((Adjacent(("owl",)), Adjacent(("grass", "and"))))
    assert set(_found(store, TextQuery(wanted=(either,)))) == {first, fourth}
    assert _found(store, TextQuery(wanted=(_phrase("zebra"), Phrase(())))) == [], (
        "a phrase without words matches nothing"
    )


def _check_vectors(store: Store, added: _Added, space: Space) -> None:
    first, second, third, fourth = added.numbers
    with store.read() as tx:
        index = tx.vectors
        assert index is not None
        near, far = (
            pairs(found)
            for found in index.search([_bytes((1.0, 0.0)), _bytes((0.0, 1.0))], None, 3)
        )
        assert [number for number, _ in near] == [first, second, third]
        assert all(
            abs(score - wanted) < 1e-3
            for (_, score), wanted in zip(near, (1.0, 0.6, 0.0), strict=True)
        )
        assert [number for number, _ in far][:2] == [third, second]
        within = sa.select(chunks.c.seq).where(chunks.c.seq.in_([second, fourth]))
        (limited,) = index.search([_bytes((1.0, 0.0))], within, 3)
        assert [number for number, _ in pairs(limited)] == [second, fourth]
        assert index.read([*added.numbers, 10**9]) == dict(
            zip(added.numbers, map(_bytes, _VECTORS), strict=True)
        )
        assert tx.vector_index(space.index_name, _OTHER).read(
            added.numbers, anywhere=True
        ).keys() == set(added.numbers)
        shown = sa.select(tx.vector_of(chunks.c.seq)).where(chunks.c.seq == second)
        assert tx.scalar(shown) == _bytes(_VECTORS[1])
        having = sa.select(chunks.c.seq).where(tx.owns(chunks), index.has(chunks.c.seq))
        assert set(tx.connection.scalars(having)) == set(added.numbers)


def _check_transactions(
    store: Store, added: _Added, space: Space, settle: Callable[[], object]
) -> None:
    number = added.numbers[3]
    before = _found(store, _any("owl", "eagle"))
    one = sa.select(chunks.c.seq).where(chunks.c.seq == number)

    def change(error: type[Exception] | None) -> None:
        with store.write(DEFAULT_ORGANIZATION) as tx:
            try:
                with tx.savepoint():
                    tx.text.remove(one)
                    tx.vector_index(space.index_name).remove(one)
                    raise LookupError
            except LookupError:
                pass
            assert tx.text.maintenance.count() == len(_TEXTS), (
                "a savepoint undoes what was written in it"
            )
            tx.text.remove(one)
            tx.text.add([(number, ("eagle", "", "day"))])
            if error:
                raise error

    with contextlib.suppress(LookupError):
        change(LookupError)
    assert _found(store, _any("owl", "eagle")) == before, "an exception undoes the transaction"
    assert _found(store, _any("eagle")) == []
    change(None)
    settle()
    assert _found(store, _any("eagle")) == [number]
    assert _found(store, _any("owl")) == []
    with store.read() as tx:
        assert number in tx.vector_index(space.index_name).read([number])


def _check_maintenance(store: Store, added: _Added, space: Space) -> None:
    with store.write(DEFAULT_ORGANIZATION) as tx:
        text, vectors = tx.text.maintenance, tx.vector_index(space.index_name).maintenance
        assert tx.engine.check(tx.connection) == []
        assert text.check() is None
        assert vectors.check() is None
        assert text.count() == len(_TEXTS)
        assert vectors.count() == 2 * len(_TEXTS), "vectors are counted for all organizations"
        assert vectors.fill().rows == 2 * len(_TEXTS)
        # Entries without a chunk are removed, and no others.
        tx.text.add([(10**9, ("stray", "", ""))])
        tx.vector_index(space.index_name).add([(10**9, _bytes(_VECTORS[0]))])
        assert (text.remove_strays(), vectors.remove_strays()) == (1, 1)
        assert (text.count(), vectors.count()) == (len(_TEXTS), 2 * len(_TEXTS))
        delete_documents(tx, sa.select(documents.c.id).where(documents.c.id.in_(added.documents)))
        assert (text.count(), vectors.count()) == (0, len(_TEXTS))
    with store.write() as tx:
        other = tx.text_index(_OTHER)
        assert other.maintenance.count() == len(_TEXTS)
        other.maintenance.drop()
        assert other.maintenance.count() == 0
        drop_space(tx, space)
        assert tx.vectors is None
    assert store.engine.describe()["driver"]
