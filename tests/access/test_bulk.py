"""B9: who may change documents in bulk, over HTTP, with a plan, and by tool."""

from __future__ import annotations

from typing import Any

import pytest

from kb_framework.client import Engine
from kb_framework.errors import EngineError


@pytest.fixture
def note(base: Any) -> int:
    base.owner.add_note("one that stays", tags=["kept"])
    return base.owner.add_note("one to go", tags=["draft"])["document"]["id"]


def refused(engine: Engine, **fields: Any) -> tuple[int, str]:
    with pytest.raises(EngineError) as caught:
        engine.bulk_delete(**fields)
    return caught.value.http_status, caught.value.code


@pytest.mark.parametrize("role", ["viewer", "editor"])
def test_b9_a_key_without_the_permission_to_delete_deletes_nothing_in_bulk(
    base: Any, note: int, role: str
) -> None:
    engine = base.engine(base.key(role))
    plan = engine.bulk_preview("delete", document_ids=[note])["plan"]

    assert refused(engine, document_ids=[note]) == (403, "forbidden")
    assert refused(engine, document_ids=[note], force=True) == (403, "forbidden")
    assert refused(engine, plan=plan) == (403, "forbidden")
    assert base.owner.list_documents()["meta"]["total"] == 2
    assert base.owner.list_jobs(job_type="bulk_delete")["meta"]["total"] == 0


def test_b9_an_editor_changes_tags_in_bulk_and_an_admin_deletes(base: Any, note: int) -> None:
    editor, admin = base.engine(base.key("editor")), base.engine(base.key("admin"))

    assert editor.bulk_tags(tags=["draft"], add=["seen"])["succeeded"] == 1
    assert editor.bulk_set_tags(tags=["seen"], new_tags=["draft"])["succeeded"] == 1
    assert admin.bulk_delete(tags=["draft"])["succeeded"] == 1


def test_b9_a_viewer_changes_no_tags_in_bulk(base: Any, note: int) -> None:
    engine = base.engine(base.key("viewer"))

    for call, fields in (
        (engine.bulk_tags, {"add": ["x"]}),
        (engine.bulk_set_tags, {"new_tags": []}),
    ):
        with pytest.raises(EngineError) as caught:
            call(document_ids=[note], **fields)
        assert caught.value.http_status == 403
    assert base.owner.get_document(note)["tags"] == ["draft"]
