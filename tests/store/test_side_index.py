"""The side index finds what the tables say, and nothing else: the same scores as FTS5, whatever was changed meanwhile."""

from __future__ import annotations

import random

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from kb_documents.api import touch
from kb_sqlite.accelerator import ivf as clusters
from kb_sqlite.accelerator import ranking
from kb_sqlite.accelerator.arrays import best_first
from kb_sqlite.accelerator.tables import TEXT
from kb_text.api import text_query

from kb_framework.api.tables import document_tags, documents
from kb_testing.stores import pairs

from .conftest import OTHER, WEIGHTS, Close, Corpus, some_words, vector_of

pytestmark = pytest.mark.sqlite_only("side indexes belong to SQLite")

QUERIES = [
    "the",
    "zebra of the backup",
    "w1 w2 w3",
    "w17",
    "cafe STRASSE x1",
    "日本",
    "本",
    "백업",
    "백",
    "νέα and w250",
    "nothing_of",
]


def tagged(tag: str) -> sa.ColumnElement[bool]:
    return documents.c.id.in_(
        sa.select(document_tags.c.document_id).where(document_tags.c.tag == tag)
    )


@pytest.fixture(params=["small", "large"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Large blocks are searched otherwise: here even those of a few rows are large."""
    if request.param == "large":
        monkeypatch.setattr(ranking, "_SMALL", 0)
        monkeypatch.setattr(clusters, "_LEAST_COMPARED", 0)
    return request.param


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("seed", range(3))
def test_both_ways_of_searching_text_agree(corpus: Corpus, same: Close, seed: int) -> None:
    corpus.fill(120, seed)
    assert corpus.keeper().run()
    chance = random.Random(seed)

    for query in [*QUERIES, *(some_words(chance) for _ in range(30))]:
        for limit in (1, 5, 40):
            same(corpus.text(query, limit=limit), corpus.text(query, limit=limit, side=False))


@pytest.mark.usefixtures("blocks")
def test_what_comes_after_the_index_was_built_is_found_at_once(corpus: Corpus, same: Close) -> None:
    corpus.fill(60)
    corpus.keeper().run()
    for seed in range(5):
        corpus.fill(7, seed + 10)
        for query in QUERIES:
            same(corpus.text(query), corpus.text(query, side=False))


@pytest.mark.usefixtures("blocks")
def test_segments_are_merged_and_still_agree(corpus: Corpus, same: Close) -> None:
    for seed in range(12):
        corpus.fill(20, seed)
        corpus.keeper().run()

    assert corpus.count("side_segments") < 12
    assert corpus.count("side_tail") < 32
    for query in QUERIES:
        same(corpus.text(query, limit=30), corpus.text(query, limit=30, side=False))
        same(corpus.vectors(query, limit=30), corpus.exact_vectors(query, limit=30))


@pytest.mark.usefixtures("blocks")
def test_a_deleted_document_is_gone_at_once_wherever_it_was(corpus: Corpus) -> None:
    old = corpus.add(["unique quagga words", "more of the quagga"])
    corpus.fill(30)
    corpus.keeper().run()
    new = corpus.add(["another quagga in the tail"])
    assert len(corpus.text("quagga")) == 3

    corpus.delete(old)
    assert len(corpus.text("quagga")) == 1
    assert len(corpus.vectors("unique quagga words", limit=200)) == corpus.count("chunks")
    corpus.delete(new)
    assert corpus.text("quagga") == []
    assert {seq for seq, _ in corpus.vectors("quagga", limit=200)} == {
        seq for seq, _ in corpus.exact_vectors("quagga", limit=200)
    }


def test_a_new_title_replaces_the_old_one_in_segments_and_tail(corpus: Corpus) -> None:
    number = corpus.add(["words of a note", "more words"], title="Zebra")
    corpus.fill(30)
    corpus.keeper().run()

    for title, former in (("Giraffe", "zebra"), ("Okapi", "giraffe"), ("Zebra", "okapi")):
        with corpus.store.write() as tx:
            touch(tx, sa.select(documents.c.id).where(documents.c.id == number), title=title)
        matching = documents.c.id == number
        assert len(corpus.text(title, matching)) == 2
        assert corpus.text(former, matching) == []
        corpus.keeper(tail_rows=1).run()
        assert len(corpus.text(title, matching)) == 2
        assert corpus.text(former, matching) == []


def test_organizations_never_see_each_other(corpus: Corpus, same: Close) -> None:
    corpus.fill(40, 1)
    corpus.fill(40, 2, OTHER)
    corpus.add(["secret of the other"], organization=OTHER)
    corpus.keeper().run()

    assert corpus.text("secret") == []
    assert len(corpus.text("secret", organization=OTHER)) == 1
    with corpus.store.read() as tx:
        foreign = set(tx.connection.scalars(corpus.allowed(organization=OTHER)))
    assert not foreign & {seq for seq, _ in corpus.vectors("the", limit=500)}
    assert {seq for seq, _ in corpus.vectors("the", limit=500, organization=OTHER)} == foreign


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("limit", [1, 10, 100])
def test_filters_lose_nothing(corpus: Corpus, same: Close, limit: int) -> None:
    corpus.fill(150)
    corpus.keeper().run()
    corpus.fill(20, 9)
    conditions = [
        tagged("t3"),
        documents.c.path == "note 7 the.md",
        documents.c.id > 100,
        documents.c.id < 0,
        ~tagged("t1"),
    ]

    for condition in conditions:
        for query in QUERIES[:5]:
            same(
                corpus.text(query, condition, limit=limit),
                corpus.text(query, condition, limit=limit, side=False),
            )
            same(
                corpus.vectors(query, condition, limit=limit),
                corpus.exact_vectors(query, condition, limit=limit),
            )


def test_a_filter_is_asked_again_when_something_was_written(corpus: Corpus) -> None:
    corpus.fill(60)
    corpus.keeper().run()
    for _ in range(3):
        before = len(corpus.text("quagga", tagged("wanted")))
        corpus.add(["quagga"], tag="wanted")
        assert len(corpus.text("quagga", tagged("wanted"))) == before + 1


def test_a_broad_filter_that_shuts_out_all_good_hits_still_finds_the_rest(corpus: Corpus) -> None:
    for number in range(60):
        corpus.add(["zebra " * 10] * 3, title=f"shut {number}", tag="shut")
    for number in range(30):
        corpus.add(
            [f"a zebra among many other words that make it worse {number}"],
            title=f"open {number}",
            tag="open",
        )
    corpus.keeper().run()

    assert len(corpus.text("zebra", ~tagged("shut"), limit=20)) == 20
    assert len(corpus.vectors("zebra " * 10, ~tagged("shut"), limit=30)) == 30


def test_small_organizations_have_no_side_index_and_pay_nothing(corpus: Corpus) -> None:
    corpus.fill(30)

    corpus.keeper(min_chunks=10_000).run()

    assert not corpus.is_live(TEXT)
    assert corpus.count("side_tail") == corpus.count("side_indexes") == 0


def test_an_organization_that_has_shrunk_loses_its_side_index(corpus: Corpus) -> None:
    numbers = [corpus.add([f"note {number}"], title=f"n{number}") for number in range(20)]
    corpus.keeper(min_chunks=10).run()
    assert corpus.is_live(TEXT)

    for number in numbers[:18]:
        corpus.delete(number)
    corpus.keeper(min_chunks=10).run()
    corpus.keeper(min_chunks=10).run()

    assert (
        corpus.count("side_indexes")
        == corpus.count("side_segments")
        == corpus.count("side_removed")
        == 0
    )
    assert not [folder for folder in corpus.store.engine.side_folder.iterdir() if folder.is_dir()]


def test_segments_that_are_largely_void_are_written_anew(corpus: Corpus, same: Close) -> None:
    numbers = [
        corpus.add([f"note of the zebra {number}"], title=f"n{number}") for number in range(64)
    ]
    corpus.keeper().run()
    for number in numbers[::2]:
        corpus.delete(number)
    assert corpus.count("side_removed") == 64

    corpus.keeper().run()

    assert corpus.count("side_removed") == 0
    same(corpus.text("zebra", limit=50), corpus.text("zebra", limit=50, side=False))
    assert len(corpus.vectors("zebra", limit=50)) == 32


@pytest.mark.usefixtures("blocks")
def test_many_questions_at_once_find_what_each_finds_alone(corpus: Corpus) -> None:
    for seed in range(4):
        corpus.fill(25, seed)
        corpus.keeper().run()
    corpus.fill(9, 4)
    for number in (3, 30, 100):
        corpus.delete(number)
    queries = [*QUERIES, "zebra of the backup"]

    for condition in (None, tagged("t3"), documents.c.id < 40, documents.c.id < 0):
        for limit in (1, 7, 400):
            with corpus.store.read() as tx:
                index = tx.vectors
                assert index is not None
                allowed = None if condition is None else corpus.allowed(condition)
                wanted = [text_query(query, WEIGHTS) for query in queries]
                asked = list(map(vector_of, queries))
                texts = tx.text.search(wanted, allowed, limit)
                vectors = index.search(asked, allowed, limit)
                for number, (by_words, by_vector) in enumerate(zip(texts, vectors, strict=True)):
                    assert pairs(by_words) == pairs(
                        *tx.text.search([wanted[number]], allowed, limit)
                    )
                    assert pairs(by_vector) == pairs(*index.search([asked[number]], allowed, limit))


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.floats(-2, 2, width=32), st.integers(1, 5)), max_size=30
    )
)
def test_the_best_come_first_as_sorting_by_each_column_has_them(
    found: list[tuple[int, float, int]],
) -> None:
    groups, scores, numbers = (
        (np.array(column) for column in zip(*found, strict=True))
        if found
        else (np.empty(0, np.int64),) * 3
    )
    scores = scores.astype(np.float32)
    wanted = np.lexsort((numbers, -scores, groups))

    made = best_first(groups, scores, numbers)

    for column in (groups, scores, numbers):
        assert column[made].tolist() == column[wanted].tolist()
