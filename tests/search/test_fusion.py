"""What fusion promises, whatever the lists: nothing is lost, what leads leads, and a list that knows less counts less."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kb_search import fusion

from kb_framework.api import Candidate
from kb_framework.pipelines.columns import Candidates

LIMIT = 20


def fuse(lists, limit, weights, contexts=None):
    columns = {name: Candidates.of(found) for name, found in lists.items()}
    hits = list(fusion.fuse(columns, limit, weights, contexts))
    arrays = {
        name: Candidates(np.array(found.chunks), np.array(found.scores))
        for name, found in columns.items()
    }
    assert list(fusion.fuse(arrays, limit, weights, contexts)) == hits
    return hits


def lists(low: float, high: float):
    scores = st.dictionaries(st.integers(1, 40), st.floats(low, high), max_size=LIMIT)
    return scores.map(
        lambda found: [
            Candidate(*pair) for pair in sorted(found.items(), key=lambda pair: -pair[1])
        ]
    )


@given(lists(0, 40), lists(-1, 1))
def test_every_chunk_of_every_list_is_there_once(lexical, vector) -> None:
    hits = fuse({"lexical": lexical, "vector": vector}, LIMIT, {})

    assert sorted(hit.chunk for hit in hits) == sorted(
        {candidate.chunk for candidate in [*lexical, *vector]}
    )
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        assert hit.ranks.keys() == hit.scores.keys() != set()


@given(lists(0.1, 40))
def test_a_list_alone_keeps_its_order(lexical) -> None:
    assert [hit.chunk for hit in fuse({"lexical": lexical, "vector": []}, LIMIT, {})] == [
        found.chunk for found in lexical
    ]


@given(lists(0, 40), lists(-1, 1))
def test_what_leads_in_both_lists_leads(lexical, vector) -> None:
    both = [Candidate(99, 41.0), *lexical], [Candidate(99, 1.0), *vector]

    assert fuse({"lexical": both[0], "vector": both[1]}, LIMIT + 1, {})[0].chunk == 99


def test_a_list_that_does_not_know_the_language_hardly_counts() -> None:
    lexical = [Candidate(1, 10.0), Candidate(2, 8.0)]
    vector = [Candidate(3, 0.9), Candidate(2, 0.8), Candidate(4, 0.1)]

    assert fuse({"lexical": lexical, "vector": vector}, LIMIT, {})[0].chunk == 2
    assert [
        hit.chunk for hit in fuse({"lexical": lexical, "vector": vector}, LIMIT, {"vector": 0.1})
    ][:2] == [1, 2]


def test_how_near_everything_is_to_a_model_does_not_matter() -> None:
    """Some models give cosines between 0.1 and 0.5, others between 0.8 and 0.9 for the same texts."""
    lexical = [Candidate(chunk, 10.0 - chunk) for chunk in range(5)]
    wide = [Candidate(chunk, 0.1 + 0.1 * place) for place, chunk in enumerate((7, 0, 4, 3))][::-1]
    narrow = [Candidate(chunk, 1 - (1 - score) / 5) for chunk, score in wide]

    by_wide, by_narrow = (
        fuse({"lexical": lexical, "vector": found}, LIMIT, {}) for found in (wide, narrow)
    )

    assert [hit.chunk for hit in by_wide] == [hit.chunk for hit in by_narrow]


def test_among_chunks_of_a_context_that_is_near_words_decide() -> None:
    """An article in paragraphs: its title is in the vector of each, and makes all of them near."""
    lexical = [Candidate(1, 10.0), Candidate(2, 7.0), Candidate(9, 6.0)]
    vector = [Candidate(2, 0.9), Candidate(3, 0.6), Candidate(1, 0.4), Candidate(8, 0.1)]

    def article(chunks):
        return {chunk: "article" if chunk < 4 else chunk for chunk in chunks}

    assert fuse({"lexical": lexical, "vector": vector}, LIMIT, {})[0].chunk == 2
    assert fuse({"lexical": lexical, "vector": vector}, LIMIT, {}, article)[0].chunk == 1


def test_a_title_that_most_distant_chunks_have_too_evens_out_little() -> None:
    """Of many meeting notes one is near: that it is called so does not bring up the others."""
    lexical = [Candidate(chunk, 10.0 - chunk) for chunk in range(10)]
    vector = [Candidate(9, 0.9), Candidate(20, 0.1)]

    hits = fuse(
        {"lexical": lexical, "vector": vector},
        LIMIT,
        {},
        lambda chunks: dict.fromkeys(chunks, "Meeting notes"),
    )

    assert hits[0].chunk == 0
    assert next(place for place, hit in enumerate(hits) if hit.chunk == 9) < 5


@given(lists(0, 40), lists(-1, 1), st.integers(1, 5))
def test_a_context_loses_no_chunk_and_takes_nothing_from_any(lexical, vector, number) -> None:
    found = {"lexical": lexical, "vector": vector}
    before = {hit.chunk: hit for hit in fuse(found, LIMIT, {})}
    after = {
        hit.chunk: hit
        for hit in fuse(
            found, LIMIT, {}, lambda chunks: {chunk: chunk % number for chunk in chunks}
        )
    }

    assert before.keys() == after.keys()
    for chunk, hit in after.items():
        assert hit.score >= before[chunk].score - 1e-9
        assert (hit.ranks, hit.scores) == (before[chunk].ranks, before[chunk].scores)


def test_where_vectors_do_not_count_no_context_is_read() -> None:
    def unasked(_):
        raise AssertionError("contexts were read")

    fuse(
        {"lexical": [Candidate(1, 1.0)], "vector": [Candidate(2, 0.5)]},
        LIMIT,
        {"vector": 0.0},
        unasked,
    )
    fuse({"lexical": [Candidate(1, 1.0)], "vector": []}, LIMIT, {}, unasked)
