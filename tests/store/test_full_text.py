"""Full text is an organization's own: A2, and what a neighbour may not cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
import sqlalchemy as sa
from kb_sqlite import full_text
from kb_text.api import add_missing_text, index_fields, text_query
from kb_text.rebuild import rebuild_text
from sqlalchemy.exc import OperationalError

from kb_framework.api import DEFAULT_ORGANIZATION
from kb_framework.api.tables import file_removals
from kb_framework.api.times import now
from kb_framework.errors import DiskFull, MutationRefused
from kb_framework.storage.store import Store

from .conftest import OTHER, Corpus, open_store

pytestmark = pytest.mark.sqlite_only("the tables of FTS5")


@pytest.fixture
def second(corpus: Corpus) -> Iterator[Store]:
    """What another process has open."""
    store = open_store(corpus.path / "kb.sqlite")
    yield store
    store.close()


def tables(store: Store) -> set[str]:
    with store.read() as tx:
        found = tx.connection.exec_driver_sql(
            "SELECT name FROM sqlite_schema WHERE name GLOB 'chunks_fts*'"
        ).scalars()
        return {
            name
            for name in found
            if name.removeprefix("chunks_fts_").isdigit() or name == "chunks_fts"
        }


def counts(store: Store) -> dict[str, int]:
    with store.read() as tx:
        return {
            owner: tx.text_index(owner).maintenance.count()
            for owner in (DEFAULT_ORGANIZATION, OTHER)
        }


def test_scores_do_not_depend_on_what_a_neighbour_writes(corpus: Corpus) -> None:
    corpus.add(["zebras run", "zebras sleep in the long grass of the plain", "lions sleep"])
    before = corpus.text("zebras sleep", side=False)

    corpus.fill(50, organization=OTHER)
    corpus.add(["zebras zebras zebras", "sleep"], organization=OTHER)

    assert corpus.text("zebras sleep", side=False) == before
    assert len(before) == 3


def test_an_organization_without_chunks_has_no_table_and_finds_nothing(corpus: Corpus) -> None:
    corpus.add(["zebras"])

    assert len(tables(corpus.store)) == 1
    assert corpus.text("zebras", side=False, organization=OTHER) == []
    with corpus.store.read(OTHER) as tx:
        matching = tx.text_index(OTHER).matches(text_query("zebras"), sa.literal(1))
        assert tx.scalar(sa.select(matching)) == 0


def test_a_table_whose_first_chunk_is_rolled_back_is_not_there(corpus: Corpus) -> None:
    with pytest.raises(ZeroDivisionError), corpus.store.write(OTHER) as tx:
        with tx.savepoint():
            tx.text_index(OTHER).add([(1, index_fields(["", "", "zebras"]))])
        raise ZeroDivisionError

    assert tables(corpus.store) == set()
    corpus.add(["zebras"], organization=OTHER)
    assert len(corpus.text("zebras", side=False, organization=OTHER)) == 1


def test_a_table_that_is_rolled_back_to_a_savepoint_is_made_again(corpus: Corpus) -> None:
    with corpus.store.write(OTHER) as tx:
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            tx.text_index(OTHER).add([(1, index_fields(["", "", "lions"]))])
            raise ZeroDivisionError
        tx.text_index(OTHER).add([(1, index_fields(["", "", "zebras"]))])

    assert counts(corpus.store) == {DEFAULT_ORGANIZATION: 0, OTHER: 1}


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_full_disk_in_a_savepoint_ends_the_transaction_and_says_so(
    corpus: Corpus, wrapped: bool
) -> None:
    """SQLite has rolled back by then: a caller that caught another error would write on without a transaction."""
    corpus.add(["lions"])
    met, went_on = False, False
    with pytest.raises(DiskFull), corpus.store.write() as tx:
        pages = tx.connection.exec_driver_sql("PRAGMA page_count").scalar()
        tx.connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        tx.execute(sa.insert(file_removals).values(key="before", created_at=now()))
        with suppress(MutationRefused), tx.savepoint():
            try:
                tx.execute(sa.insert(file_removals).values(key="x" * 1_000_000, created_at=now()))
            except OperationalError as error:
                met = True
                if wrapped:
                    raise MutationRefused("a guard could not be asked") from error
                raise
        went_on = True

    assert met and not went_on
    with corpus.store.write() as tx:
        tx.connection.exec_driver_sql("PRAGMA max_page_count = 1073741823")
        assert tx.scalar(sa.select(sa.func.count()).select_from(file_removals)) == 0
    corpus.add(["zebras"])
    assert len(corpus.text("zebras", side=False)) == 1


def test_what_others_have_open_sees_a_new_table_after_the_commit_and_not_before(
    corpus: Corpus, second: Store
) -> None:
    with second.read(OTHER) as before, corpus.store.write(OTHER) as tx:
        tx.text_index(OTHER).add([(1, index_fields(["", "", "zebras"]))])
        assert before.text_index(OTHER).maintenance.count() == 0

    with second.read(OTHER) as tx:
        assert tx.text_index(OTHER).maintenance.count() == 1
    with second.write(OTHER) as tx:
        tx.text_index(OTHER).add([(2, index_fields(["", "", "lions"]))])
    assert counts(corpus.store)[OTHER] == 2


def test_what_all_organizations_shared_is_divided_when_it_is_opened(corpus: Corpus) -> None:
    corpus.add(["zebras run"])
    corpus.add(["zebras sleep", "lions"], organization=OTHER)
    with corpus.store.write() as tx:
        tx.engine.drop_text(tx.connection)
        tx.connection.exec_driver_sql("DROP TABLE full_texts")
        full_text.create_table(tx.connection, "chunks_fts")
        tx.connection.exec_driver_sql(
            "INSERT INTO chunks_fts(rowid, body) SELECT seq, content FROM chunks"
        )
        tx.connection.exec_driver_sql(
            "UPDATE kb_migrations SET version = 2 WHERE plugin = 'full text'"
        )
    assert tables(corpus.store) == {"chunks_fts"}

    opened = open_store(corpus.path / "kb.sqlite")

    try:
        assert counts(opened) == {DEFAULT_ORGANIZATION: 1, OTHER: 2}
        assert tables(opened) == {"chunks_fts_1", "chunks_fts_2"}
    finally:
        opened.close()


def test_indexing_anew_drops_what_nobody_lists(corpus: Corpus) -> None:
    corpus.add(["zebras"])
    corpus.add(["lions"], organization=OTHER)
    with corpus.store.write() as tx:
        tx.connection.exec_driver_sql("DELETE FROM full_texts")

    with corpus.store.write() as tx:
        rebuild_text(tx)

    assert counts(corpus.store) == {DEFAULT_ORGANIZATION: 1, OTHER: 1}
    assert tables(corpus.store) == {"chunks_fts_1", "chunks_fts_2"}


def test_dropping_one_organization_leaves_the_other_alone(corpus: Corpus) -> None:
    corpus.add(["zebras"])
    corpus.add(["zebras"], organization=OTHER)

    with corpus.store.write() as tx:
        tx.text_index(OTHER).maintenance.drop()

    assert counts(corpus.store) == {DEFAULT_ORGANIZATION: 1, OTHER: 0}
    with corpus.store.write() as tx:
        assert len(add_missing_text(tx, OTHER, 0, 10)) == 1
        assert add_missing_text(tx, DEFAULT_ORGANIZATION, 0, 10) == []


def test_what_is_in_a_neighbours_table_is_stray(corpus: Corpus) -> None:
    corpus.add(["zebras"])
    corpus.add(["lions"], organization=OTHER)
    with corpus.store.write() as tx:
        tx.text_index(OTHER).add([(1, index_fields(["", "", "zebras"]))])

    with corpus.store.write() as tx:
        removed = (
            tx.text_index(OTHER).maintenance.remove_strays(),
            tx.text_index(DEFAULT_ORGANIZATION).maintenance.remove_strays(),
        )

    assert removed == (1, 0)


def test_vectors_are_found_by_organization_also_where_they_were_before(corpus: Corpus) -> None:
    corpus.add(["zebras"])
    with corpus.store.write() as tx:
        tx.connection.exec_driver_sql("DROP INDEX chunks_vec_1_by_organization")
        tx.connection.exec_driver_sql(
            "DELETE FROM kb_migrations WHERE plugin = 'host' AND version >= 6"
        )

    opened = open_store(corpus.path / "kb.sqlite")

    try:
        with opened.read() as tx:
            named = "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'chunks_vec_1_chunks'"
            assert tx.connection.exec_driver_sql(named).scalars().all() == [
                "chunks_vec_1_by_organization"
            ]
    finally:
        opened.close()
