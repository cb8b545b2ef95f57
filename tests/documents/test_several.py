"""D1, D6: several files in one request are written together, and each succeeds or fails by itself."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError
from kb_testing.application import AsgiTransport


def sent(engine: Engine, *files: tuple[str, bytes], **fields: Any) -> list[dict[str, Any]]:
    return engine.add_files(
        [(name, data, {"source": f"/home/{name}", **fields}) for name, data in files]
    )["results"]


def test_each_file_is_answered_in_its_place_as_it_would_be_alone(kb_engine: Engine) -> None:
    first, second = sent(kb_engine, ("a.md", b"# A\n\none"), ("b.md", b"# B\n\ntwo"), tags=["x"])

    assert [item["response"]["document"]["title"] for item in (first, second)] == ["A", "B"]
    assert first["error"] is None
    document, job = first["response"]["document"], first["response"]["job"]
    assert document == kb_engine.get_document(document["id"])
    assert job == kb_engine.get_job(job["id"])
    assert (document["tags"], job["status"], job["document_id"]) == (["x"], "done", document["id"])
    assert first["response"]["status"] == "added"


def test_there_is_one_job_for_each_file(kb_engine: Engine) -> None:
    sent(kb_engine, ("a.md", b"one"), ("b.md", b"two"), ("bad.md", bytes(range(256))))

    assert sorted((job["filename"], job["status"]) for job in kb_engine.list_jobs()["data"]) == [
        ("a.md", "done"),
        ("b.md", "done"),
        ("bad.md", "failed"),
    ]


def test_a_file_that_cannot_be_read_fails_alone_with_its_reason(kb_engine: Engine) -> None:
    good, bad, late = sent(
        kb_engine, ("a.md", b"one"), ("bad.md", bytes(range(256))), ("c.md", b"three")
    )

    assert bad["response"] is None
    assert bad["error"]["message"] == "the file is binary, not text"
    assert kb_engine.get_job(bad["error"]["job_id"])["error"] == "the file is binary, not text"
    assert good["response"]["status"] == late["response"]["status"] == "added"


def test_fields_that_are_wrong_fail_alone(kb_engine: Engine) -> None:
    good, bad = kb_engine.add_files(
        [("a.md", b"one", {}), ("b.md", b"two", {"path": "lone \ud800"})]
    )["results"]

    assert good["response"]["status"] == "added"
    assert bad["error"]["error"] == "invalid_input"
    assert bad["error"]["field"] == "path"


def test_the_same_content_twice_in_one_request_is_one_document(kb_engine: Engine) -> None:
    first, second = sent(kb_engine, ("a.md", b"the same"), ("b.md", b"the same"))

    assert second["response"]["duplicate"] is True
    assert second["response"]["document"]["id"] == first["response"]["document"]["id"]
    assert second["response"]["job"]["status"] == "duplicate"
    assert kb_engine.list_documents()["meta"]["total"] == 1


def test_new_changed_and_unchanged_files_go_together(kb_engine: Engine) -> None:
    before = sent(kb_engine, ("a.md", b"one"), ("b.md", b"two"))

    after = sent(kb_engine, ("a.md", b"one"), ("b.md", b"two, changed"), ("c.md", b"three"))

    assert [item["response"]["status"] for item in after] == ["unchanged", "updated", "added"]
    assert after[1]["response"]["document"]["id"] == before[1]["response"]["document"]["id"]


def test_a_change_does_not_reach_a_document_that_the_same_request_found_elsewhere(
    kb_engine: Engine,
) -> None:
    sent(kb_engine, ("a.md", b"one"))

    copied, changed = sent(kb_engine, ("copy.md", b"one"), ("a.md", b"one, changed"))

    assert copied["response"]["duplicate"] is True
    assert changed["response"]["document"]["id"] != copied["response"]["document"]["id"]
    assert kb_engine.get_file(copied["response"]["document"]["id"]) == b"one"


def test_more_files_than_are_written_together_all_arrive(kb_engine: Engine) -> None:
    answers = sent(
        kb_engine, *[(f"{number}.md", f"text {number}".encode()) for number in range(37)]
    )

    assert [item["response"]["document"]["path"] for item in answers] == [
        f"{number}.md" for number in range(37)
    ]


OBSERVER = """
import sqlalchemy as sa
from kb_framework import hookimpl
from kb_framework.api.tables import documents

@hookimpl
def kb_documents_changed(changes, tx):
    here = sa.select(documents.c.path).where(documents.c.id.in_(changes.documents))
    assert not any(path.endswith("bad.md") for path in tx.connection.scalars(here))
"""


def test_one_that_a_plugin_cannot_follow_does_not_undo_those_before_it(
    kb_plugin, kb_home: Path
) -> None:
    kb_plugin("observer", OBSERVER)
    with connect() as engine:
        with pytest.raises(EngineError) as caught:
            sent(engine, ("a.md", b"one"), ("bad.md", b"two"))

        assert caught.value.http_status == 503
        assert [item["path"] for item in engine.list_documents()["data"]] == ["a.md"]
        assert sent(engine, ("a.md", b"one"))[0]["response"]["status"] == "unchanged"


def test_an_archive_is_wanted_again_until_the_files_inside_it_are_there(
    kb_plugin, kb_home: Path
) -> None:
    kb_plugin("observer", OBSERVER)
    whole, broken = archive("good.md"), archive("bad.md")
    listed = [
        {"source": f"/home/{name}", "size": len(data), "modified_ns": 7}
        for name, data in (whole, broken)
    ]
    with connect() as engine:
        (added,) = sent(engine, whole, modified_ns=7)
        with pytest.raises(EngineError):
            sent(engine, broken, modified_ns=7)

        assert [part["status"] for part in added["response"]["attachments"]] == ["added"]
        assert engine.compare_sources(listed)["wanted"] == [1]


def archive(name: str) -> tuple[str, bytes]:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(name, f"# Inside\n\nthe text of {name}")
    return f"{name}.zip", packed.getvalue()


@pytest.mark.parametrize("fields", ["{}", "[]", "[1, 2]", "[{}]", "not JSON", "[" * 100_000])
def test_fields_must_be_an_object_for_each_file(kb_http: AsgiTransport, fields: str) -> None:
    files = [("files", "a.md", b"one"), ("files", "b.md", b"two")]

    reply = kb_http.ask("POST", "/documents/batch", fields={"fields": fields}, files=files)

    assert reply.status == 400
    assert json.loads(reply.body)["field"] == "fields"


def test_a_large_file_arrives_in_parts_as_it_is(kb_run, kb_engine: Engine, tmp_path: Path) -> None:
    text = "".join(f"Line {number} of a long text.\n\n" for number in range(180_000))
    (tmp_path / "large.txt").write_text(text, encoding="utf-8")
    assert (tmp_path / "large.txt").stat().st_size > 4_000_000

    report = json.loads(kb_run("add", str(tmp_path / "large.txt"), "--json").stdout)

    assert report["added"] == 1
    assert kb_engine.get_file(report["files"][0]["document_id"]) == text.encode()
    assert json.loads(kb_run("add", str(tmp_path / "large.txt"), "--json").stdout)["unchanged"] == 1
