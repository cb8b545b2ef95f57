"""Operations on chunks: the pipeline, the surfaces and the guards are those of documents."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kb_framework.client import Engine, connect
from kb_framework.edges.mcp.tools import bind_tools
from kb_framework.errors import EngineError
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import Install, Run

# Writes a note into the metadata of chunks, and cannot do it to those that say "stubborn".
MARKER = """
import sqlalchemy as sa

from kb_framework import api, hookimpl
from kb_framework.api.tables import chunks
from kb_framework.api.models import Body

calls = []
seen = []
applied = []


class Mark(Body):
    mark: str

    def apply(self, tx, selected):
        stubborn = sa.select(chunks.c.seq).where(chunks.c.seq.in_(selected), chunks.c.content.contains("stubborn"))
        calls.append(tx.scalar(sa.select(sa.func.count()).select_from(selected.subquery())))
        tx.execute(sa.update(chunks).where(chunks.c.seq.in_(selected)).values(metadata={"mark": self.mark}))
        if tx.scalar(stubborn) is not None:
            raise ValueError("no")


def says(value: str) -> sa.ColumnElement[bool]:
    return chunks.c.content.contains(value)


@hookimpl
def kb_selection_filters():
    return [api.SelectionFilter("says", f"{__name__}:says", help="Selects chunks with this text.", over="chunks")]


@hookimpl
def kb_mutation_kinds():
    return [api.MutationKind("mark", f"{__name__}:Mark", verb="mark", help="Mark chunks.", over="chunks")]


@hookimpl
def kb_documents_changed(changes, tx):
    if changes.chunks is not None:
        seen.append((changes.action, changes.count, len(list(tx.connection.scalars(changes.chunks)))))


@hookimpl
def kb_mutation_applied(result):
    applied.append((result.kind, result.matched, result.succeeded, result.failed))
"""


@pytest.fixture
def marker(kb_home: object, kb_plugin: Install) -> Any:
    """The module of an installed plugin that contributes the kind `mark` and the filter `says`."""
    kb_plugin("marker", MARKER, module="marker_of_chunks")
    return lambda: sys.modules["marker_of_chunks"]


@pytest.fixture
def engine(marker: Any) -> Iterator[Engine]:
    with connect() as found:
        yield found


def paragraphs(engine: Engine, *words: str, tags: list[str] | None = None) -> tuple[int, list[str]]:
    """A document with a chunk for each word; its id and those of its chunks."""
    text = "\n\n".join(f"# Section {word}\n\n{word} {'filler text ' * 150}" for word in words)
    number = engine.add_note(text, tags=tags)["document"]["id"]
    found = engine.get_document_chunks(number)["data"]
    assert len(found) == len(words)
    return number, [chunk["id"] for chunk in found]


def marks(engine: Engine, document: int) -> list[str | None]:
    return [chunk["metadata"].get("mark") for chunk in engine.get_document_chunks(document)["data"]]


def refused(engine: Engine, body: dict[str, Any]) -> EngineError:
    with pytest.raises(EngineError) as caught:
        engine.post("/chunks/bulk/mark", body)
    return caught.value


def test_a_kind_over_chunks_changes_the_chunks_that_a_chunk_filter_selects(engine: Engine) -> None:
    first, _ = paragraphs(engine, "apple", "pear", "plum")
    second, _ = paragraphs(engine, "apple", "fig")

    result = engine.bulk_mark(says="apple", mark="fruit")

    assert result | {"job_id": 0} == {
        "job_id": 0,
        "status": "done",
        "matched": 2,
        "succeeded": 2,
        "failed": 0,
        "errors": [],
    }
    assert (marks(engine, first), marks(engine, second)) == (["fruit", None, None], ["fruit", None])


def test_chunks_are_also_selected_by_what_their_documents_are(engine: Engine) -> None:
    first, ids = paragraphs(engine, "apple", "pear", tags=["draft"])
    second, _ = paragraphs(engine, "apple", "fig", "plum")

    by_tag = engine.bulk_mark(tags=["draft"], mark="a")
    both = engine.bulk_mark(document_ids=[first, second], says="apple", mark="b")
    by_id = engine.bulk_mark(chunk_ids=[ids[1].upper()], mark="c")

    assert (by_tag["matched"], both["matched"], by_id["matched"]) == (2, 2, 1)
    assert (marks(engine, first), marks(engine, second)) == (["b", "c"], ["b", None, None])


def test_no_selection_of_chunks_is_never_all_of_them(engine: Engine) -> None:
    number, _ = paragraphs(engine, "apple", "pear")

    for body in (
        {},
        {"force": True},
        {"chunk_ids": []},
        {"chunk_ids": ["nonsense"]},
        {"say": "apple"},
        {"says": None},
    ):
        assert refused(engine, {**body, "mark": "x"}).http_status == 400
    assert marks(engine, number) == [None, None]


def test_the_threshold_counts_the_chunks_of_the_organization(engine: Engine) -> None:
    number, ids = paragraphs(engine, *(f"word{n}" for n in range(10)))

    error = refused(engine, {"chunk_ids": ids[:8], "mark": "x"})

    assert (error.http_status, error.body) == (
        409,
        {
            "error": "safety_threshold_exceeded",
            "message": "Operation would affect 8 of 10 chunks (80.0%). Exceeds safety threshold of 70%. "
            "Use force: true to proceed.",
            "matched": 8,
            "total": 10,
            "percent": 80.0,
            "threshold": 70,
        },
    )
    assert engine.bulk_mark(chunk_ids=ids[:7], mark="x")["succeeded"] == 7
    assert engine.bulk_mark(document_ids=[number], mark="y", force=True)["succeeded"] == 10


def test_a_chunk_that_fails_is_rolled_back_alone_and_named_by_its_id(
    engine: Engine, marker: Any
) -> None:
    words = ["stubborn" if n in (3, 17) else f"word{n}" for n in range(30)]
    number, ids = paragraphs(engine, *words)

    result = engine.bulk_mark(document_ids=[number], mark="x", force=True)

    assert (result["status"], result["matched"], result["succeeded"], result["failed"]) == (
        "partial_failure",
        30,
        28,
        2,
    )
    assert result["errors"] == [
        {"chunk_id": ids[n], "error": "the change failed (ValueError)"} for n in (3, 17)
    ]
    assert marks(engine, number) == [None if word == "stubborn" else "x" for word in words]
    assert len(marker().calls) < 25


def test_the_job_of_a_kind_over_chunks_tells_selection_outcome_and_errors(engine: Engine) -> None:
    _, ids = paragraphs(engine, "apple", "stubborn pear", "plum")

    job = engine.get_job(engine.bulk_mark(says="p", mark="x", force=True)["job_id"])

    assert (job["job_type"], job["status"], json.loads(job["filename"])) == (
        "bulk_mark",
        "partial_failure",
        {"says": "p"},
    )
    assert (job["document_id"], job["matched"], job["succeeded"], job["failed"]) == (2, 3, 2, 1)
    assert json.loads(job["error"]) == [
        {"chunk_id": ids[1], "error": "the change failed (ValueError)"}
    ]


def test_observers_learn_which_chunks_of_how_many_documents_changed(
    engine: Engine, marker: Any
) -> None:
    paragraphs(engine, "apple", "apple stubborn", "plum")
    paragraphs(engine, "apple", "apple", "fig")

    engine.bulk_mark(says="apple", mark="x")

    assert marker().seen == [("mark", 2, 3)]
    assert marker().applied == [("mark", 4, 3, 1)]


def test_a_hold_on_a_document_protects_its_chunks(engine: Engine) -> None:
    held, ids = paragraphs(engine, "apple", "pear")
    free, _ = paragraphs(engine, "apple", "fig", "plum")
    engine.place_hold([held], matter="Doe v. Roe")

    result = engine.bulk_mark(says="Section", mark="x", force=True)

    reason = "the document is on legal hold: 'Doe v. Roe'"
    assert result["errors"] == [{"chunk_id": number, "error": reason} for number in ids]
    assert (marks(engine, held), marks(engine, free)) == ([None, None], ["x", "x", "x"])


def test_a_sealed_document_s_chunks_cannot_be_selected(engine: Engine) -> None:
    sealed, ids = paragraphs(engine, "apple", "pear")
    paragraphs(engine, "fig")
    engine.place_hold([sealed], sealed=True)

    assert engine.bulk_mark(chunk_ids=ids, mark="x", force=True)["matched"] == 0


def test_a_guard_may_object_to_one_chunk_whatever_the_kind_acts_on(
    kb_plugin: Install, marker: Any
) -> None:
    kb_plugin(
        "precious",
        "import sqlalchemy as sa\n"
        "from kb_framework import api, hookimpl\n"
        "from kb_framework.api.tables import chunks\n"
        "@hookimpl\n"
        "def kb_guard_mutation(plan, tx):\n"
        "    if plan.kind == 'add':\n"
        "        return []\n"
        "    precious = sa.select(chunks.c.id).where(chunks.c.content.contains('precious'))\n"
        "    return [api.Objection('precious', chunk_id=found) for found in tx.connection.scalars(precious)]\n",
    )
    with connect() as engine:
        first, ids = paragraphs(engine, "precious", "pear")
        second, _ = paragraphs(engine, "apple", "fig")

        marked = engine.bulk_mark(document_ids=[first], mark="x")
        deleted = engine.bulk_delete(document_ids=[first, second], force=True)

        assert marked["errors"] == [{"chunk_id": ids[0], "error": "precious"}]
        assert marks(engine, first) == [None, "x"]
        assert deleted["errors"] == [{"document_id": first, "error": "precious"}]


def test_a_preview_shows_chunks_with_their_document_and_text(engine: Engine) -> None:
    number, ids = paragraphs(engine, "apple", "pear")

    preview = engine.bulk_preview("mark", says="apple", mark="x")

    assert (preview["matched"], preview["total"], preview["percent"], preview["exceeds"]) == (
        1,
        2,
        50.0,
        False,
    )
    [sample] = preview["sample"]
    assert (sample["id"], sample["document_id"]) == (ids[0], number)
    assert sample["text"].startswith("# Section apple") and len(sample["text"]) == 200
    assert marks(engine, number) == [None, None]


def test_b10_a_plan_over_chunks_is_about_those_chunks(engine: Engine) -> None:
    number, ids = paragraphs(engine, "apple", "pear", "plum")

    done = engine.bulk_mark(plan=engine.bulk_preview("mark", chunk_ids=ids[:1], mark="x")["plan"])
    stale = engine.bulk_preview("mark", says="Section", mark="y")["plan"]
    paragraphs(engine, "fig")
    error = refused(engine, {"plan": stale, "force": True})

    assert done["succeeded"] == 1
    assert (error.http_status, error.code) == (409, "selection_changed")
    assert "3 chunks then, 4 now" in error.message
    assert marks(engine, number) == ["x", None, None]


def test_a_chunk_filter_is_offered_only_where_chunks_are_selected(
    engine: Engine, kb_http: AsgiTransport
) -> None:
    paragraphs(engine, "apple")
    tools = bind_tools(engine.plugins, "admin")

    with pytest.raises(EngineError) as unknown:
        engine.bulk_delete(says="apple")

    assert (unknown.value.http_status, unknown.value.body["field"]) == (400, "says")
    assert {"says", "chunk_ids", "tags", "on_hold", "mark", "force"} <= set(
        tools["kb_bulk_mark"].description.input_schema["properties"]
    )
    assert not {"says", "chunk_ids"} & set(
        tools["kb_bulk_delete"].description.input_schema["properties"]
    )
    schema = json.loads(kb_http.send("GET", "/schema/openapi.json", {}, b"").body)
    assert "/api/v1/chunks/bulk/mark" in schema["paths"]
    assert "says" in schema["components"]["schemas"]["BulkMark"]["properties"]


def test_the_command_over_chunks_previews_in_words(kb_run: Run, marker: Any) -> None:
    kb_run("note", "apple")
    kb_run("note", "fig")

    asked = kb_run("bulk-mark", "--says", "apple", "--mark", "x")
    done = kb_run("bulk-mark", "--says", "apple", "--mark", "x", "--yes")
    nothing = kb_run("bulk-mark", "--says", "pear", "--mark", "x", "--yes")

    assert asked.returncode == 2
    assert "This will mark 1 chunk matching: says=apple" in asked.stderr
    assert (done.returncode, done.stdout) == (0, "1 of 1 chunk done, 0 failed (job 3)\n")
    assert nothing.stdout == "no chunks match: says=pear\n"


def test_a_kind_may_choose_its_own_route_command_and_tool(
    kb_home: object, kb_plugin: Install, kb_run: Run
) -> None:
    names = 'help="Mark chunks.", route="/marks/bulk/set", command="marks set", tool="kb_marks_set"'
    kb_plugin("marker", MARKER.replace('help="Mark chunks."', names))

    with connect() as engine:
        number, _ = paragraphs(engine, "apple", "pear")
        engine.post("/marks/bulk/set", {"says": "apple", "mark": "x"})
        assert marks(engine, number) == ["x", None]
        assert "kb_marks_set" in bind_tools(engine.plugins, "admin")

    assert kb_run("marks", "set", "--says", "pear", "--mark", "y", "--yes").returncode == 0


def test_a_kind_over_something_else_fails_its_plugin(kb_home: object, kb_plugin: Install) -> None:
    kb_plugin(
        "marker",
        MARKER.replace('help="Mark chunks.", over="chunks"', 'help="Mark chunks.", over="pages"'),
    )

    with connect() as engine:
        [failed] = engine.plugins.failed

    assert failed.reason == "'mark' is over 'pages', not over documents or chunks"
