"""What a reading transaction remembers."""

from __future__ import annotations

from kb_framework.api import DEFAULT_ORGANIZATION

from .conftest import OTHER, Corpus


def test_reading_transactions_read_the_same_thing_once_until_somebody_has_written(
    corpus: Corpus,
) -> None:
    asked: list[str] = []

    def read(name: str, organization: str = DEFAULT_ORGANIZATION) -> None:
        with corpus.store.read(organization) as tx:
            for _ in range(3):
                tx.once("key", lambda: asked.append(name))

    read("first")
    read("again")
    assert asked == ["first"]

    read("of another organization", OTHER)
    assert asked == ["first", "of another organization"]

    corpus.add(["zebra"])
    read("after a commit")
    assert asked == ["first", "of another organization", "after a commit"]


def test_a_reading_transaction_that_began_before_a_commit_does_not_pass_on_what_it_saw(
    corpus: Corpus,
) -> None:
    with corpus.store.read() as tx:
        before = tx.corpus_revision()
        corpus.add(["zebra"])
        assert tx.corpus_revision() == before
    with corpus.store.read() as tx:
        assert tx.corpus_revision() == before + 1


def test_a_writing_transaction_reads_anew_since_it_may_have_changed_what_it_read(
    corpus: Corpus,
) -> None:
    asked: list[int] = []
    with corpus.store.write() as tx:
        for number in range(3):
            tx.once("key", lambda number=number: asked.append(number))

    assert asked == [0, 1, 2]
