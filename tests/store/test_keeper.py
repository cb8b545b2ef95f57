"""The keeper of side indexes: stopped, killed, at work beside writers, and after damage."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from kb_sqlite.accelerator.tables import TEXT, side_segments
from pysqlite3 import dbapi2

from kb_framework.api.tables import chunks
from kb_framework.client import connect

from .conftest import Close, Corpus, open_store, vector_of

pytestmark = pytest.mark.sqlite_only("side indexes belong to SQLite")

# Runs a keeper, and is killed by itself at a given one of the places where it stops to breathe.
KILLED = """
import os, signal, sys
from pathlib import Path
from kb_sqlite.accelerator.builder import SegmentBuilder
from kb_sqlite.engine import SqliteEngine
from kb_framework.api.parts import Store

places = iter(range(int(sys.argv[2])))

def stop():
    if next(places, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    return False

store = Store(SqliteEngine(Path(sys.argv[1]), 30))
SegmentBuilder(store, store.engine.side_folder, 1, 16, grace=0).run(stop)
"""


def segments_on_disk(corpus: Corpus) -> set[str]:
    return {folder.name for folder in corpus.store.engine.side_folder.iterdir() if folder.is_dir()}


def folders(corpus: Corpus) -> set[str]:
    with corpus.store.read() as tx:
        return set(tx.connection.scalars(sa.select(side_segments.c.folder)))


def finds_the_same(corpus: Corpus) -> None:
    """Deleted chunks count in the rarity of words until they are merged away: then only what is found can be compared."""
    for query in ("the zebra", "w1 w2 w30", "backup of cafe"):
        found, wanted = corpus.text(query, limit=1000), corpus.text(query, limit=1000, side=False)
        assert {seq for seq, _ in found} == {seq for seq, _ in wanted}
        found, wanted = corpus.vectors(query, limit=30), corpus.exact_vectors(query, limit=30)
        assert {seq for seq, _ in found} == {seq for seq, _ in wanted}
    assert corpus.keeper().check() == {}


def agrees(corpus: Corpus, same: Close) -> None:
    for query in ("the zebra", "w1 w2 w30", "backup of cafe"):
        same(corpus.text(query, limit=30), corpus.text(query, limit=30, side=False))
        same(corpus.vectors(query, limit=30), corpus.exact_vectors(query, limit=30))
    assert corpus.keeper().check() == {}


@pytest.mark.parametrize("place", [1, 2, 3, 5, 8, 13])
def test_a_keeper_that_is_killed_leaves_nothing_wrong(
    corpus: Corpus, same: Close, place: int
) -> None:
    corpus.fill(40)
    for seed in (1, 2, 3):
        corpus.keeper().run()
        corpus.fill(20, seed)

    arguments = [sys.executable, "-c", KILLED, str(corpus.path / "kb.sqlite"), str(place)]
    assert subprocess.run(arguments, env=os.environ, check=False).returncode in (-9, 0)
    agrees(corpus, same)

    corpus.keeper().run()
    corpus.keeper().run()
    agrees(corpus, same)
    assert segments_on_disk(corpus) == folders(corpus)


def test_a_keeper_that_is_stopped_goes_on_where_it_was(corpus: Corpus, same: Close) -> None:
    corpus.fill(60)
    for _ in range(100):
        corpus.keeper().run(lambda: True)
        if corpus.is_live(TEXT) and corpus.is_live(corpus.space().index_name):
            break
    corpus.keeper().run()

    agrees(corpus, same)


def test_only_one_keeper_works_at_a_time(corpus: Corpus) -> None:
    corpus.fill(20)
    keeper = corpus.keeper()
    seen: list[list[str]] = []

    def another() -> bool:
        seen.append(corpus.keeper().run())
        return True

    keeper.run(another)

    assert seen == [[]]
    assert corpus.keeper().run()


def test_writers_and_readers_go_on_while_the_keeper_works(corpus: Corpus) -> None:
    corpus.fill(80)
    corpus.keeper().run()
    ended = threading.Event()
    failures: list[BaseException] = []

    def keep() -> None:
        while not ended.is_set():
            corpus.keeper(tail_rows=8).run()

    def read() -> None:
        while not ended.is_set():
            found = corpus.text("zebra the", limit=20)
            assert len(found) == 20
            assert len(corpus.vectors("zebra", limit=20)) == 20

    def guarded(work) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (keep, read, read)]
    for thread in threads:
        thread.start()
    numbers = []
    for number in range(40):
        numbers.append(corpus.add([f"a zebra of the herd number {number}"], title=f"herd {number}"))
        if number % 3 == 0:
            corpus.delete(numbers.pop(0))
        assert len(corpus.text(f"herd {number}", limit=200)) >= 1
    ended.set()
    for thread in threads:
        thread.join()

    assert not failures
    finds_the_same(corpus)


def test_chunks_that_change_while_a_segment_is_written_are_right_afterwards(corpus: Corpus) -> None:
    first = corpus.add(["quagga of yesterday"], title="old")
    corpus.fill(30)
    changed = []

    def change() -> bool:
        # At every place where the keeper stops to breathe something goes and something comes.
        if not changed:
            corpus.delete(first)
        changed.append(corpus.add(["quagga of today"], title=f"new {len(changed)}"))
        if len(changed) % 2 == 0:
            corpus.delete(changed.pop(0))
        return False

    for _ in range(3):
        corpus.keeper(tail_rows=4).run(change)

    assert len(corpus.text("quagga", limit=100)) == len(changed)
    assert corpus.text("yesterday") == []
    finds_the_same(corpus)


@pytest.mark.parametrize("damage", ["gone", "cut", "changed"])
def test_damaged_segments_are_noticed_and_built_anew(
    corpus: Corpus, same: Close, damage: str
) -> None:
    corpus.fill(40)
    corpus.keeper().run()
    whole = {query: corpus.text(query, side=False) for query in ("zebra", "the w1")}
    for folder in sorted(corpus.store.engine.side_folder.glob("text-*")):
        if damage == "gone":
            shutil.rmtree(folder)
            continue
        codes = folder / "codes.u2"
        data = codes.read_bytes()
        codes.unlink()
        codes.write_bytes(data[:-2] if damage == "cut" else bytes(len(data)))
    store = open_store(corpus.path / "kb.sqlite")
    fresh = Corpus(corpus.path, store)

    assert list(fresh.keeper().check().values())
    if damage != "changed":
        assert {query: fresh.text(query) for query in whole} == whole

    fresh.keeper().forget(fresh.keeper().check())
    fresh.keeper().run()
    agrees(fresh, same)
    store.close()


def test_an_index_that_lacks_chunks_is_noticed(corpus: Corpus) -> None:
    corpus.fill(40)
    corpus.keeper().run()
    corpus.fill(3, 5)
    with corpus.store.write() as tx:
        tx.connection.exec_driver_sql("DELETE FROM side_tail")

    assert all(" of " in problem for problem in corpus.keeper().check().values())
    assert len(corpus.keeper().check()) == 2


def test_a_database_of_the_former_version_gets_its_side_index(corpus: Corpus, same: Close) -> None:
    corpus.fill(50)
    corpus.store.close()
    with dbapi2.connect(str(corpus.path / "kb.sqlite")) as connection:
        for table in ("side_indexes", "side_segments", "side_tail", "side_removed"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("DROP INDEX documents_by_path")
        connection.execute("DELETE FROM kb_migrations WHERE plugin = 'host' AND version >= 3")
    connection.close()

    upgraded = Corpus(corpus.path, open_store(corpus.path / "kb.sqlite"))
    upgraded.keeper().run()

    agrees(upgraded, same)
    upgraded.store.close()


def test_vectors_of_a_dropped_space_take_their_index_with_them(corpus: Corpus) -> None:
    corpus.fill(30)
    corpus.keeper().run()
    with corpus.store.write() as tx:
        tx.vector_index(corpus.space().index_name).maintenance.drop()

    assert corpus.count("side_indexes") == 1
    assert corpus.is_live(TEXT)


def test_numbers_of_vectors_are_read_wherever_they_are(corpus: Corpus) -> None:
    corpus.fill(30)
    with corpus.store.read() as tx:
        texts = {
            row.seq: row.content for row in tx.execute(sa.select(chunks.c.seq, chunks.c.content))
        }
        read = tx.vector_index(corpus.space().index_name).read([*texts, 10**6])

    assert read == {seq: vector_of(text) for seq, text in texts.items()}


def test_an_engine_builds_it_by_itself_and_says_so(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_SIDE_INDEX_MIN_CHUNKS", "10")
    monkeypatch.setenv("KB_SIDE_INDEX_TAIL_ROWS", "8")
    with connect() as engine:
        for number in range(12):
            engine.add_note(f"a note about zebras, number {number}", title=f"note {number}")
        done = engine.post("/doctor/repair", {})
        messages = [check["message"] for check in done["checks"] if check["name"] == "side index"]
        assert len(messages) == 2
        assert messages[0].startswith("text: ")
        assert len(engine.search("zebras", mode="lexical", k=20)["hits"]) == 12
        assert len(engine.search("zebras", mode="hybrid", k=20)["hits"]) == 12
