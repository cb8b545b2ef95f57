"""B1–B8 and B11–B12 of the contract, rule by rule, over the engine client (the HTTP contract) and the command line.

Elsewhere: the scenarios of the requirements in test_scenarios.py, plans (B10) in test_plans.py, questions over MCP (B11) in
test_asking.py, the pipeline itself (B3, B5, B6) in tests/host/test_mutation.py, faults in test_faults.py, kills in
tests/soak, the old database (B13) in tests/host/test_store.py, another plugin's filter in tests/hooks/test_legalhold.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kb_framework.api import LOCAL_USER
from kb_framework.api.tables import documents, organizations
from kb_framework.app import open_kb
from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine, connect
from kb_framework.edges.mcp.tools import bind_tools
from kb_framework.errors import EngineError
from kb_framework.plugins import Plugins
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import Install, Run, RunningServer


def notes(engine: Engine, count: int, **fields: Any) -> list[int]:
    return [
        engine.add_note(f"note {number}", **fields)["document"]["id"] for number in range(count)
    ]


def titles(engine: Engine) -> list[str]:
    return [item["title"] for item in engine.list_documents(per_page=100)["data"]]


def refusal(engine: Engine, path: str, body: dict[str, Any]) -> EngineError:
    with pytest.raises(EngineError) as refused:
        engine.post(path, body)
    return refused.value


# B1, B2: selections


def test_b1_filters_are_combined_with_and(kb_engine: Engine) -> None:
    kb_engine.add_note("keep", tags=["draft"], doc_type="memo")
    kb_engine.add_note("go", tags=["draft"])
    kb_engine.add_note("keep too")

    result = kb_engine.bulk_delete(tags=["draft"], doc_type="note")

    assert result | {"job_id": 0} == {
        "job_id": 0,
        "status": "done",
        "matched": 1,
        "succeeded": 1,
        "failed": 0,
        "errors": [],
    }
    assert titles(kb_engine) == ["keep", "keep too"]


def test_b1_tags_selects_documents_that_have_all_of_them(kb_engine: Engine) -> None:
    kb_engine.add_note("both", tags=["a", "b"])
    kb_engine.add_note("one", tags=["a"])
    kb_engine.add_note("neither")

    assert kb_engine.bulk_delete(tags=["a", "b", "a"])["matched"] == 1
    assert titles(kb_engine) == ["one", "neither"]


@pytest.mark.parametrize(
    "body",
    [{}, {"force": True}, {"tags": None}, {"tags": []}, {"document_ids": []}, {"tagz": ["x"]}],
)
@pytest.mark.parametrize("route", ["delete", "tags", "set-tags"])
def test_b1_b2_no_selection_an_empty_or_a_misspelt_one_is_never_everything(
    kb_engine: Engine, route: str, body: dict[str, Any]
) -> None:
    notes(kb_engine, 2)
    fields = {"tags": {"add": ["x"]}, "set-tags": {"new_tags": []}}.get(route, {})

    assert refusal(kb_engine, f"/bulk/{route}", {**body, **fields}).http_status == 400
    assert len(titles(kb_engine)) == 2


def test_b2_null_means_absent(kb_engine: Engine) -> None:
    ids = notes(kb_engine, 3)

    assert (
        kb_engine.post("/bulk/delete", {"document_ids": [ids[0]], "tags": None, "doc_type": None})[
            "matched"
        ]
        == 1
    )


def test_b2_a_misspelt_filter_beside_a_right_one_does_not_widen(kb_engine: Engine) -> None:
    notes(kb_engine, 3)

    error = refusal(kb_engine, "/bulk/delete", {"doc_type": "note", "tag": ["x"], "force": True})

    assert (error.http_status, error.body["field"]) == (400, "tag")
    assert len(titles(kb_engine)) == 3


def test_b2_unknown_and_repeated_ids_and_an_empty_range_are_simply_not_matched(
    kb_engine: Engine,
) -> None:
    ids = notes(kb_engine, 3)

    assert kb_engine.bulk_delete(document_ids=[ids[0], ids[0], 10**12])["matched"] == 1
    assert kb_engine.bulk_delete(from_id=ids[2], to_id=ids[1])["matched"] == 0


def test_b2_a_hundred_thousand_ids_in_one_request_work(kb_engine: Engine) -> None:
    ids = notes(kb_engine, 3)

    assert (
        kb_engine.bulk_delete(document_ids=[*range(10**6, 10**6 + 100_000), ids[0]])["succeeded"]
        == 1
    )


# B3: the threshold


def test_b3_exactly_seventy_percent_passes(kb_engine: Engine) -> None:
    ids = notes(kb_engine, 10)

    assert refusal(kb_engine, "/bulk/delete", {"document_ids": ids[:8]}).http_status == 409
    assert kb_engine.bulk_delete(document_ids=ids[:7])["succeeded"] == 7


def test_b3_the_share_is_of_the_callers_organization(kb_engine: Engine, kb_home: Path) -> None:
    notes(kb_engine, 4)
    kb = open_kb()
    try:
        with kb.store.write() as tx:
            tx.execute(sa.insert(organizations).values(id="other", name="other", created_at=""))
            row = tx.rows(sa.select(documents).limit(1))[0]
            others = [
                {**row, "id": 100 + number, "organization_id": "other"} for number in range(50)
            ]
            tx.execute(sa.insert(documents), others)
    finally:
        kb.close()

    refused = refusal(kb_engine, "/bulk/delete", {"from_id": 1})

    assert (refused.http_status, refused.body["matched"], refused.body["total"]) == (409, 4, 4)


@pytest.mark.parametrize("wrong", ["-1", "101", "seventy", "70.0", "true", ""])
def test_b3_a_threshold_that_cannot_be_stops_the_start(kb_run: Run, wrong: str) -> None:
    stopped = kb_run("list", KB_BULK_SAFETY_PERCENT=wrong)

    assert stopped.returncode == 2
    assert "KB_BULK_SAFETY_PERCENT" in stopped.stderr and "from 0 to 100" in stopped.stderr


# B4, B5: the answer and the job


def test_b4_no_match_is_done_and_has_a_job(kb_engine: Engine) -> None:
    notes(kb_engine, 1)

    result = kb_engine.bulk_tags(tags=["nobody"], add=["x"])

    assert result.pop("hint") == "no document has tag 'nobody'"
    assert result == {
        "job_id": result["job_id"],
        "status": "done",
        "matched": 0,
        "succeeded": 0,
        "failed": 0,
        "errors": [],
    }
    assert kb_engine.get_job(result["job_id"])["status"] == "done"


def test_b4_matched_is_what_succeeded_and_what_failed(kb_engine: Engine) -> None:
    notes(kb_engine, 3)
    kb_engine.place_hold([2])

    result = kb_engine.bulk_delete(from_id=1, force=True)

    assert (result["status"], result["matched"], result["succeeded"], result["failed"]) == (
        "partial_failure",
        3,
        2,
        1,
    )


def test_b5_the_job_tells_the_selection_the_outcome_and_who(kb_engine: Engine) -> None:
    notes(kb_engine, 3, tags=["a"])
    notes(kb_engine, 3)

    job = kb_engine.get_job(kb_engine.bulk_tags(tags=["a"], add=["b"])["job_id"])

    assert job["job_type"] == "bulk_tags"
    assert json.loads(job["filename"]) == {"tags": ["a"]}
    assert (job["error"], job["document_id"], job["matched"], job["succeeded"], job["failed"]) == (
        None,
        3,
        3,
        3,
        0,
    )
    assert (job["user_id"], job["user"]) == (LOCAL_USER, "local")


def test_b5_a_filter_of_many_ids_is_shown_by_its_beginning_in_a_list(
    kb_run: Run, kb_engine: Engine
) -> None:
    kb_engine.bulk_tags(document_ids=list(range(1, 5000)), add=["x"])
    listed = kb_run("jobs").stdout.splitlines()
    assert len(listed) == 2
    assert len(listed[1]) < 300
    assert "…" in listed[1]


def test_b5_a_409_writes_no_job(kb_engine: Engine) -> None:
    notes(kb_engine, 4)

    refusal(kb_engine, "/bulk/delete", {"from_id": 1})

    assert kb_engine.list_jobs(job_type="bulk_delete")["meta"]["total"] == 0


def test_b5_a_job_is_shown_with_its_filter_and_its_errors(kb_run: Run, kb_engine: Engine) -> None:
    notes(kb_engine, 3, tags=["old"])
    kb_engine.place_hold([2], matter="Doe v. Roe")
    number = str(kb_engine.bulk_delete(tags=["old"], force=True)["job_id"])

    shown = kb_run("jobs", "show", number)
    as_json = json.loads(kb_run("jobs", "show", number, "--json").stdout)

    head, _, table = shown.stdout.partition("\n\n")
    told = dict(line.split(maxsplit=1) for line in head.splitlines())
    assert told["job_type"] == "bulk_delete"
    assert told["filter"] == '{"tags": ["old"]}'
    assert (told["by"], told["matched"], told["succeeded"], told["failed"]) == (
        "local",
        "3",
        "2",
        "1",
    )
    assert table == "document_id\terror\n2\tthe document is on legal hold: 'Doe v. Roe'\n"
    assert json.loads(as_json["filename"]) == {"tags": ["old"]}
    assert json.loads(as_json["error"]) == [
        {"document_id": 2, "error": "the document is on legal hold: 'Doe v. Roe'"}
    ]


# B6, B7: deleting


def stored(home: Path) -> list[Path]:
    """Every file in the folder of files, except the locks of running processes."""
    return [
        path
        for path in (home / "files").rglob("*")
        if path.is_file() and not path.name.startswith(".process-")
    ]


def test_b7_a_delete_takes_everything_that_was_derived(kb_engine: Engine, kb_home: Path) -> None:
    gone = kb_engine.add_file("gone.md", b"zebras graze", tags=["x"])["document"]["id"]
    kb_engine.add_file("kept.md", b"zebras run")

    kb_engine.bulk_delete(document_ids=[gone])

    kb = open_kb()
    try:
        with kb.store.read() as tx:
            read = tx.connection.exec_driver_sql
            counts = [
                read(f"SELECT count(*) FROM {table}").scalar()
                for table in ("documents", "chunks", "document_tags")
            ]
            assert counts == [1, 1, 0]
            assert tx.text.maintenance.count() == 1
            assert tx.vector_index("chunks_vec_1").maintenance.count() == 1
            assert read("SELECT count(*) FROM file_removals").scalar() == 0
    finally:
        kb.close()
    assert len(stored(kb_home)) == 1


def test_b7_a_file_that_another_document_refers_to_stays(kb_engine: Engine, kb_home: Path) -> None:
    kb_engine.add_file("a.md", b"the same content")
    second = kb_engine.add_note("to be made to share it")["document"]["id"]
    kb = open_kb()
    try:
        with kb.store.write() as tx:
            shared = tx.scalar(sa.select(documents.c.file).where(documents.c.id == 1))
            tx.execute(sa.update(documents).where(documents.c.id == second).values(file=shared))
    finally:
        kb.close()

    kb_engine.bulk_delete(document_ids=[1])
    assert [path for path in stored(kb_home) if shared in str(path)]
    kb_engine.bulk_delete(document_ids=[second], force=True)
    assert not [path for path in stored(kb_home) if shared in str(path)]


def test_b7_a_file_that_cannot_be_removed_is_not_counted_and_tried_again_with_the_next_addition(
    kb_home: Path,
) -> None:
    with connect() as engine:
        engine.add_file("a.md", b"some content")
        engine.add_note("another")
        [file] = [path for path in stored(kb_home) if path.read_bytes() == b"some content"]
        # A folder in its place cannot be unlinked.
        file.unlink()
        (file / "inside").mkdir(parents=True)
        assert engine.bulk_delete(document_ids=[1]) | {"job_id": 0} == {
            "job_id": 0,
            "status": "done",
            "matched": 1,
            "succeeded": 1,
            "failed": 0,
            "errors": [],
        }
    (file / "inside").rmdir()
    file.rmdir()
    file.write_bytes(b"some content")

    with connect() as engine:
        engine.add_note("a third")

    assert not file.exists()


# B8: tags


def test_b8_tags_are_added_removed_and_replaced(kb_engine: Engine) -> None:
    (first, second) = notes(kb_engine, 2, tags=["old", "both"])

    kb_engine.bulk_tags(document_ids=[first], add=["new"], remove=["old"])
    kb_engine.bulk_set_tags(document_ids=[second], new_tags=["clean", "final"])

    assert kb_engine.get_document(first)["tags"] == ["both", "new"]
    assert kb_engine.get_document(second)["tags"] == ["clean", "final"]
    assert kb_engine.bulk_set_tags(document_ids=[second], new_tags=[])["succeeded"] == 1
    assert kb_engine.get_document(second)["tags"] == []


def test_b8_both_move_updated_at_and_never_indexed_at(kb_engine: Engine) -> None:
    first, second = notes(kb_engine, 2)
    before = [kb_engine.get_document(number) for number in (first, second)]

    kb_engine.bulk_tags(document_ids=[first], add=["a"])
    kb_engine.bulk_set_tags(document_ids=[second], new_tags=["a"])

    after = [kb_engine.get_document(number) for number in (first, second)]
    assert all(
        new["updated_at"] > old["updated_at"] for new, old in zip(after, before, strict=True)
    )
    assert [item["indexed_at"] for item in after] == [item["indexed_at"] for item in before]


def test_b8_a_missing_new_tags_is_explained(kb_engine: Engine) -> None:
    assert (
        "tags selects; new_tags replaces"
        in refusal(kb_engine, "/bulk/set-tags", {"tags": ["a"]}).message
    )


@pytest.mark.parametrize(
    "change", [{}, {"add": []}, {"remove": []}, {"add": None}, {"add": ["a"], "remove": ["a"]}]
)
def test_b8_a_tag_change_must_say_something_and_one_thing(
    kb_engine: Engine, change: dict[str, Any]
) -> None:
    assert refusal(kb_engine, "/bulk/tags", {"from_id": 1, **change}).http_status == 400


# B10: the preview (plans are in test_plans.py)


def test_b10_a_preview_changes_nothing_and_counts_the_same(kb_engine: Engine) -> None:
    notes(kb_engine, 12, tags=["x"])

    preview = kb_engine.bulk_preview("delete", tags=["x"])

    assert {
        key: preview[key]
        for key in ("operation", "matched", "total", "percent", "threshold", "exceeds")
    } == {
        "operation": "delete",
        "matched": 12,
        "total": 12,
        "percent": 100.0,
        "threshold": 70,
        "exceeds": True,
    }
    assert [item["title"] for item in preview["sample"]] == titles(kb_engine)[:10]
    assert (
        refusal(kb_engine, "/bulk/preview", {"operation": "explode", "from_id": 1}).http_status
        == 400
    )
    assert (
        refusal(
            kb_engine, "/bulk/preview", {"operation": "delete", "from_id": 1, "add": ["x"]}
        ).http_status
        == 400
    )
    assert (
        refusal(kb_engine, "/bulk/preview", {"operation": "set_tags", "from_id": 1}).http_status
        == 400
    )
    assert refusal(kb_engine, "/bulk/preview", {"operation": "delete"}).http_status == 400


# B11, B12: tools and commands


def test_b11_the_client_has_a_method_for_each_operation_and_raises_with_status_and_body(
    kb_engine: Engine,
) -> None:
    notes(kb_engine, 1)
    for call in (
        lambda: kb_engine.bulk_delete(from_id=1),
        lambda: kb_engine.bulk_tags(from_id=1, add=["x"]),
        lambda: kb_engine.bulk_set_tags(from_id=1, new_tags=["x"]),
    ):
        with pytest.raises(EngineError) as refused:
            call()
        assert (refused.value.http_status, refused.value.body["error"]) == (
            409,
            "safety_threshold_exceeded",
        )


@pytest.mark.parametrize(
    ("command", "verb"),
    [
        (("bulk-remove",), "delete"),
        (("bulk-tag", "--add", "x", "--remove", "y"), "change the tags of"),
        (("bulk-set-tags", "--set", "x"), "replace the tags of"),
    ],
)
def test_b12_each_command_says_in_its_words_what_it_will_do(
    kb_run: Run, command: tuple[str, ...], verb: str
) -> None:
    kb_run("note", "one", "--tags", "draft,old")
    kb_run("note", "two")
    flags = (
        "--tags",
        "draft,old",
        "--type",
        "note",
        "--ids",
        "1,2",
        "--from-id",
        "1",
        "--to-id",
        "9",
    )

    asked = kb_run(*command, *flags)
    done = kb_run(*command, *flags, "-y", "-f")

    assert asked.returncode == 2
    assert (
        f"This will {verb} 1 document matching: tags=[draft,old] type=note ids=[1,2] from-id=1 to-id=9\n"
        in asked.stderr
    )
    assert "--yes" in asked.stderr
    assert done.returncode == 0


def test_b12_force_does_not_imply_yes(kb_run: Run) -> None:
    kb_run("note", "one")

    asked = kb_run("bulk-remove", "--from-id", "1", "--force")
    refused = kb_run("bulk-remove", "--from-id", "1", "--yes")

    assert (asked.returncode, refused.returncode) == (2, 1)
    assert "This will delete 1 document" in asked.stderr
    assert "safety threshold" in refused.stderr


def test_b12_no_match_is_said_and_is_no_failure(kb_run: Run) -> None:
    for more in ((), ("--yes",)):
        done = kb_run("bulk-remove", "--tags", "nobody", *more)
        assert (done.returncode, done.stdout) == (0, "no documents match: tags=[nobody]\n")


@pytest.mark.parametrize(("answer", "left"), [("y\n", 1), ("\n", 2)])
def test_b12_the_default_is_no(
    kb_server: RunningServer, in_terminal: Callable[..., Any], answer: str, left: int
) -> None:
    for text in ("one", "two"):
        kb_server.engine.post("/notes", {"text": text, "tags": [text]})

    code, said = in_terminal("bulk-remove", "--tags", "one", answer=answer)

    told = "  1  one\n  (1 of 2 documents, 50.0%)\nThis will delete 1 document matching: tags=[one]\nProceed? [y/N] "
    assert said.startswith(told)
    assert (code, kb_server.engine.get("/documents")["meta"]["total"]) == (
        0 if left == 1 else 1,
        left,
    )


def test_a_long_list_of_ids_is_announced_shortly(kb_run: Run) -> None:
    kb_run("note", "one")

    asked = kb_run("bulk-tag", "--ids", ",".join(map(str, range(1, 1001))), "--add", "x", "--force")

    assert (
        "ids=[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,… 1000 in all]\n" in asked.stderr
    )


# Whatever plugins contribute


def test_another_plugins_filter_is_part_of_the_announcement_and_of_the_plan(
    kb_run: Run, kb_engine: Engine
) -> None:
    notes(kb_engine, 2)
    kb_engine.place_hold([1])

    asked = kb_run("bulk-tag", "--on-hold", "--add", "x")
    plan = kb_engine.bulk_preview("tags", on_hold=False, add=["x"])["plan"]
    job = kb_engine.get_job(kb_engine.bulk_tags(plan=plan)["job_id"])

    assert "This will change the tags of 1 document matching: on-hold=True\n" in asked.stderr
    assert json.loads(job["filename"]) == {"on_hold": False}


RENAME = """
from kb_framework import api, hookimpl
from kb_documents.api import touch
from kb_framework.api.models import Body


class Rename(Body):
    title: str

    def apply(self, tx, documents):
        touch(tx, documents, title=self.title)


@hookimpl
def kb_mutation_kinds():
    return [api.MutationKind("rename", f"{__name__}:Rename", verb="rename", help="Rename documents.")]
"""


@pytest.fixture
def renamer(kb_home: Path, kb_plugin: Install) -> Iterator[None]:
    kb_plugin("renamer", RENAME, module="renamer_of_documents")
    yield
    sys.modules.pop("renamer_of_documents", None)


def test_a_third_partys_kind_gets_route_preview_plan_threshold_and_job(
    renamer: None, kb_http: AsgiTransport
) -> None:
    with connect() as engine:
        notes(engine, 4)
        refused = refusal(engine, "/bulk/rename", {"from_id": 1, "title": "New"})
        preview = engine.bulk_preview("rename", document_ids=[1], title="New")
        job = engine.get_job(engine.bulk_rename(plan=preview["plan"])["job_id"])
        schema = json.loads(kb_http.send("GET", "/schema/openapi.json", {}, b"").body)

        assert (refused.http_status, refused.code) == (409, "safety_threshold_exceeded")
        assert (preview["matched"], job["job_type"], titles(engine)[0]) == (1, "bulk_rename", "New")
        assert "/api/v1/bulk/rename" in schema["paths"]
        assert {"title", "tags", "on_hold", "plan"} <= set(
            schema["components"]["schemas"]["BulkRename"]["properties"]
        )


def test_a_third_partys_kind_gets_a_command_and_a_tool(renamer: None, kb_run: Run) -> None:
    kb_run("note", "one")
    kb_run("note", "two")

    asked = kb_run("bulk-rename", "--ids", "1", "--title", "New")
    done = kb_run("bulk-rename", "--ids", "1", "--title", "New", "--yes")
    tool = bind_tools(Plugins(read_bootstrap()), "curate")["kb_bulk_rename"].description

    assert "This will rename 1 document matching: ids=[1]\n" in asked.stderr
    assert done.returncode == 0
    assert {"title", "tags", "force", "on_hold"} <= set(tool.input_schema["properties"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("bulk-remove",),
        ("bulk-tag", "--add", "x"),
        ("bulk-set-tags", "--set", "[]"),
        ("chunks", "bulk-deactivate"),
    ],
    ids=" ".join,
)
def test_a_dry_run_shows_what_would_change_and_changes_nothing(
    arguments: tuple[str, ...], kb_run: Run
) -> None:
    for title in ("First", "Second"):
        assert kb_run("note", title, "--tags", "draft").returncode == 0
    before = kb_run("list", "--json").stdout

    told = kb_run(*arguments, "--tags", "draft", "--dry-run")
    as_json = json.loads(kb_run(*arguments, "--tags", "draft", "--dry-run", "--json").stdout)

    assert told.returncode == 0, told.stderr
    assert all(
        word in told.stdout
        for word in ("First", "Second", "(2 of 2 ", "100.0%", "This would ", "--force is needed")
    )
    assert (as_json["matched"], [item["title"] for item in as_json["sample"]]) == (
        2,
        ["First", "Second"],
    )
    assert kb_run("list", "--json").stdout == before


def test_a_refusal_names_the_flag_and_not_the_field_of_a_request(kb_run: Run) -> None:
    assert kb_run("note", "one", "--tags", "draft").returncode == 0

    done = kb_run("bulk-remove", "--tags", "draft", "--yes")

    assert done.returncode == 1
    assert "--force" in done.stderr
    assert "force: true" not in done.stderr


def test_an_empty_list_in_brackets_clears_the_tags(kb_run: Run) -> None:
    assert kb_run("note", "one", "--tags", "a,b").returncode == 0

    done = kb_run("bulk-set-tags", "--ids", "1", "--set", "[]", "--yes", "--force")

    assert done.returncode == 0, done.stderr
    assert json.loads(kb_run("show", "1", "--json").stdout)["tags"] == []


def test_a_missing_field_of_the_operation_is_named_by_its_flag(kb_run: Run) -> None:
    done = kb_run("bulk-set-tags", "--ids", "1", "--yes")

    assert done.returncode == 2
    assert done.stderr.startswith("kb: --set is required: ")
