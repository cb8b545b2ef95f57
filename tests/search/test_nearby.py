"""What stands near the best hits is lifted towards them, and nothing else happens."""

from __future__ import annotations

import math
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kb_search import nearby
from kb_search.nearby import by_hand, by_numpy

from kb_framework.client import Engine


def lifted(found, vectors, under, share, products=by_hand) -> list[float]:
    return nearby.lifted(found, vectors, under, share, products)


def hits(*scores: float) -> list[tuple[int, float]]:
    return list(enumerate(scores))


def vector(*numbers: float) -> bytes:
    length = math.hypot(*numbers) or 1.0
    return struct.pack(f"<{len(numbers)}f", *(number / length for number in numbers))


def apart(count: int) -> dict[int, str]:
    return {chunk: f"title {chunk}" for chunk in range(count)}


def test_the_nearer_to_the_best_the_more_a_hit_is_lifted() -> None:
    vectors = {0: vector(1, 0), 1: vector(0, 1), 2: vector(1, 1), 3: vector(1, 0)}

    assert lifted(hits(0.8, 0.4, 0.3, 0.2), vectors, apart(4), 0.5) == pytest.approx(
        [0.8, 0.4, 0.4328, 0.5], abs=1e-4
    )


def test_those_under_one_title_do_not_lift_each_other() -> None:
    vectors = {0: vector(1, 0), 1: vector(1, 0), 2: vector(1, 0)}
    found = lifted(hits(0.8, 0.4, 0.2), vectors, {0: "a", 1: "a", 2: "b"}, 0.5)

    assert found == pytest.approx([0.8, 0.4, 0.5])


def test_a_hit_without_a_vector_stays_what_it_is() -> None:
    assert lifted(
        hits(0.8, 0.4, 0.2), {1: vector(1, 0), 2: vector(1, 0)}, apart(3), 0.5
    ) == pytest.approx([0.8, 0.4, 0.3])
    assert lifted(hits(0.8, 0.4), {}, apart(2), 0.5) == [0.8, 0.4]


numbers = st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3)


@given(st.lists(st.tuples(st.floats(0, 1), numbers), min_size=1, max_size=8), st.floats(0, 0.5))
def test_none_is_lowered_and_none_comes_past_the_best(
    found: list[tuple[float, list[float]]], share: float
) -> None:
    before = sorted((score for score, _ in found), reverse=True)
    vectors = {chunk: vector(*numbers) for chunk, (_, numbers) in enumerate(found)}
    after = lifted(hits(*before), vectors, apart(len(found)), share)

    assert all(new >= old for new, old in zip(after, before, strict=True))
    assert max(after) <= before[0] * (1 + 1e-6)


def test_it_is_the_same_with_and_without_numpy() -> None:
    vectors = {chunk: vector(math.sin(chunk), math.cos(chunk), chunk / 7) for chunk in range(9)}
    asked = hits(*(1 / (chunk + 1) for chunk in range(9))), vectors, apart(9), 0.5

    assert lifted(*asked, by_numpy) == pytest.approx(lifted(*asked), abs=1e-9)
    assert lifted(hits(0.8, 0.4), {}, apart(2), 0.5, by_numpy) == [0.8, 0.4]


def test_a_text_that_says_it_in_other_words_comes_with_its_neighbour(kb_engine: Engine) -> None:
    """Two are as good by the question itself; the one that is about the same as the best hit comes first."""
    kb_engine.add_note("The harbour pilot guides ships into the port at night.", title="Pilots")
    kb_engine.add_note("Ships, port, vessels and boats moor at the harbour.", title="Moorings")
    kb_engine.add_note("The pilot of an aeroplane lands at the airport at night.", title="Flying")
    kb_engine.add_note("Bread is baked with flour and yeast.", title="Bread")

    found = [
        hit["title"]
        for hit in kb_engine.search("harbour pilot guides ships", mode="hybrid")["hits"]
    ]

    assert found[0] == "Pilots"
    assert found.index("Moorings") < found.index("Bread")


def test_a_command_that_searches_once_imports_no_numpy(kb_engine: Engine) -> None:
    for number in range(3):
        kb_engine.add_note(f"Keys of kind {number} are rotated every {number} days.")
    code = (
        "import sys\n"
        "from kb_framework.api.client import connect\n"
        "with connect() as engine:\n"
        "    print(len(engine.search('how often are keys rotated')['hits']), 'numpy' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["3", "False"]


def test_where_nothing_is_found_there_is_nothing_to_lift(
    kb_engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    import numpy as np  # noqa: F401 - with it many are fused at once, even where there is one

    kb_engine.post("/notes", {"text": "Keys are rotated often."})

    assert kb_engine.search("keys", mode="hybrid", doc_type="nothing is of this type")["hits"] == []
    assert not caplog.records
