"""What is too deep, too large, empty or cut off is refused in words, and what was stored before the limits costs itself alone."""

from __future__ import annotations

import http.client
import json
import socket
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import Install, Run, RunningServer, stored


def nested(depth: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return {"a": value}


def refusal(call: Any, *arguments: Any, **fields: Any) -> EngineError:
    with pytest.raises(EngineError) as caught:
        call(*arguments, **fields)
    return caught.value


# Metadata


@pytest.mark.parametrize("depth", [32, 253, 400])
def test_metadata_nested_too_deep_is_refused_by_every_way_in(kb_engine: Engine, depth: int) -> None:
    document = kb_engine.add_note("a healthy note")["document"]

    errors = [
        refusal(kb_engine.add_note, "deep", metadata=nested(depth)),
        refusal(kb_engine.add_file, "deep.md", b"deep", metadata=nested(depth)),
        refusal(kb_engine.update_document, document["id"], metadata=nested(depth)),
        refusal(kb_engine.start_upload, "deep.md", metadata=nested(depth)),
    ]

    assert {(error.http_status, error.message) for error in errors} == {
        (400, "metadata: must not be nested more than 32 levels deep")
    }
    assert kb_engine.list_documents()["meta"]["total"] == 1
    assert kb_engine.add_note("as deep as it may be", metadata=nested(31))["document"][
        "metadata"
    ] == nested(31)


def test_metadata_and_tags_have_a_size(kb_engine: Engine) -> None:
    large = refusal(kb_engine.add_note, "large", metadata={"a": "x" * 300_000})
    many = refusal(kb_engine.add_note, "many", tags=[f"t{number}" for number in range(1001)])

    assert (large.http_status, many.http_status) == (400, 400)
    assert large.message == "metadata: must not be larger than 262144 bytes as JSON"
    assert "tags" in many.message
    assert kb_engine.list_documents()["meta"]["total"] == 0


@pytest.mark.parametrize("poison", ["[" * 300 + "]" * 300, "[" * 5000 + "]" * 5000, '["a list"]'])
def test_metadata_that_cannot_be_shown_costs_its_own_document_alone(
    kb_engine: Engine, kb_run: Run, poison: str
) -> None:
    for text in ("the first", "the second", "the third"):
        kb_engine.add_note(text)
    value = poison if poison.startswith('["') else '{"a": ' + poison + "}"
    stored("UPDATE documents SET metadata = ? WHERE id = 2", value)

    listed = kb_engine.list_documents()["data"]

    assert [item["id"] for item in listed] == [1, 2, 3]
    assert [list(item["metadata"]) for item in listed] == [[], ["kb_problem"], []]
    assert "cannot be shown" in kb_engine.get_document(2)["metadata"]["kb_problem"]
    assert [hit["doc_id"] for hit in kb_engine.search("second", mode="lexical")["hits"]] == [2]
    checks = json.loads(kb_run("doctor", "--json").stdout)["checks"]
    assert [
        check["message"]
        for check in checks
        if check["name"] == "metadata" and "kb remove 2" in check["message"]
    ]
    kb_engine.delete_document(2)
    assert [item["id"] for item in kb_engine.list_documents()["data"]] == [1, 3]


def test_an_archive_with_metadata_that_is_too_deep_loses_only_that(
    kb_engine: Engine, kb_run: Run, tmp_path: Path
) -> None:
    kb_engine.add_note("a note with too much", metadata={"place": 1})
    assert kb_run("export", str(tmp_path / "a.kbz")).returncode == 0
    changed = tmp_path / "b.kbz"
    with zipfile.ZipFile(tmp_path / "a.kbz") as old, zipfile.ZipFile(changed, "w") as new:
        for item in old.infolist():
            new.writestr(item, old.read(item))
    kb_engine.delete_document(1)
    assert kb_run("import", str(changed), "--yes").returncode == 0
    assert kb_engine.list_documents()["meta"]["total"] == 1


# Searches


def test_a_deep_query_of_a_bulk_search_fails_alone(kb_engine: Engine) -> None:
    kb_engine.add_note("a river")

    results = kb_engine.bulk_search(
        [{"query": "river"}, {"query": nested(300)}, nested(300), {"query": "river"}]
    )["results"]

    assert [item["error"] is None for item in results] == [True, False, False, True]
    assert {item["error"]["code"] for item in results if item["error"]} == {"invalid_input"}
    assert results[0]["query"] == {"query": "river"}


def test_a_whole_number_may_be_written_with_a_point(kb_engine: Engine) -> None:
    kb_engine.add_note("a river")
    kb_engine.add_note("a lake")

    assert len(kb_engine.search("river", k=1.0, doc_id=1.0)["hits"]) == 1
    assert kb_engine.bulk_tags(document_ids=[1.0, 2.0], add=["water"], force=True)["matched"] == 2
    for wrong in (1.5, True, "1"):
        assert refusal(kb_engine.search, "river", k=wrong).http_status == 400
    # What is somebody's own is left alone.
    assert isinstance(
        kb_engine.add_note("a sea", metadata={"depth": 3.0})["document"]["metadata"]["depth"], float
    )


def test_an_empty_text_is_not_given_where_something_is_only_read(kb_engine: Engine) -> None:
    kb_engine.add_note("a river")
    empty = dict.fromkeys(("lang", "path_glob", "doc_type", "cursor", "ingested_after"), "")

    assert len(kb_engine.search("river", **empty)["hits"]) == 1
    assert kb_engine.get("/documents", doc_type="", q="", sort="")["meta"]["total"] == 1
    assert refusal(kb_engine.search, "").http_status == 400


def test_an_empty_text_is_refused_where_something_is_changed(kb_engine: Engine) -> None:
    kb_engine.add_note("a river", tags=["water"])

    error = refusal(kb_engine.bulk_delete, doc_type="", tags=["water"], force=True)

    assert error.http_status == 400
    assert error.message.startswith("doc_type: ")
    assert kb_engine.list_documents()["meta"]["total"] == 1


# Bodies


def test_an_unknown_charset_of_a_part_is_400(kb_http: AsgiTransport) -> None:
    title = b'Content-Disposition: form-data; name="title"\r\nContent-Type: text/plain; charset=bogus-xyz\r\n\r\nt\r\n'
    body = b"--x\r\n" + title + b"--x--\r\n"
    reply = kb_http.send(
        "POST", "/api/v1/documents", {"content-type": "multipart/form-data; boundary=x"}, body
    )

    assert reply.status == 400
    assert "charset" in json.loads(reply.body)["message"]


def test_a_caller_that_hangs_up_is_no_error(kb_server: RunningServer) -> None:
    address = urlsplit(kb_server.url)
    with socket.create_connection((address.hostname or "", address.port or 0)) as connection:
        head = "POST /api/v1/notes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"
        connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        # Then its body is being read.
        assert b"100 Continue" in connection.recv(100)
        connection.sendall(b'{"text": ')
    # One that comes after it: then the first is over.
    while not any("/api/v1/notes" in line for line in kb_server.log):
        connection = http.client.HTTPConnection(address.hostname or "", address.port)
        connection.request("GET", "/api/v1/health/live")
        assert connection.getresponse().status == 200
        connection.close()
    log = "".join(kb_server.log)
    assert "Traceback" not in log
    assert "499" in next(line for line in kb_server.log if "/api/v1/notes" in line)


# No machine has so many bytes: the allocation fails at once, whatever else the process holds.
GREEDY = """
from kb_framework import api, hookimpl

def greedy() -> dict:
    return {"bytes": len(bytearray(1 << 60))}

@hookimpl
def kb_operations():
    return [api.Operation("greedy", "kb_greedy:greedy", "documents.read", api.Http("GET", "/greedy"))]
"""


def test_too_little_memory_is_said_so(kb_home: Path, kb_plugin: Install) -> None:
    kb_plugin("greedy", GREEDY, module="kb_greedy")
    with connect() as engine:
        error = refusal(engine.get, "/greedy")

    assert (error.http_status, error.code) == (503, "out_of_memory")
