"""An outside plugin on equal terms: what each hook of `kb-legalhold` does, and that nothing is missing without it."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from kb_framework.app import open_kb
from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine, connect
from kb_framework.edges.http.app import create_app
from kb_framework.edges.mcp.tools import bind_tools
from kb_framework.errors import EngineError
from kb_framework.plugins import Plugins
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import Install, Run, RunningServer, kb_mcp, stored, stored_tables

pytest.importorskip(
    "kb_legalhold",
    reason="kb-legalhold is not installed: pip install --no-deps ./tests/third_party/kb_legalhold",
)

BULK_TOOLS = ("kb_bulk_delete", "kb_bulk_tags", "kb_bulk_set_tags")
HELD = "the document is on legal hold: 'Doe v. Roe'"


def note(engine: Engine, text: str, *tags: str) -> int:
    return engine.add_note(text, tags=list(tags))["document"]["id"]


def ids(engine: Engine) -> list[int]:
    return [document["id"] for document in engine.list_documents(per_page=100)["data"]]


def rows(home: Path, statement: str) -> list[tuple[Any, ...]]:
    return stored(statement)


def found(engine: Engine, query: str, mode: str) -> set[int]:
    return {hit["doc_id"] for hit in engine.search(query, mode=mode, k=100)["hits"]}


# Guard


def test_a_bulk_delete_spares_documents_on_hold_and_deletes_the_rest(kb_engine: Engine) -> None:
    held, free, other = (
        note(kb_engine, "one", "old"),
        note(kb_engine, "two", "old"),
        note(kb_engine, "three"),
    )
    kb_engine.place_hold([held], matter="Doe v. Roe")

    result = kb_engine.bulk_delete(tags=["old"])

    assert result["status"] == "partial_failure"
    assert (result["matched"], result["succeeded"], result["failed"]) == (2, 1, 1)
    assert result["errors"] == [{"document_id": held, "error": HELD}]
    assert ids(kb_engine) == [held, other]
    assert free not in found(kb_engine, "two", "lexical")


def test_the_job_of_a_bulk_delete_tells_which_document_was_on_hold(kb_engine: Engine) -> None:
    held, _ = note(kb_engine, "one", "old"), note(kb_engine, "two", "old")
    kb_engine.place_hold([held], matter="Doe v. Roe")

    result = kb_engine.bulk_delete(tags=["old"], force=True)
    job = kb_engine.get_job(result["job_id"])

    assert (job["job_type"], job["status"], job["document_id"]) == (
        "bulk_delete",
        "partial_failure",
        1,
    )
    assert (job["matched"], job["succeeded"], job["failed"]) == (2, 1, 1)
    assert json.loads(job["error"]) == [{"document_id": held, "error": HELD}]


@pytest.mark.parametrize(
    ("operation", "fields"),
    [("bulk_delete", {}), ("bulk_tags", {"add": ["new"]}), ("bulk_set_tags", {"new_tags": []})],
)
def test_every_bulk_operation_leaves_a_document_on_hold_as_it_was(
    kb_engine: Engine, operation: str, fields: dict[str, Any]
) -> None:
    held, _ = note(kb_engine, "one", "old"), note(kb_engine, "two", "old")
    kb_engine.place_hold([held], matter="Doe v. Roe")
    before = kb_engine.get_document(held)

    result = getattr(kb_engine, operation)(tags=["old"], force=True, **fields)

    assert result["errors"] == [{"document_id": held, "error": HELD}]
    assert result["succeeded"] == 1
    assert kb_engine.get_document(held) == before


def test_changing_a_single_document_on_hold_is_a_conflict(kb_engine: Engine) -> None:
    held = note(kb_engine, "one", "old")
    kb_engine.place_hold([held], matter="Doe v. Roe")
    before = kb_engine.get_document(held)

    for change in (
        lambda: kb_engine.delete_document(held),
        lambda: kb_engine.set_document_tags(held, ["new"]),
        lambda: kb_engine.update_document(held, title="Another"),
    ):
        with pytest.raises(EngineError) as refused:
            change()
        assert refused.value.http_status == 409
        assert refused.value.body == {
            "error": "mutation_refused",
            "message": HELD,
            "document_id": held,
        }

    assert kb_engine.get_document(held) == before


def test_renaming_a_tag_passes_over_documents_on_hold(kb_engine: Engine) -> None:
    held, free = note(kb_engine, "one", "old"), note(kb_engine, "two", "old")
    kb_engine.place_hold([held], matter="Doe v. Roe")

    changed = kb_engine.rename_tag("old", "new")

    assert changed["errors"] == [{"document_id": held, "error": HELD}]
    assert kb_engine.get_document(held)["tags"] == ["old"]
    assert kb_engine.get_document(free)["tags"] == ["new"]


def test_a_document_held_for_two_matters_is_free_when_both_are_released(kb_engine: Engine) -> None:
    held = note(kb_engine, "one")
    kb_engine.place_hold([held], matter="Doe v. Roe")
    kb_engine.place_hold([held], matter="Audit")

    with pytest.raises(EngineError, match=r"'Audit', 'Doe v\. Roe'"):
        kb_engine.delete_document(held)
    kb_engine.release_hold([held], matter="Audit")
    with pytest.raises(EngineError, match=r"'Doe v\. Roe'"):
        kb_engine.delete_document(held)
    kb_engine.release_hold([held])
    kb_engine.delete_document(held)

    assert ids(kb_engine) == []


# Narrowing


@pytest.mark.parametrize("mode", ["lexical", "vector", "hybrid"])
def test_a_sealed_document_is_not_found_by_search(kb_engine: Engine, mode: str) -> None:
    sealed, seen = note(kb_engine, "the merger with Acme"), note(kb_engine, "the merger with Bolt")
    assert found(kb_engine, "merger", mode) == {sealed, seen}

    kb_engine.place_hold([sealed], sealed=True)
    assert found(kb_engine, "merger", mode) == {seen}

    kb_engine.release_hold([sealed])
    assert found(kb_engine, "merger", mode) == {sealed, seen}


def test_a_hold_without_a_seal_does_not_hide_a_document(kb_engine: Engine) -> None:
    held = note(kb_engine, "the merger with Acme")
    kb_engine.place_hold([held])

    assert found(kb_engine, "merger", "lexical") == {held}


def test_a_sealed_document_is_not_matched_by_any_selection(kb_engine: Engine) -> None:
    sealed, _ = note(kb_engine, "one", "old"), note(kb_engine, "two", "old")
    kb_engine.place_hold([sealed], sealed=True)

    preview = kb_engine.bulk_preview("delete", tags=["old"])
    by_tag = kb_engine.bulk_delete(tags=["old"], force=True)
    by_id = kb_engine.bulk_delete(document_ids=[sealed])

    assert preview["matched"] == 1
    assert [item["id"] for item in preview["sample"]] != [sealed]
    assert (by_tag["matched"], by_tag["succeeded"], by_tag["errors"]) == (1, 1, [])
    assert (by_id["matched"], by_id["status"]) == (0, "done")
    assert kb_engine.list_holds()["meta"]["total"] == 1


def test_asking_for_a_hold_again_seals_it_but_never_unseals_it(kb_engine: Engine) -> None:
    held = note(kb_engine, "one")
    kb_engine.place_hold([held], reason="first")

    again = kb_engine.place_hold([held], reason="second", sealed=True)
    kb_engine.place_hold([held], sealed=False)

    assert again == {"matter": "general", "placed": 0, "already_held": 1}
    [hold] = kb_engine.list_holds()["data"]
    assert (hold["reason"], hold["sealed"]) == ("first", True)


# The filter


def test_the_filter_selects_documents_that_are_or_are_not_on_hold(kb_engine: Engine) -> None:
    held, free = note(kb_engine, "one"), note(kb_engine, "two")
    kb_engine.place_hold([held])

    on = kb_engine.bulk_preview("delete", on_hold=True)
    off = kb_engine.bulk_preview("delete", on_hold=False)

    assert [item["id"] for item in on["sample"]] == [held]
    assert [item["id"] for item in off["sample"]] == [free]


def test_the_filter_is_checked_as_a_built_in_one_is(kb_engine: Engine) -> None:
    for wrong in ("yes", 1, []):
        with pytest.raises(EngineError) as refused:
            kb_engine.bulk_delete(on_hold=wrong)
        assert refused.value.http_status == 400
        assert "on_hold" in refused.value.message


def test_the_filter_is_part_of_the_job_record(kb_engine: Engine) -> None:
    note(kb_engine, "one", "old")

    result = kb_engine.bulk_tags(tags=["old"], on_hold=False, add=["seen"], force=True)

    assert json.loads(kb_engine.get_job(result["job_id"])["filename"]) == {
        "tags": ["old"],
        "on_hold": False,
    }


def test_the_filter_is_a_flag_of_every_bulk_command(kb_run: Run) -> None:
    for command in ("bulk-remove", "bulk-tag", "bulk-set-tags"):
        help_text = kb_run(command, "--help").stdout

        assert "--on-hold" in help_text
        assert "--no-on-hold" not in help_text


def test_the_flag_selects(kb_run: Run) -> None:
    kb_run("note", "one")
    kb_run("note", "two")
    kb_run("hold", "place", "1", "--matter", "Doe v. Roe")

    done = kb_run("bulk-remove", "--on-hold", "--yes", "--json")

    result = json.loads(done.stdout)
    assert done.returncode == 1
    assert (result["matched"], result["succeeded"]) == (1, 0)
    assert result["errors"] == [{"document_id": 1, "error": HELD}]


def test_the_filter_is_a_parameter_of_every_bulk_tool(kb_home: Path) -> None:
    tools = bind_tools(Plugins(read_bootstrap()), "curate")

    for name in BULK_TOOLS:
        schema = tools[name].description.input_schema["properties"]["on_hold"]
        assert schema["type"] == "boolean"
        assert "legal hold" in schema["description"]


def test_openapi_describes_the_routes_and_the_filter(kb_server: RunningServer) -> None:
    reply = kb_server.engine._transport.send("GET", "/schema/openapi.json", {}, b"")
    document = json.loads(reply.body)

    assert reply.status == 200
    assert set(document["paths"]["/api/v1/legal-holds"]) == {"get", "post"}
    assert set(document["paths"]["/api/v1/legal-holds/release"]) == {"post"}
    assert "409" in document["paths"]["/api/v1/legal-holds"]["post"]["responses"]
    for path in ("delete", "tags", "set-tags", "preview"):
        body = document["paths"][f"/api/v1/bulk/{path}"]["post"]["requestBody"]["content"][
            "application/json"
        ]["schema"]
        name = body["$ref"].rsplit("/", 1)[-1]
        field = document["components"]["schemas"][name]["properties"]["on_hold"]
        assert "boolean" in json.dumps(field)
        assert "legal hold" in field["description"]


def test_schema_names_the_capability_and_the_filter(kb_engine: Engine) -> None:
    schema = kb_engine.get("/schema")

    assert schema["capabilities"]["legal_hold"] is True
    assert "on_hold" in schema["selection_filters"]


# The log


def test_changes_are_logged_while_holds_are_in_force(kb_engine: Engine, kb_home: Path) -> None:
    first, _ = note(kb_engine, "one", "a"), note(kb_engine, "two", "a")
    kb_engine.place_hold([first])
    note(kb_engine, "three", "a")
    kb_engine.bulk_tags(tags=["a"], add=["b"], force=True)
    kb_engine.release_hold([first])
    note(kb_engine, "four")

    logged = rows(kb_home, "SELECT action, documents, holds FROM legal_hold_log ORDER BY id")

    assert logged == [
        ("hold_placed", 1, 1),
        ("added", 1, 1),
        ("tags", 2, 1),
        ("hold_released", 1, 0),
    ]


def test_the_log_is_rolled_back_with_the_change_it_tells_of(
    kb_home: Path, kb_plugin: Install, caplog: pytest.LogCaptureFixture
) -> None:
    with connect() as engine:
        held, free = note(engine, "one"), note(engine, "two")
        engine.place_hold([held])
    before = rows(kb_home, "SELECT * FROM legal_hold_log")
    kb_plugin(
        "zebra",
        "from kb_framework import hookimpl\n"
        "@hookimpl\n"
        "def kb_documents_changed(changes, tx):\n"
        "    seen = tx.connection.exec_driver_sql('SELECT action FROM legal_hold_log ORDER BY id DESC LIMIT 1').scalar()\n"
        "    raise RuntimeError(f'after {seen}')\n",
    )

    with connect() as engine, pytest.raises(EngineError, match="zebra") as failed:
        engine.delete_document(free)

    assert "RuntimeError: after delete" in caplog.text
    assert failed.value.http_status == 503
    assert rows(kb_home, "SELECT * FROM legal_hold_log") == before
    assert rows(kb_home, "SELECT id FROM documents ORDER BY id") == [(held,), (free,)]


# Routes, commands, tools, client


def test_holds_are_placed_listed_and_released_over_http(kb_server: RunningServer) -> None:
    engine = kb_server.engine
    numbers = [engine.post("/notes", {"text": text})["document"]["id"] for text in ("one", "two")]

    placed = engine.post(
        "/legal-holds",
        {"document_ids": [*numbers, *numbers], "matter": "Doe v. Roe", "reason": "letter"},
    )
    listed = engine.get("/legal-holds", per_page=1)
    other = engine.get("/legal-holds", matter="Audit")
    released = engine.post("/legal-holds/release", {"document_ids": numbers})

    assert placed == {"matter": "Doe v. Roe", "placed": 2, "already_held": 0}
    assert listed["meta"] == {"page": 1, "per_page": 1, "total": 2, "total_pages": 2}
    [hold] = listed["data"]
    assert (hold["document_id"], hold["reason"], hold["sealed"]) == (numbers[0], "letter", False)
    assert hold["created_at"].endswith("Z")
    assert other["data"] == []
    assert released == {"released": 2}
    assert engine.get("/legal-holds")["meta"]["total"] == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "document_ids"),
        ({"document_ids": []}, "document_ids"),
        ({"document_ids": ["1"]}, "document_ids"),
        ({"document_ids": [True]}, "document_ids"),
        ({"document_ids": [2**63]}, "document_ids"),
        ({"document_ids": [1], "matter": " "}, "matter"),
        ({"document_ids": [1], "reason": "a\x00b"}, "reason"),
        ({"document_ids": [1], "sealed": "yes"}, "sealed"),
        ({"document_ids": [1], "seal": True}, "seal"),
    ],
)
def test_a_bad_hold_is_refused_and_the_field_named(
    kb_engine: Engine, body: dict[str, Any], field: str
) -> None:
    with pytest.raises(EngineError) as refused:
        kb_engine.post("/legal-holds", body)

    assert refused.value.http_status == 400
    assert refused.value.body["error"] == "invalid_input"
    assert field in refused.value.message


def test_a_hold_on_a_document_that_does_not_exist_holds_nothing(kb_engine: Engine) -> None:
    known = note(kb_engine, "one")

    with pytest.raises(EngineError) as missing:
        kb_engine.place_hold([known, 99])

    assert missing.value.http_status == 404
    assert missing.value.body == {
        "error": "not_found",
        "message": "there is no document 99",
        "document_id": 99,
    }
    assert kb_engine.list_holds()["data"] == []


def test_a_hundred_thousand_ids_are_released_in_one_request(kb_engine: Engine) -> None:
    held = note(kb_engine, "one")
    kb_engine.place_hold([held])

    assert kb_engine.release_hold(list(range(1, 100_001))) == {"released": 1}


def test_the_commands_place_list_and_release(kb_run: Run) -> None:
    kb_run("note", "one")

    placed = kb_run(
        "hold", "place", "1", "--matter", "Doe v. Roe", "--reason", "letter", "--sealed"
    )
    listed = kb_run("hold", "list", "--json")
    table = kb_run("hold", "list")
    hidden = kb_run("search", "one", "--json")
    released = kb_run("hold", "release", "1")

    assert (placed.returncode, placed.stdout) == (
        0,
        "1 documents put on hold for Doe v. Roe, 0 already held\n",
    )
    [hold] = json.loads(listed.stdout)["data"]
    assert (hold["document_id"], hold["matter"], hold["reason"], hold["sealed"]) == (
        1,
        "Doe v. Roe",
        "letter",
        True,
    )
    assert table.stdout.splitlines()[1].split("\t")[1:5] == ["1", "Doe v. Roe", "letter", "True"]
    assert json.loads(hidden.stdout)["hits"] == []
    assert (released.returncode, released.stdout) == (0, "1 holds released\n")


def test_the_commands_say_what_is_wrong(kb_run: Run) -> None:
    without = kb_run("hold", "place")
    missing = kb_run("hold", "place", "7", "--json")

    assert without.returncode == 2
    assert "no document_ids given: kb hold place DOCUMENT_IDS" in without.stderr
    assert missing.returncode == 1
    assert json.loads(missing.stderr)["code"] == "not_found"


def test_removing_a_document_on_hold_on_the_command_line_is_refused(kb_run: Run) -> None:
    kb_run("note", "one")
    kb_run("hold", "place", "1", "--matter", "Doe v. Roe")

    removed = kb_run("remove", "1", "--yes")

    assert removed.returncode == 1
    assert HELD in removed.stderr


def test_the_tools_place_and_list_over_a_real_mcp_client(kb_engine: Engine, kb_home: Path) -> None:
    held = note(kb_engine, "one")

    async def ask() -> tuple[Any, Any, Any, Any]:
        async with Client(kb_mcp("--profile", "curate")) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            placed = await client.call_tool(
                "kb_hold_place", {"document_ids": f"[{held}]", "matter": "Doe v. Roe"}
            )
            listed = await client.call_tool("kb_hold_list", {})
            refused = await client.call_tool("kb_bulk_delete", {"on_hold": True, "force": True})
            return tools, placed, listed, refused

    tools, placed, listed, refused = anyio.run(ask)

    assert tools["kb_hold_list"].annotations.read_only_hint is True
    assert tools["kb_hold_place"].annotations.read_only_hint is False
    assert placed.structured_content == {"matter": "Doe v. Roe", "placed": 1, "already_held": 0}
    assert [hold["document_id"] for hold in listed.structured_content["data"]] == [held]
    assert refused.structured_content["errors"] == [{"document_id": held, "error": HELD}]


def test_reading_needs_no_tool_that_changes(kb_home: Path) -> None:
    tools = bind_tools(Plugins(read_bootstrap()), "read")

    assert "kb_hold_list" in tools
    assert "kb_hold_place" not in tools


# Migrations and settings


def test_the_migrations_run_once(kb_home: Path) -> None:
    for _ in range(2):
        with connect() as engine:
            note(engine, "text")
            engine.place_hold(ids(engine))

    steps = rows(
        kb_home,
        "SELECT version, name FROM kb_migrations WHERE plugin = 'legalhold' ORDER BY version",
    )
    assert steps == [(1, "legal_holds"), (2, "legal_hold_log")]
    assert rows(kb_home, "SELECT count(*) FROM legal_holds") == [(2,)]


@pytest.mark.new_database
def test_a_database_from_before_the_plugin_is_upgraded_in_place(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "legalhold")
    with connect() as engine:
        old = note(engine, "from before")
    assert "legal_holds" not in stored_tables()
    monkeypatch.delenv("KB_DISABLED_PLUGINS")

    with connect() as engine:
        engine.place_hold([old])
        with pytest.raises(EngineError, match="legal hold"):
            engine.delete_document(old)


def test_the_setting_is_shown_with_where_it_came_from(kb_run: Run) -> None:
    def shown(**environment: str) -> dict[str, Any]:
        config = json.loads(kb_run("config", "--json", **environment).stdout)
        assert config["unknown"] == []
        return next(
            item for item in config["settings"] if item["variable"] == "KB_LEGALHOLD_DEFAULT_MATTER"
        )

    by_default, given = shown(), shown(KB_LEGALHOLD_DEFAULT_MATTER="Audit")

    assert (by_default["value"], by_default["source"]) == ("general", "default")
    assert (given["value"], given["source"]) == ("Audit", "environment")
    assert given["description"] == "The matter of a hold that names none."


def test_the_setting_is_the_matter_of_a_hold_that_names_none(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_LEGALHOLD_DEFAULT_MATTER", "Audit")

    with connect() as engine:
        assert engine.place_hold([note(engine, "one")])["matter"] == "Audit"


def test_a_bad_setting_stops_the_start_and_is_named(kb_run: Run) -> None:
    stopped = kb_run("list", KB_LEGALHOLD_DEFAULT_MATTER="")

    assert stopped.returncode == 2
    assert "KB_LEGALHOLD_DEFAULT_MATTER" in stopped.stderr


def test_the_plugin_is_listed_with_its_distribution_and_what_it_contributes(kb_run: Run) -> None:
    listed = {item["name"]: item for item in json.loads(kb_run("plugins", "--json").stdout)}
    plugin = listed["legalhold"]

    assert (plugin["distribution"], plugin["state"], plugin["errors"]) == (
        "kb-legalhold",
        "active",
        [],
    )
    assert plugin["contributes"]["commands"] == ["hold list", "hold place", "hold release"]
    assert plugin["contributes"]["selection_filters"] == ["on_hold"]
    assert {
        "kb_guard_mutation",
        "kb_narrow_selection",
        "kb_narrow_retrieval",
        "kb_documents_changed",
    } <= set(plugin["hooks"])


# Without it


def disabled(monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "legalhold")
    return connect()


def uninstalled(monkeypatch: pytest.MonkeyPatch) -> Engine:
    bootstrap = read_bootstrap()
    installed = importlib.metadata.entry_points(group="kb_framework")
    plugins = Plugins(
        bootstrap, entry_points=[item for item in installed if item.name != "legalhold"]
    )
    kb = open_kb(bootstrap, plugins)
    return Engine(AsgiTransport(create_app(kb), kb.close), plugins)


@pytest.mark.parametrize("without", [disabled, uninstalled])
def test_without_the_plugin_everything_else_works_on_a_database_where_it_was_active(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch, without: Callable[[pytest.MonkeyPatch], Engine]
) -> None:
    with connect() as engine:
        held, sealed, free = (
            note(engine, f"{word} word", "old") for word in ("one", "two", "three")
        )
        engine.place_hold([held])
        engine.place_hold([sealed], sealed=True)

    with without(monkeypatch) as engine:
        assert engine.get("/health")["status"] == "ok"
        assert found(engine, "word", "hybrid") == {held, sealed, free}
        assert note(engine, "four") == free + 1
        engine.update_document(held, title="Another")
        assert engine.bulk_tags(tags=["old"], add=["new"], force=True)["succeeded"] == 3
        engine.delete_document(held)
        assert engine.bulk_delete(tags=["new"])["succeeded"] == 2
        assert ids(engine) == [free + 1]

    logged = rows(kb_home, "SELECT action FROM legal_hold_log ORDER BY id")
    assert logged == [("hold_placed",), ("hold_placed",)]


@pytest.mark.parametrize("without", [disabled, uninstalled])
def test_without_the_plugin_its_routes_tools_filter_and_methods_are_gone(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch, without: Callable[[pytest.MonkeyPatch], Engine]
) -> None:
    with connect() as engine:
        engine.place_hold([note(engine, "one")])

    with without(monkeypatch) as engine:
        for method, path in (
            ("GET", "/legal-holds"),
            ("POST", "/legal-holds"),
            ("POST", "/legal-holds/release"),
        ):
            with pytest.raises(EngineError) as gone:
                engine.get(path) if method == "GET" else engine.post(path, {"document_ids": [1]})
            assert gone.value.http_status == 404
        with pytest.raises(EngineError) as unknown:
            engine.bulk_delete(on_hold=True)
        with pytest.raises(AttributeError):
            engine.list_holds()
        schema = engine.get("/schema")
        tools = bind_tools(engine.plugins, "admin")

    assert unknown.value.http_status == 400
    assert "on_hold" in unknown.value.message
    assert "legal_hold" not in schema["capabilities"]
    assert "on_hold" not in schema["selection_filters"]
    assert not {"kb_hold_list", "kb_hold_place"} & set(tools)
    for name in BULK_TOOLS:
        assert "on_hold" not in tools[name].description.input_schema["properties"]


def test_without_the_plugin_its_commands_flag_and_setting_are_gone(kb_run: Run) -> None:
    kb_run("note", "one")
    kb_run("hold", "place", "1")
    off = {"KB_DISABLED_PLUGINS": "legalhold"}

    command = kb_run("hold", "list", **off)
    flag = kb_run("bulk-remove", "--on-hold", "--yes", **off)
    config = json.loads(kb_run("config", "--json", **off).stdout)
    plugins = {item["name"]: item for item in json.loads(kb_run("plugins", "--json", **off).stdout)}

    assert command.returncode == 2
    assert "there is no command 'hold'" in command.stderr
    assert flag.returncode == 2
    assert "--on-hold" in flag.stderr
    assert "--on-hold" not in kb_run("bulk-remove", "--help", **off).stdout
    assert not [item for item in config["settings"] if item["variable"].startswith("KB_LEGALHOLD")]
    assert (plugins["legalhold"]["state"], plugins["legalhold"]["contributes"]) == ("disabled", {})
    assert kb_run("remove", "1", "--yes", **off).returncode == 0


def test_a_hold_outlives_the_time_without_the_plugin(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect() as engine:
        held = note(engine, "one")
        engine.place_hold([held], matter="Doe v. Roe")
    with disabled(monkeypatch) as engine:
        engine.update_document(held, title="Another")
    monkeypatch.delenv("KB_DISABLED_PLUGINS")

    with connect() as engine, pytest.raises(EngineError) as refused:
        engine.delete_document(held)

    assert refused.value.body["message"] == HELD


def test_documents_cannot_change_while_the_plugin_is_broken(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect() as engine:
        held = note(engine, "one")
        engine.place_hold([held])
    monkeypatch.setitem(sys.modules, "kb_legalhold.plugin", None)

    with connect() as engine:
        with pytest.raises(EngineError) as refused:
            engine.delete_document(held)
        assert found(engine, "one", "lexical") == {held}

    assert refused.value.http_status == 503
    assert refused.value.body["plugins"] == ["legalhold"]
