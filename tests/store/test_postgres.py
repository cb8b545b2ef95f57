"""What is PostgreSQL's own: the same scores as FTS5's, exact filters, who waits for whom, and what errors say."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from kb_documents.api import content_hash, delete_documents, insert_document
from kb_sqlite.engine import SqliteEngine
from kb_text.api import text_query
from sqlalchemy import event

from kb_framework.api import DEFAULT_ORGANIZATION, ChunkText
from kb_framework.api.settings import DatabaseUrl
from kb_framework.api.spaces import Space, create_space
from kb_framework.api.tables import chunks, documents, organizations
from kb_framework.api.text_query import Expression, Term
from kb_framework.api.times import now
from kb_framework.errors import Busy, Conflict, StoreUnusable
from kb_framework.storage.migrations import migrate
from kb_framework.storage.store import Store
from kb_testing.stores import pairs

from .conftest import vector_of

pytest.importorskip("psycopg")
pytestmark = pytest.mark.postgres_only

OTHER = "00000000-0000-4000-8000-0000000000aa"
WEIGHTS = (2.5, 1.5, 1.0)
WORDS = [
    "backup",
    "zebra",
    "café",
    "Straße",
    "日本語の本",
    "백업은",
    "νέα",
    "x1",
    "running",
    "the",
    "of",
    "retention",
]


@pytest.fixture
def database(kb_databases) -> Iterator[str]:
    url = kb_databases.new(migrated=False)
    yield url
    kb_databases.drop(url)


@pytest.fixture
def postgres(database: str) -> Iterator[Store]:
    from kb_postgres.engine import PostgresEngine

    store = Store(PostgresEngine(database, busy_timeout=0.5, statement_timeout=30, pool_size=4))
    migrate(store, {}, _fail)
    with store.write() as tx:
        tx.execute(sa.insert(organizations).values(id=OTHER, name="other", created_at=now()))
    yield store
    store.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Store]:
    store = Store(SqliteEngine(tmp_path / "kb.sqlite", 5))
    migrate(store, {}, _fail)
    with store.write() as tx:
        tx.execute(sa.insert(organizations).values(id=OTHER, name="other", created_at=now()))
    yield store
    store.close()


def _fail(plugin: str, error: Exception) -> None:
    raise error


def fill(
    store: Store,
    texts: list[str],
    organization: str = DEFAULT_ORGANIZATION,
    space: Space | None = None,
) -> list[int]:
    added = []
    with store.write(organization) as tx:
        for number, text in enumerate(texts):
            values = {
                "doc_type": "note",
                "title": f"about {text.split(' ')[-1]}",
                "path": f"{number}.md",
                "media": "text/plain",
            }
            values |= {
                "trust": "primary",
                "metadata": {},
                "content_hash": content_hash(text),
                "bytes": 1,
            }
            piece = ChunkText(text, {"heading_path": ["Head", text.split(" ")[0]]})
            vectors = {content_hash(text): vector_of(text)} if space else {}
            added.append(insert_document(tx, values, [], [piece], "job", vectors, space))
    return added


def some_texts(count: int) -> list[str]:
    chance = random.Random(7)
    return [
        " ".join(chance.choices(WORDS, weights=range(len(WORDS), 0, -1), k=chance.randint(2, 60)))
        for _ in range(count)
    ]


def every(organization: str = DEFAULT_ORGANIZATION) -> sa.Select:
    return sa.select(chunks.c.seq).where(chunks.c.organization_id == organization)


def searched(store: Store, wanted: str | Expression, limit: int = 500) -> list[tuple[int, float]]:
    with store.read() as tx:
        return pairs(*tx.text.search([text_query(wanted, WEIGHTS)], every(), limit))


@pytest.mark.parametrize(
    "query",
    [
        "zebra backup",
        "the café",
        "日本",
        "백업",
        "본",
        "running of the νέα x1 retention",
        "nothing",
    ],
)
def test_s1_words_have_the_scores_that_fts5_gives_them(
    postgres: Store, sqlite: Store, query: str
) -> None:
    texts = some_texts(120)
    for store in (postgres, sqlite):
        fill(store, texts)
        # A neighbour has the same words, and they do not count.
        fill(store, texts[:40], OTHER)

    expected, found = searched(sqlite, query), searched(postgres, query)
    assert {seq for seq, _ in found} == {seq for seq, _ in expected}
    assert dict(found) == pytest.approx(dict(expected), rel=1e-4, abs=1e-6)


def test_s1_chunks_with_frequent_words_alone_are_not_scored_where_rarer_words_are_enough(
    postgres: Store, sqlite: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kb_postgres import ranking

    monkeypatch.setattr(ranking, "FEW", 60)
    texts = [
        f"{text} quagga" if number % 20 == 0 else text
        for number, text in enumerate(some_texts(300))
    ]
    for store in (postgres, sqlite):
        fill(store, texts)
    asked: list[str] = []

    # Only the scoring has a parameter of that name.
    def notice(_: object, __: object, ___: str, parameters: Any, *____: object) -> None:
        if isinstance(parameters, dict) and "query" in parameters:
            asked.append(parameters["query"])

    event.listen(postgres.engine.reader, "before_cursor_execute", notice)
    for query, limit in (("quagga the of", 10), ("quagga the of", 40), ("the of", 10)):
        expected, found = searched(sqlite, query, limit), searched(postgres, query, limit)
        assert [score for _, score in found] == pytest.approx(
            [score for _, score in expected], rel=1e-4, abs=1e-6
        )
    # Ten have the rare word; forty have not, so all are scored after them.
    assert ["|" in one for one in asked[:3]] == [False, False, True]


def test_what_was_counted_of_a_frequent_word_is_counted_anew_once_there_is_more(
    postgres: Store, sqlite: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kb_postgres import ranking

    monkeypatch.setattr(ranking, "FEW", 5)

    for texts in (["zebra stripes"] * 8 + ["nothing"] * 40, ["zebra"] * 6):
        for store in (postgres, sqlite):
            fill(store, texts)
        found, expected = searched(postgres, "zebra", 100), searched(sqlite, "zebra", 100)
        assert dict(found) == pytest.approx(dict(expected), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    "expression",
    [
        Expression((Term("backup zebra"),)),
        Expression((Term("back", prefix=True), Term("café"))),
        Expression((Term("zebra", field="title"),)),
        Expression((Term("the"),), (Term("zebra"), Term("café"))),
        Expression((Term("日本語"),)),
        Expression((Term("본"),)),
    ],
    ids=["phrase", "prefix", "title", "without", "run", "character"],
)
def test_s4_syntax_finds_the_same_on_both(
    postgres: Store, sqlite: Store, expression: Expression
) -> None:
    texts = some_texts(120)
    for store in (postgres, sqlite):
        fill(store, texts)

    expected, found = searched(sqlite, expression), searched(postgres, expression)
    assert {seq for seq, _ in found} == {seq for seq, _ in expected}


def test_totals_follow_what_is_added_and_removed(postgres: Store) -> None:
    added = fill(postgres, some_texts(30))
    with postgres.write(DEFAULT_ORGANIZATION) as tx:
        delete_documents(tx, sa.select(documents.c.id).where(documents.c.id.in_(added[:10])))
    with postgres.write() as tx:
        assert tx.text.maintenance.check() is None
        assert tx.text.maintenance.count() == 20
        tx.connection.exec_driver_sql("UPDATE chunks_fts_totals SET length = length + 1")
        assert tx.text.maintenance.check() == "its totals are not those of its rows"


def test_words_that_are_too_long_for_postgresql_are_found(postgres: Store) -> None:
    long = "a" * 5000
    fill(postgres, [f"{long} end", "other words"])
    found = searched(postgres, long)
    assert len(found) == 1


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_filter_loses_no_hits_of_an_hnsw_index(
    postgres: Store, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kb_postgres import index_builder as keeper
    from kb_postgres import vectors
    from kb_postgres.repartition import partition

    # As if few were many, so that the index is built and asked.
    monkeypatch.setattr(keeper, "EXACT", 50)
    monkeypatch.setattr(vectors, "EXACT", -1)
    with postgres.write() as tx:
        space = create_space(tx, "random", len(vector_of("x")) // 4)
    fill(postgres, [f"text {number}" for number in range(400)], space=space)
    fill(postgres, ["another's"], OTHER, space)
    assert partition(postgres, partitions, lambda _: None) is (partitions > 1)
    assert len(keeper.PostgresIndexBuilder(postgres, postgres.engine.writer).run()) == 1
    assert keeper.PostgresIndexBuilder(postgres, postgres.engine.writer).missing() == 0
    rare = every().where(chunks.c.seq % 40 == 0)

    def nearest() -> list[tuple[int, float]]:
        with postgres.read() as tx:
            assert tx.vectors is not None
            return pairs(*tx.vectors.search([vector_of("text 7")], rare, 10))

    found = nearest()
    monkeypatch.setattr(vectors, "EXACT", 10_000)
    exact = nearest()
    assert [seq for seq, _ in found] == [seq for seq, _ in exact]
    assert len(found) == 10


def test_vectors_come_back_as_they_were(postgres: Store) -> None:
    with postgres.write() as tx:
        space = create_space(tx, "random", len(vector_of("x")) // 4)
    fill(postgres, ["one", "two"], space=space)
    with postgres.read() as tx:
        read = tx.vector_index(space.index_name).read([1, 2, 99])
        query = sa.select(chunks.c.seq, tx.vector_of(chunks.c.seq)).order_by(chunks.c.seq)
        shown = [row[1] for row in tx.execute(query)]
    assert read == {1: vector_of("one"), 2: vector_of("two")}
    assert shown == [vector_of("one"), vector_of("two")]


def test_writers_of_one_organization_wait_for_each_other_and_no_one_else_does(
    postgres: Store,
) -> None:
    with postgres.write(DEFAULT_ORGANIZATION):
        with postgres.write(OTHER):
            pass
        with pytest.raises(Busy), postgres.write(DEFAULT_ORGANIZATION):
            pass
        with pytest.raises(Busy), postgres.write():
            pass


def test_what_was_committed_while_one_waited_is_seen(database: str, postgres: Store) -> None:
    from kb_postgres.engine import PostgresEngine

    patient = Store(PostgresEngine(database, busy_timeout=600, statement_timeout=600, pool_size=1))
    entered, go = threading.Event(), threading.Event()

    def first() -> None:
        with postgres.write(DEFAULT_ORGANIZATION) as tx:
            tx.corpus_changed()
            entered.set()
            go.wait(600)

    thread = threading.Thread(target=first)
    thread.start()
    entered.wait(600)
    threading.Timer(0.1, go.set).start()
    with patient.write(DEFAULT_ORGANIZATION) as tx:
        assert tx.corpus_revision() == 1
    thread.join()
    patient.close()


def test_reading_is_one_view_of_everything(postgres: Store) -> None:
    with postgres.read() as tx:
        count = sa.select(sa.func.count()).select_from(documents)
        assert tx.scalar(count) == 0
        fill(postgres, ["new"])
        assert tx.scalar(count) == 0


def test_nothing_can_be_written_while_reading(postgres: Store) -> None:
    with pytest.raises(StoreUnusable, match="cannot be written"), postgres.read() as tx:
        tx.execute(sa.insert(organizations).values(id="x", name="x", created_at=now()))


def test_the_rows_that_a_statement_made_of_others_are_counted(postgres: Store) -> None:
    columns = ["id", "name", "created_at"]
    copied = sa.select(
        sa.func.reverse(organizations.c.id), organizations.c.name + "x", organizations.c.created_at
    )
    with postgres.write() as tx:
        there = tx.scalar(sa.select(sa.func.count()).select_from(organizations))
        assert tx.execute(sa.insert(organizations).from_select(columns, copied)).rowcount == there


def test_a_backup_is_refused_and_the_tool_for_it_named(postgres: Store, tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="its own tools") as caught, postgres.read() as tx:
        postgres.engine.copy_to(tx.connection, tmp_path / "kb.sqlite")
    assert "pg_dump" in str(caught.value.hint)


def test_a_statement_that_takes_too_long_is_ended_and_names_the_setting(database: str) -> None:
    from kb_postgres.engine import PostgresEngine

    store = Store(PostgresEngine(database, busy_timeout=5, statement_timeout=0.1, pool_size=1))
    try:
        for begin, unchanged in ((store.read, ""), (store.write, "; nothing was changed")):
            with (
                pytest.raises(Busy, match=f"took too long and was ended{unchanged}$") as told,
                begin() as tx,
            ):
                tx.scalar(sa.text("SELECT count(*) FROM generate_series(1, 1000000000)"))
            assert "KB_DATABASE_STATEMENT_TIMEOUT" in (told.value.hint or "")
    finally:
        store.close()


def test_a_server_that_is_not_there_is_said_to_be_so() -> None:
    from kb_postgres.engine import PostgresEngine

    store = Store(PostgresEngine("postgresql://somebody:secret@127.0.0.1:1/kb", 1, 1, 1))
    with pytest.raises(StoreUnusable, match="cannot be reached") as caught, store.read():
        pass
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


def test_without_the_extension_it_says_how_to_create_it(postgres: Store) -> None:
    with postgres.write() as tx:
        tx.engine.show_vectors(tx.connection, None)
        tx.connection.exec_driver_sql("DROP EXTENSION vector CASCADE")
    assert "CREATE EXTENSION vector" in (postgres.engine.vectors_missing or "")
    # Words are found all the same.
    fill(postgres, ["zebra"])
    found = searched(postgres, "zebra")
    assert len(found) == 1


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://kb:s3cret@db/kb", "postgresql://kb:***@db/kb"),
        (
            "postgresql://kb@db/kb?password=s3cret&sslmode=require",
            "postgresql://kb@db/kb?password=***&sslmode=require",
        ),
        ("postgresql:///kb?host=/run/postgresql", "postgresql:///kb?host=/run/postgresql"),
    ],
)
def test_h7_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert str(DatabaseUrl(url)) == shown
    assert "s3cret" not in repr(DatabaseUrl(url))
