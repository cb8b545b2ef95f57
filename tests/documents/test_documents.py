"""D1–D5: documents over the engine client (the HTTP contract)."""

from __future__ import annotations

import pytest

from kb_framework.client import Engine
from kb_framework.errors import EngineError


def test_a_note_becomes_a_document_with_a_job(kb_engine: Engine) -> None:
    added = kb_engine.add_note("# Keys\n\nRotate them.", tags=["ops", "security"])

    document, job = added["document"], added["job"]
    assert document["title"] == "Keys"
    assert document["doc_type"] == "note"
    assert document["tags"] == ["ops", "security"]
    assert document["chunk_count"] == 1
    assert job["job_type"] == "ingest"
    assert job["document_id"] == document["id"]
    assert kb_engine.get_document(document["id"]) == document


def test_a_file_that_is_already_there_is_not_stored_twice(kb_engine: Engine) -> None:
    first = kb_engine.add_file("a.md", b"# A\n\ntext")
    second = kb_engine.add_file("b.md", b"# A\n\ntext")

    assert (first["duplicate"], second["duplicate"]) == (False, True)
    assert second["document"]["id"] == first["document"]["id"]
    assert kb_engine.list_documents()["meta"]["total"] == 1


def test_the_same_note_twice_is_two_notes(kb_engine: Engine) -> None:
    kb_engine.add_note("done")
    kb_engine.add_note("done")

    assert kb_engine.list_documents()["meta"]["total"] == 2


def test_a_document_id_is_never_used_again(kb_engine: Engine) -> None:
    first = kb_engine.add_note("one")["document"]["id"]
    kb_engine.delete_document(first)

    assert kb_engine.add_note("two")["document"]["id"] > first


def test_retagging_moves_updated_at_but_not_indexed_at(kb_engine: Engine) -> None:
    before = kb_engine.add_note("text")["document"]

    after = kb_engine.set_document_tags(before["id"], ["x"])

    assert after["updated_at"] > before["updated_at"]
    assert after["indexed_at"] == before["indexed_at"]


def test_the_stored_file_comes_back_as_it_was(kb_engine: Engine) -> None:
    data = "bytes – with ünïcode\r\n".encode()
    added = kb_engine.add_file("x.txt", data)

    assert kb_engine.get_file(added["document"]["id"]) == data


def test_deleting_removes_the_stored_file(kb_engine: Engine, kb_home) -> None:
    added = kb_engine.add_file("x.txt", b"only here")
    assert len(list((kb_home / "files").glob("??/*"))) == 1

    kb_engine.delete_document(added["document"]["id"])

    assert list((kb_home / "files").glob("??/*")) == []


def test_a_file_shared_by_two_documents_outlives_one_of_them(kb_engine: Engine, kb_home) -> None:
    first = kb_engine.add_note("shared")["document"]["id"]
    second = kb_engine.add_note("shared")["document"]["id"]

    kb_engine.delete_document(first)

    assert kb_engine.get_file(second) == b"shared"


@pytest.mark.parametrize("tag", ["", "   ", "a,b", "a\x07b", "x" * 129])
def test_a_bad_tag_is_refused(kb_engine: Engine, tag: str) -> None:
    with pytest.raises(EngineError) as refused:
        kb_engine.add_note("text", tags=[tag])

    assert refused.value.http_status == 400
    assert refused.value.body["field"].startswith("tags")


def test_tags_are_trimmed_and_composed_and_keep_their_case(kb_engine: Engine) -> None:
    added = kb_engine.add_note("text", tags=["  Caf\u0065\u0301 ", "café", "x" * 128])

    assert added["document"]["tags"] == ["Café", "café", "x" * 128]


def test_listing_by_tags_means_all_of_them(kb_engine: Engine) -> None:
    kb_engine.add_note("one", tags=["a", "b"])
    kb_engine.add_note("two", tags=["a"])

    assert kb_engine.list_documents(tags=["a"])["meta"]["total"] == 2
    assert kb_engine.list_documents(tags=["a", "b"])["meta"]["total"] == 1
    assert kb_engine.list_documents(tags="a,b")["meta"]["total"] == 1


def test_a_tag_is_renamed_and_merged(kb_engine: Engine) -> None:
    kb_engine.add_note("one", tags=["draft"])
    kb_engine.add_note("two", tags=["wip", "draft"])

    with pytest.raises(EngineError) as taken:
        kb_engine.rename_tag("draft", "wip")
    assert taken.value.http_status == 409
    kb_engine.rename_tag("draft", "sketch")
    with pytest.raises(EngineError) as too_many:
        kb_engine.merge_tags(["sketch", "wip"], "open")
    assert (too_many.value.http_status, too_many.value.body["error"]) == (
        409,
        "safety_threshold_exceeded",
    )
    kb_engine.merge_tags(["sketch", "wip"], "open", force=True)

    assert kb_engine.list_tags()["data"] == [{"tag": "open", "count": 2}]


def test_an_unreadable_file_fails_with_a_reason_on_its_job(kb_engine: Engine) -> None:
    with pytest.raises(EngineError) as failed:
        kb_engine.add_file("x.bin", bytes(range(256)))

    job = kb_engine.get_job(failed.value.body["job_id"])
    assert failed.value.http_status == 400
    assert job["status"] == "failed"
    assert "nothing here reads files of this kind" in job["error"]
    assert kb_engine.list_documents()["meta"]["total"] == 0


def test_an_upload_in_parts_becomes_a_document(kb_engine: Engine) -> None:
    upload = kb_engine.start_upload("long.md", tags=["up"])
    upload = kb_engine.append_upload(upload["upload_id"], 0, b"# Long\n\n")
    upload = kb_engine.append_upload(upload["upload_id"], upload["received"], b"and longer")

    with pytest.raises(EngineError, match="18 bytes"):
        kb_engine.append_upload(upload["upload_id"], 3, b"again")
    added = kb_engine.finish_upload(upload["upload_id"])

    assert kb_engine.get_file(added["document"]["id"]) == b"# Long\n\nand longer"
    assert added["document"]["tags"] == ["up"]
    with pytest.raises(EngineError) as gone:
        kb_engine.finish_upload(upload["upload_id"])
    assert gone.value.http_status == 404


def test_pages_of_documents_and_their_order(kb_engine: Engine) -> None:
    for number in range(5):
        kb_engine.add_note(f"note {number}")

    page = kb_engine.list_documents(page=2, per_page=2, sort="-id")

    assert [item["title"] for item in page["data"]] == ["note 2", "note 1"]
    assert page["meta"] == {"page": 2, "per_page": 2, "total": 5, "total_pages": 3}


def test_where_a_document_came_from_is_told_of_documents_that_are_there(kb_engine: Engine) -> None:
    added = kb_engine.add_file("a.md", b"# Zebras\n", source="/notes/a.md")["document"]["id"]
    assert kb_engine.get_sources(added)["data"] == [{"source": "/notes/a.md", "path": "a.md"}]
    with pytest.raises(EngineError) as refused:
        kb_engine.get_sources(added + 1)
    assert refused.value.http_status == 404


def test_d5_the_jobs_of_a_document_are_those_of_the_files_that_became_it(kb_engine: Engine) -> None:
    first = kb_engine.add_note("one")["document"]["id"]
    second = kb_engine.add_note("two")
    # One document was changed, so this job's `document_id` is 1.
    kb_engine.bulk_tags(document_ids=[first], add=["x"])

    assert [
        job["id"] for job in kb_engine.list_jobs(document_id=second["document"]["id"])["data"]
    ] == [second["job"]["id"]]
    assert kb_engine.list_jobs(document_id=first)["meta"]["total"] == 1
