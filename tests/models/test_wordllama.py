"""The default embedder."""

from __future__ import annotations

import numpy as np
import pytest
from kb_models.wordllama import WordLlama


def vectors(texts: list[str]) -> np.ndarray:
    return np.array(
        [np.frombuffer(vector, dtype=np.float32) for vector in WordLlama().encode(texts)]
    )


def test_vectors_have_unit_length() -> None:
    assert np.linalg.norm(vectors(["a cat", "하나", "x" * 5000]), axis=1) == pytest.approx(
        1.0, abs=1e-5
    )


def test_a_text_without_content_is_all_zeros() -> None:
    assert not vectors(["", "a"])[0].any()


def test_few_and_many_texts_are_encoded_alike() -> None:
    alone = vectors(["the quick brown fox"])[0]
    among = vectors(
        ["the quick brown fox", *(f"filler text number {number}" for number in range(200))]
    )[0]

    assert alone == pytest.approx(among, abs=1e-6)


def test_what_means_the_same_is_nearer() -> None:
    doctor, physician, ship = vectors(["doctor", "physician", "ship"])

    assert doctor @ physician > doctor @ ship
