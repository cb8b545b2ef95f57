"""What a reading transaction remembers."""

from __future__ import annotations

from .conftest import Corpus


def test_a_reading_transaction_reads_the_same_thing_once(corpus: Corpus) -> None:
    asked: list[str] = []
    with corpus.store.read() as tx:
        assert [tx.once("key", lambda: asked.append("read")) for _ in range(3)] == [None] * 3
    with corpus.store.read() as tx:
        tx.once("key", lambda: asked.append("next"))

    assert asked == ["read", "next"]


def test_a_writing_transaction_reads_anew_since_it_may_have_changed_what_it_read(corpus: Corpus) -> None:
    asked: list[int] = []
    with corpus.store.write() as tx:
        for number in range(3):
            tx.once("key", lambda number=number: asked.append(number))

    assert asked == [0, 1, 2]
