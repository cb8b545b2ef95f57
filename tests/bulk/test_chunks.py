"""C1–C5: chunks by id, as 003 and the contract have them."""

from __future__ import annotations

import http.client
import json
import logging
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
import sqlalchemy as sa
from kb_bulk.models import ChunksIn
from mcp import Client
from sqlalchemy import event

from kb_framework.api import Actor
from kb_framework.api.spaces import vector_indexes
from kb_framework.api.tables import chunks, organizations
from kb_framework.app import KB, open_kb
from kb_framework.client import Engine, connect
from kb_framework.edges.http.app import create_app
from kb_framework.errors import EngineError, error_codes
from kb_framework.storage.migrations import HOST_MIGRATIONS
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import Install, Run, RunningServer, kb_mcp

UNKNOWN = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
PATH = "/api/v1/chunks/bulk"
# What is said around a query.
FRAME = ("BEGIN", "SET LOCAL statement_timeout")


def note(engine: Engine, text: str = "text", **fields: Any) -> dict[str, Any]:
    """A note's only chunk."""
    document = engine.add_note(text, **fields)["document"]
    return engine.get_document_chunks(document["id"])["data"][0]


def fetch(engine: Engine, *ids: str, **options: Any) -> dict[str, Any]:
    return engine.get_chunks(list(ids), **options)["data"]


def refusal(engine: Engine, body: Any) -> tuple[int, dict[str, Any]]:
    with pytest.raises(EngineError) as refused:
        engine.post("/chunks/bulk", body)
    assert set(refused.value.body) == {"success", "error"}
    assert refused.value.body["success"] is False
    return refused.value.http_status, refused.value.body["error"]


@pytest.fixture
def opened(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., tuple[KB, Engine]]]:
    """Opens a knowledge base with settings: its parts and a client."""
    engines: list[Engine] = []

    def open_it(**environment: str) -> tuple[KB, Engine]:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        kb = open_kb()
        engines.append(Engine(AsgiTransport(create_app(kb), kb.close), kb.plugins))
        return kb, engines[-1]

    yield open_it
    for engine in engines:
        engine.close()


# C1: what is answered


def test_c1_found_chunks_come_with_counts_and_the_ids_that_are_missing(kb_engine: Engine) -> None:
    first, second = note(kb_engine, "one"), note(kb_engine, "two")

    answer = kb_engine.post("/chunks/bulk", {"chunk_ids": [second["id"], UNKNOWN, first["id"]]})

    assert answer["success"] is True
    assert [chunk["id"] for chunk in answer["data"]["chunks"]] == sorted(
        [first["id"], second["id"]]
    )
    assert {
        key: answer["data"][key] for key in ("found_count", "requested_count", "not_found")
    } == {
        "found_count": 2,
        "requested_count": 3,
        "not_found": [UNKNOWN],
    }


def test_c1_none_found_is_a_success_too(kb_engine: Engine) -> None:
    assert kb_engine.get_chunks([UNKNOWN]) == {
        "success": True,
        "data": {"chunks": [], "found_count": 0, "requested_count": 1, "not_found": [UNKNOWN]},
    }


def test_c1_a_hundred_chunks_are_ordered_by_id(kb_engine: Engine) -> None:
    ids = [note(kb_engine, f"note {number}")["id"] for number in range(20)]

    assert [chunk["id"] for chunk in fetch(kb_engine, *ids[::-1], *ids)["chunks"]] == sorted(ids)


@pytest.mark.parametrize("source", [False, True])
@pytest.mark.parametrize("embeddings", [False, True])
def test_c1_any_number_of_chunks_is_one_statement(
    opened: Any, embeddings: bool, source: bool
) -> None:
    kb, engine = opened(KB_DISABLED_PLUGINS="legalhold")
    ids = [note(engine, f"note {number}")["id"] for number in range(5)]
    seen: list[str] = []
    for connections in (kb.store.engine.reader, kb.store.engine.writer):
        event.listen(connections, "before_cursor_execute", lambda *a: seen.append(a[2]))

    found = fetch(engine, *ids, UNKNOWN, include_embeddings=embeddings, include_source=source)

    assert (found["found_count"], len(found["not_found"])) == (5, 1)
    assert [("embedding" in chunk, "source" in chunk) for chunk in found["chunks"]] == [
        (embeddings, source)
    ] * 5
    [statement] = [text for text in seen if not text.startswith(FRAME)]
    assert "FROM chunks" in statement


@pytest.mark.sqlite_only("reads SQLite's plans, which do not depend on how much there is")
def test_c1_the_statement_finds_chunks_by_their_key(opened: Any) -> None:
    kb, engine = opened(KB_DISABLED_PLUGINS="legalhold")
    found = note(engine)
    seen: list[tuple[str, Any]] = []
    event.listen(
        kb.store.engine.reader, "before_cursor_execute", lambda *a: seen.append((a[2], a[3]))
    )
    fetch(engine, found["id"], include_embeddings=True)
    [(statement, values)] = [(text, values) for text, values in seen if "FROM chunks" in text]

    with kb.store.read() as tx:
        plan = [
            row[3]
            for row in tx.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        ]

    assert any(step.startswith("SEARCH chunks_1") and "(id=?)" in step for step in plan), plan
    assert any(step.startswith("SEARCH chunks ") and "rowid=?" in step for step in plan), plan
    assert not any(step.startswith(("SCAN chunks ", "SCAN documents")) for step in plan), plan
    # vec0 is asked for one row, by its number.
    assert any(
        step.startswith("SCAN chunks_vec_1 VIRTUAL TABLE INDEX") and ":2" in step for step in plan
    ), plan


def test_c1_embeddings_come_from_the_index_that_another_process_has_made_meanwhile(
    opened: Any, kb_run: Run
) -> None:
    kb, engine = opened(KB_DISABLED_PLUGINS="legalhold")
    number = note(engine, "words to be embedded")["id"]
    before = fetch(engine, number, include_embeddings=True)
    assert len(before["chunks"][0]["embedding"]) == 256

    assert kb_run("reindex").returncode == 0

    with kb.store.read() as tx:
        assert [name for name in vector_indexes(tx) if name == "chunks_vec_1"] == []
    seen: list[str] = []
    event.listen(kb.store.engine.reader, "before_cursor_execute", lambda *a: seen.append(a[2]))
    assert fetch(engine, number, include_embeddings=True) == before
    assert len([text for text in seen if not text.startswith(FRAME)]) == 1


def test_c1_an_older_database_shows_its_embeddings(opened: Any) -> None:
    """The view that they are read through came with a later step of the schema."""
    kb, engine = opened()
    number = note(engine, "words to be embedded")["id"]
    before = fetch(engine, number, include_embeddings=True)
    [step] = [run for _, name, run in HOST_MIGRATIONS if name == "active vectors"]
    with kb.store.write() as tx:
        tx.execute(sa.text("DROP VIEW active_vectors"))

    with kb.store.write() as tx:
        step(tx)

    assert fetch(engine, number, include_embeddings=True) == before


@pytest.mark.sqlite_only("about pieces of vec0")
def test_c3_an_index_with_larger_pieces_is_read_as_well(opened: Any) -> None:
    """vec0 chose 1024 vectors a piece, before a number was named."""
    kb, engine = opened()
    number = note(engine, "words to be embedded")["id"]
    [chunk] = fetch(engine, number, include_embeddings=True)["chunks"]
    with kb.store.write() as tx:
        run = tx.connection.exec_driver_sql
        run(
            "CREATE VIRTUAL TABLE former USING vec0(organization_id text partition key, embedding float[256])"
        )
        run(
            "INSERT INTO former(rowid, organization_id, embedding) SELECT rowid, organization_id, embedding FROM chunks_vec_1"
        )
        [(seq, vector)] = tx.vector_index("former").read([1]).items()
        fill = tx.vector_index("former").maintenance.fill()

    assert (seq, list(struct.unpack("<256f", vector))) == (1, chunk["embedding"])
    assert (fill.rows, fill.slots, fill.is_fragmented) == (1, 1024, False)


# C2: ids


def test_c2_any_well_formed_id_passes_in_any_case_and_counts_once(kb_engine: Engine) -> None:
    found = note(kb_engine)["id"]
    others = [
        "7cb8c921-aead-22e2-91c5-11d15fd541d9",
        "8dc9da32-bfbe-33f3-02d6-22e26fe652ea",
        "0" * 8 + "-0000-0000-0000-" + "0" * 12,
    ]

    data = fetch(kb_engine, found, found.upper(), found, *others, others[0].upper())

    assert (data["found_count"], data["requested_count"]) == (1, 4)
    assert data["not_found"] == others


@pytest.mark.parametrize(
    "wrong",
    [
        f"{{{UNKNOWN}}}",
        f"urn:uuid:{UNKNOWN}",
        UNKNOWN.replace("-", ""),
        UNKNOWN[:-1],
        UNKNOWN + "0",
        UNKNOWN.replace("6", "g"),
        f" {UNKNOWN}",
        f"{UNKNOWN}\n",
        "",
        "' OR 1=1 --",
        None,
        1,
        True,
        [UNKNOWN],
    ],
)
def test_c2_a_malformed_id_is_named_by_its_place(kb_engine: Engine, wrong: Any) -> None:
    assert refusal(kb_engine, {"chunk_ids": [UNKNOWN, UNKNOWN, wrong, "also wrong"]}) == (
        400,
        {
            "code": "INVALID_UUID",
            "message": "Invalid UUID format at index 2",
            "details": {"index": 2},
        },
    )


@pytest.mark.parametrize("count", [0, 101, 150])
def test_c2_none_and_more_than_a_hundred_are_refused_before_deduplication(
    kb_engine: Engine, count: int
) -> None:
    assert refusal(kb_engine, {"chunk_ids": [UNKNOWN] * count}) == (
        400,
        {
            "code": "INVALID_REQUEST",
            "message": "chunk_ids must contain 1-100 items",
            "details": {"provided": count, "max_allowed": 100},
        },
    )
    assert fetch(kb_engine, *[UNKNOWN] * 100)["requested_count"] == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"chunk_ids": None},
        {"chunk_ids": UNKNOWN},
        {"chunk_ids": {"0": UNKNOWN}},
        {"chunk_ids": 3},
    ],
)
def test_c2_ids_that_are_missing_or_no_list_are_required(
    kb_engine: Engine, body: dict[str, Any]
) -> None:
    status, error = refusal(kb_engine, body)

    assert (status, error["code"], error["message"]) == (
        400,
        "INVALID_REQUEST",
        "chunk_ids array is required",
    )


@pytest.mark.parametrize(
    "more",
    [
        {"include_embedding": True},
        {"include_source": "yes"},
        {"include_embeddings": 1},
        {"include_source": None},
    ],
)
def test_c2_whatever_else_is_wrong_is_an_invalid_request_that_names_the_field(
    kb_engine: Engine, more: dict[str, Any]
) -> None:
    status, error = refusal(kb_engine, {"chunk_ids": [UNKNOWN], **more})

    assert (status, error["code"], error["details"]) == (
        400,
        "INVALID_REQUEST",
        {"field": next(iter(more))},
    )


def test_c2_the_codes_are_in_the_published_list() -> None:
    assert {"invalid_request", "invalid_uuid", "payload_too_large", "internal_error"} <= set(
        error_codes()
    )


# C3: fields


def test_c3_a_chunk_has_its_fields_and_no_others(kb_engine: Engine) -> None:
    found = note(kb_engine, "# Head\n\nthe text of it")

    [chunk] = fetch(kb_engine, found["id"])["chunks"]

    assert chunk == found
    assert {
        "id",
        "job_id",
        "chunk_index",
        "content",
        "content_hash",
        "metadata",
        "created_at",
    } <= set(chunk)
    assert not {"embedding", "source", "seq", "organization_id", "document_id"} & set(chunk)
    assert (chunk["content"], chunk["chunk_index"]) == ("# Head\n\nthe text of it", 0)


def test_c3_the_source_is_the_job_that_made_the_chunk(kb_engine: Engine) -> None:
    added = kb_engine.add_file("report.md", b"# Quarter\n\nthird")
    [number] = [
        chunk["id"] for chunk in kb_engine.get_document_chunks(added["document"]["id"])["data"]
    ]

    [chunk] = fetch(kb_engine, number, include_source=True)["chunks"]

    assert chunk["job_id"] == added["job"]["uuid"]
    assert chunk["source"] == {
        "job_name": "report.md",
        "job_type": "ingest",
        "created_at": added["job"]["created_at"],
    }


def test_c3_the_embedding_is_a_list_of_numbers_only_when_asked_for(kb_engine: Engine) -> None:
    number = note(kb_engine, "words to be embedded")["id"]

    [chunk] = fetch(kb_engine, number, include_embeddings=True)["chunks"]

    assert abs(sum(value * value for value in chunk["embedding"]) - 1) < 1e-3
    assert "embedding" not in fetch(kb_engine, number, include_embeddings=False)["chunks"][0]


def test_c3_without_vectors_the_embedding_is_null(opened: Any) -> None:
    _, engine = opened(KB_EMBEDDER="none")

    assert (
        fetch(engine, note(engine)["id"], include_embeddings=True)["chunks"][0]["embedding"] is None
    )


def test_c3_columns_that_plugins_add_to_chunks_are_shown(kb_home: Path, kb_plugin: Install) -> None:
    kb_plugin(
        "mood",
        "import sqlalchemy as sa\n"
        "from kb_framework import api, hookimpl\n"
        "def add(tx):\n"
        "    tx.execute(sa.text(\"ALTER TABLE chunks ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'\"))\n"
        "@hookimpl\n"
        "def kb_migrations():\n"
        "    return [api.Migration(1, 'mood', __name__ + ':add')]\n"
        "@hookimpl\n"
        "def kb_chunk_columns():\n"
        "    return [api.ChunkColumn('mood')]\n",
    )
    with connect() as engine:
        assert fetch(engine, note(engine)["id"])["chunks"][0]["mood"] == "calm"


# C4: limits


def send_slowly(
    server: RunningServer, headers: dict[str, str], parts: list[bytes]
) -> tuple[int, dict[str, Any]]:
    """One request, part by part; the answer, as soon as there is one."""
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=600)
    try:
        connection.putrequest("POST", PATH)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        try:
            for part in parts:
                connection.send(part)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


TOO_LARGE = {
    "success": False,
    "error": {"code": "PAYLOAD_TOO_LARGE", "message": "Request payload too large", "details": {}},
}


def test_c4_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent(
    kb_server: RunningServer,
) -> None:
    assert send_slowly(kb_server, {"Content-Length": str(2**20 + 1)}, []) == (413, TOO_LARGE)


def test_c4_a_chunked_body_is_refused_once_it_is_too_large_before_its_end(
    kb_server: RunningServer,
) -> None:
    part = b" " * 2**16
    endless = [b"%x\r\n%s\r\n" % (len(part), part)] * 17

    assert send_slowly(kb_server, {"Transfer-Encoding": "chunked"}, endless) == (413, TOO_LARGE)


def test_c4_a_body_of_exactly_a_mebibyte_is_read(kb_http: AsgiTransport) -> None:
    body = json.dumps({"chunk_ids": [UNKNOWN]}).encode()
    headers = {"Content-Type": "application/json"}

    assert kb_http.send("POST", PATH, headers, body.ljust(2**20)).status == 200
    assert kb_http.send("POST", PATH, headers, body.ljust(2**20 + 1)).status == 413


SLOW = """
import sqlalchemy as sa
from kb_framework import hookimpl


@hookimpl
def kb_narrow_selection(purpose):
    n = sa.select(sa.literal(1).label("n")).cte("n", recursive=True)
    n = n.union_all(sa.select(n.c.n + 1).where(n.c.n < 10**12))
    return sa.select(sa.func.count()).select_from(n).scalar_subquery() > 0 if purpose == "read" else None
"""


def test_c4_a_query_that_takes_too_long_is_an_internal_error(
    opened: Any, kb_plugin: Install, caplog: pytest.LogCaptureFixture
) -> None:
    _, engine = opened()
    number = note(engine)["id"]
    kb_plugin("slow", SLOW)
    _, slow = opened(KB_BULK_CHUNKS_SECONDS="0.3")

    with caplog.at_level(logging.ERROR, "kb.http"):
        status, error = refusal(slow, {"chunk_ids": [number]})

    assert (status, error["code"], error["message"]) == (
        500,
        "INTERNAL_ERROR",
        "Failed to retrieve chunks",
    )
    assert error["details"]["id"] in caplog.text


def test_c4_the_limit_is_fifteen_seconds(opened: Any) -> None:
    kb, _ = opened()

    assert kb.settings.sections["bulk"].chunks_seconds == 15


def test_c4_a_limit_is_gone_with_its_transaction(opened: Any) -> None:
    kb, engine = opened()
    note(engine)
    with kb.store.read(seconds=0.000001):
        pass

    with kb.store.read() as tx:
        n = sa.select(sa.literal(1).label("n")).cte("n", recursive=True)
        n = n.union_all(sa.select(n.c.n + 1).where(n.c.n < 200_000))
        assert tx.scalar(sa.select(sa.func.count()).select_from(n)) == 200_000


def test_c4_another_organization_s_chunks_are_not_found(opened: Any) -> None:
    kb, engine = opened()
    number = note(engine)["id"]
    other = "00000000-0000-4000-8000-00000000000a"
    with kb.store.write() as tx:
        tx.execute(sa.insert(organizations).values(id=other, name="other", created_at=""))

    found = kb.services["chunks"].get(ChunksIn(chunk_ids=[number]), Actor(organization_id=other))

    assert (found.data.found_count, found.data.not_found) == (0, [number])


def test_c4_what_a_plugin_withholds_is_not_found(kb_engine: Engine) -> None:
    number = note(kb_engine)["id"]
    kb_engine.place_hold([1], sealed=True)

    assert fetch(kb_engine, number)["not_found"] == [number]


@pytest.mark.sqlite_only("PostgreSQL takes nothing that is no JSON")
def test_c4_an_unexpected_error_tells_nothing_of_the_inside(opened: Any) -> None:
    kb, engine = opened()
    number = note(engine)["id"]
    with kb.store.write() as tx:
        tx.execute(sa.update(chunks).values(metadata=sa.literal_column("'{broken'")))

    status, error = refusal(engine, {"chunk_ids": [number]})

    assert (status, error["code"], error["message"], set(error["details"])) == (
        500,
        "INTERNAL_ERROR",
        "Failed to retrieve chunks",
        {"id"},
    )


# C5: the command, the tool


def test_c5_the_command_shows_chunks_and_says_which_are_missing(
    kb_run: Run, kb_engine: Engine
) -> None:
    number = note(kb_engine, "the text of it")["id"]

    shown = kb_run("chunks", "get", number)
    some = kb_run("chunks", "get", number, UNKNOWN, "--source")
    as_json = kb_run("chunks", "get", number, UNKNOWN, "--embeddings", "--json")
    wrong = kb_run("chunks", "get", "nonsense")

    assert (shown.returncode, shown.stdout) == (0, f"# {number} (chunk 0)\nthe text of it\n")
    assert (some.returncode, some.stderr) == (1, f"not found: {UNKNOWN}\n")
    assert "(chunk 0 from " in some.stdout
    assert json.loads(as_json.stdout)["not_found"] == [UNKNOWN]
    assert len(json.loads(as_json.stdout)["chunks"][0]["embedding"]) > 1
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Invalid UUID format at index 0" in wrong.stderr
    assert kb_run("chunks", "get").returncode == 2


def test_c5_two_plugins_share_a_group_of_commands(
    kb_run: Run, kb_plugin: Install, kb_engine: Engine
) -> None:
    number = note(kb_engine)["id"]
    kb_plugin(
        "shouter",
        "from kb_framework import api, hookimpl\n"
        "def shout(word, *, cli):\n"
        "    cli.print(word.upper())\n"
        "from kb_framework.api.cli import Cli\n"
        "shout.__annotations__ = {'word': str, 'cli': Cli}\n"
        "@hookimpl\n"
        "def kb_commands():\n"
        "    return [api.Command('chunks shout', __name__ + ':shout', help='Shout.', group='Shouting')]\n",
    )
    kb_plugin(
        "mumbler",
        "from kb_framework import api, hookimpl\n"
        "@hookimpl\n"
        "def kb_commands():\n"
        "    return [api.Command('chunks mumble', __name__ + ':mumble', help='Mumble.', group='Shouting'),\n"
        "            api.Command('chunks broken', 'there_is_no_such_module:run', help='Broken.', group='Shouting')]\n"
        "def mumble() -> None: ...\n",
    )

    assert kb_run("chunks", "shout", "hey").stdout == "HEY\n"
    assert kb_run("chunks", "get", number).returncode == 0
    listed = kb_run("chunks", "--help").stdout
    assert all(word in listed for word in ("get", "shout", "Shout.", "Show chunks by id."))
    # A plugin with a target that cannot be found fails as a whole, and takes nothing of the group with it.
    assert "mumble" not in listed and "broken" not in listed
    for name in ("broken", "mumble"):
        failed = kb_run("chunks", name)
        assert failed.returncode == 2 and "Traceback" not in failed.stderr
    assert "there_is_no_such_module" in kb_run("plugins").stdout


def test_c5_the_tool_gets_chunks_in_one_call(kb_engine: Engine) -> None:
    number = note(kb_engine, "the text of it")["id"]

    async def ask() -> tuple[Any, Any]:
        async with Client(kb_mcp("--profile", "read")) as client:
            found = await client.call_tool(
                "kb_get_chunks",
                {"chunk_ids": json.dumps([number, UNKNOWN]), "include_source": True},
            )
            wrong = await client.call_tool("kb_get_chunks", {"chunk_ids": ["nonsense"]})
            return found, wrong

    found, wrong = anyio.run(ask)

    data = found.structured_content["data"]
    assert (data["chunks"][0]["content"], data["not_found"]) == ("the text of it", [UNKNOWN])
    assert data["chunks"][0]["source"]["job_type"] == "ingest"
    assert wrong.is_error
    assert wrong.structured_content["error"]["code"] == "INVALID_UUID"
