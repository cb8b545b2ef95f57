"""H8, S8: each built-in plugin can be switched off; what it brought is gone and the rest works."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from kb_framework.app import open_kb
from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine
from kb_framework.discovery import HOST_DISTRIBUTION
from kb_framework.edges.cli.app import examples, run
from kb_framework.edges.http.app import create_app
from kb_framework.edges.mcp.tools import bind_tools
from kb_framework.errors import EngineError
from kb_framework.plugins import Plugins
from kb_testing.application import AsgiTransport

BUILT_IN = sorted(
    entry_point.name
    for entry_point in importlib.metadata.entry_points(group="kb_framework")
    if entry_point.dist and entry_point.dist.name == HOST_DISTRIBUTION
)


@dataclass
class Opened:
    """An engine with its whole surface in view."""

    plugins: Plugins
    transport: AsgiTransport
    engine: Engine

    @property
    def paths(self) -> set[tuple[str, str]]:
        """Method and path of every route that the OpenAPI document lists."""
        openapi = json.loads(self.transport.send("GET", "/schema/openapi.json", {}, b"").body)
        return {
            (method.upper(), path) for path, item in openapi["paths"].items() for method in item
        }

    @property
    def commands(self) -> set[str]:
        return {command.name for command in self.plugins.commands}

    @property
    def tools(self) -> set[str]:
        return set(bind_tools(self.plugins, "admin"))

    def can(self, method: str) -> bool:
        return self.plugins.has_method(method)


def require_another_store(name: str) -> None:
    """Skip a test that would switch off the store in use; `store/test_contract.py` does that."""
    if name == ("postgres" if "KB_DATABASE_URL" in os.environ else "sqlite"):
        pytest.skip("it is the store in use")


@contextmanager
def opened() -> Iterator[Opened]:
    plugins = Plugins(read_bootstrap())
    kb = open_kb(read_bootstrap(), plugins)
    transport = AsgiTransport(create_app(kb), kb.close)
    try:
        yield Opened(plugins, transport, Engine(transport, plugins))
    finally:
        transport.close()


@pytest.fixture
def kb_here(kb_home, capsys) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Runs a command line in this process: its exit code, what it printed, what it said."""
    root = logging.getLogger()
    handlers = list(root.handlers)

    def here(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(list(arguments))
        said = capsys.readouterr()
        return code, said.out, said.err

    yield here
    root.handlers[:] = handlers


def test_the_built_in_plugins_are_found_by_their_entry_points() -> None:
    assert {"bulk", "documents", "models", "search"} <= set(BUILT_IN)


@pytest.mark.above_the_store("what plugins declare")
@pytest.mark.parametrize("name", BUILT_IN)
def test_its_routes_commands_and_tools_are_gone(kb_home, kb_here, monkeypatch, name) -> None:
    require_another_store(name)
    with opened() as whole:
        before = (whole.paths, whole.commands, whole.tools)
    monkeypatch.setenv("KB_DISABLED_PLUGINS", name)
    with opened() as rest:
        paths, commands, tools = (
            was - now
            for was, now in zip(before, (rest.paths, rest.commands, rest.tools), strict=True)
        )
        left = rest.commands
        assert rest.paths <= before[0]

        for method, path in paths:
            address = re.sub(r"\{[^}]+\}", "1", path)
            reply = rest.transport.send(
                method, address, {"Content-Type": "application/json"}, b"{}"
            )
            assert reply.status == 404, (method, address, reply)
        own = next(info for info in Plugins(read_bootstrap()).infos if info.name == name)
        assert own.state == "disabled"
        assert not own.hooks

    helped = kb_here("--help")[1]
    # Several plugins may share a group of commands.
    for command in {command.split(" ")[0] for command in commands} - {
        command.split(" ")[0] for command in left
    }:
        assert kb_here(command)[0] == 2
        assert f"│ {command} " not in helped
    assert tools.isdisjoint(bind_tools(Plugins(read_bootstrap()), "admin"))
    expected = {
        "access": (True, True, False),
        "documents": (True, True, True),
        "search": (True, True, True),
        "bulk": (True, True, True),
        "maintenance": (True, True, False),
        "models": (False, True, False),
        "files": (False, False, False),
        "console": (False, True, False),
        "postgres": (False, True, False),
        "quickstart": (False, True, False),
        "formats": (False, False, False),
        "knowledge": (True, True, True),
        "research": (True, True, True),
        "text": (False, False, False),
    }
    assert (bool(paths), bool(commands), bool(tools)) == expected[name]


@pytest.mark.above_the_store("what help says")
@pytest.mark.parametrize("name", BUILT_IN)
def test_help_gives_examples_of_commands_that_are_there(kb_here, monkeypatch, name) -> None:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", name)
    there = {command.name.split(" ")[0] for command in Plugins(read_bootstrap()).commands}

    shown = set(re.findall(r"^kb ([a-z-]+) ", kb_here("--help")[1], flags=re.MULTILINE))

    assert shown
    assert shown - there == set()


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_rest_works(kb_home, monkeypatch, name) -> None:
    require_another_store(name)
    monkeypatch.setenv("KB_DISABLED_PLUGINS", name)
    with opened() as rest:
        health = rest.engine.get("/health")
        assert health["plugins"] == {"failed": {}, "errors": {}, "loaded": rest.plugins.prints}
        assert [
            other for other, words in rest.plugins.prints.items() if not words.startswith("active ")
        ] == [name]
        assert health["status"] == "ok"
        assert rest.engine.get("/schema")["version"]
        ids: list[int] = []
        if name == "files":
            # Nothing is added that could not be stored.
            with pytest.raises(EngineError, match="no active plugin stores files"):
                rest.engine.add_note("notes about gardens")
        elif rest.can("add_note"):
            ids = [
                rest.engine.add_note(f"notes about gardens {number}")["document"]["id"]
                for number in range(4)
            ]
            assert rest.engine.list_documents()["meta"]["total"] == 4
            rest.engine.set_document_tags(ids[0], ["x"])
            assert rest.engine.list_tags()["data"] == [{"tag": "x", "count": 1}]
            rest.engine.delete_document(ids.pop())
            assert {job["job_type"] for job in rest.engine.list_jobs()["data"]} == {"ingest"}
        if rest.can("search"):
            assert len(rest.engine.search("gardens")["hits"]) == len(ids)
        if ids and rest.can("bulk_delete"):
            assert rest.engine.bulk_delete(document_ids=ids[:1])["succeeded"] == 1
            assert rest.engine.bulk_preview("delete", document_ids=ids)["matched"] == 2
        if name != "maintenance":
            report = rest.engine.get("/doctor")
            assert report["status"] in {"ok", "warning"}, report


@pytest.mark.above_the_store("what help says")
@pytest.mark.parametrize("name", BUILT_IN)
def test_every_command_that_is_left_can_still_be_made(kb_home, monkeypatch, name) -> None:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", name)
    plugins = Plugins(read_bootstrap())

    # What is shown of each is compared with the goldens, while all plugins are there.
    assert len([examples(plugins, command) for command in plugins.commands]) > 20


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_host_commands_stay(kb_here, monkeypatch, name) -> None:
    require_another_store(name)
    monkeypatch.setenv("KB_DISABLED_PLUGINS", name)

    for command in ("config", "schema", "plugins"):
        assert kb_here(command, "--json")[0] == 0
    states = {item["name"]: item["state"] for item in json.loads(kb_here("plugins", "--json")[1])}
    assert [other for other, state in states.items() if state == "disabled"] == [name]
    assert "failed" not in states.values()


def test_with_every_plugin_but_the_stores_switched_off_the_host_still_answers(
    kb_home, kb_here, monkeypatch
) -> None:
    off = [*(name for name in BUILT_IN if name not in {"postgres", "sqlite"}), "legalhold"]
    monkeypatch.setenv("KB_DISABLED_PLUGINS", ",".join(off))

    with opened() as rest:
        assert rest.engine.get("/health")["status"] == "ok"
        assert rest.tools == set()
    assert kb_here("--help")[0] == 0
    assert kb_here("plugins")[0] == 0


@pytest.mark.new_database
@pytest.mark.parametrize(("name", "made"), [("documents", "uploads"), ("bulk", "job_type")])
def test_its_migrations_did_not_run(kb_home, monkeypatch, name, made) -> None:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", name)
    kb = open_kb()
    with kb.store.read() as tx:
        ran = set(
            tx.connection.exec_driver_sql("SELECT DISTINCT plugin FROM kb_migrations").scalars()
        )
        schema = sa.inspect(tx.connection)
        columns = {
            table: {column["name"] for column in schema.get_columns(table)}
            for table in schema.get_table_names()
        }
    kb.close()
    there = columns.keys() | set().union(*columns.values())

    assert name not in ran
    assert {"documents", "organization_id"} <= there
    assert made not in there


def test_a_quickstart_without_search_says_what_is_missing(kb_here, monkeypatch) -> None:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "search")

    code, _, said = kb_here("quickstart")

    assert code == 2
    assert "search" in said
    assert "Traceback" not in said


# Without an embedder


@pytest.mark.parametrize(
    "environment",
    [{"KB_EMBEDDER": "none"}, {"KB_DISABLED_PLUGINS": "models"}, {"KB_EMBEDDER": "no-such-model"}],
    ids=["none", "switched-off", "unknown"],
)
def test_without_an_embedder_hybrid_search_is_lexical_with_a_hint(
    kb_home, monkeypatch, environment
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with opened() as here:
        here.engine.add_note("notes about gardens")

        found: dict[str, Any] = here.engine.search("gardens")
        lexical: dict[str, Any] = here.engine.search("gardens", mode="lexical")

        assert len(found["hits"]) == 1
        assert found["hits"][0]["retrieval"]["lexical_rank"] == 1
        assert found["hits"][0]["retrieval"]["vector_rank"] is None
        assert "embedder" in found["hint"]
        assert lexical["hint"] is None
        assert here.engine.get("/health")["embedder"]["ok"] is False


@pytest.mark.above_the_store("settings")
def test_the_former_name_of_a_plugin_still_switches_it_off_and_on(
    kb_home, kb_here, monkeypatch
) -> None:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "embeddings")
    assert [info.name for info in Plugins(read_bootstrap()).infos if info.state == "disabled"] == [
        "models"
    ]
    monkeypatch.delenv("KB_DISABLED_PLUGINS")

    kb_home.mkdir(exist_ok=True)
    (kb_home / "plugins.json").write_text('{"disabled": ["embeddings"]}', encoding="utf-8")
    assert [info.name for info in Plugins(read_bootstrap()).infos if info.state == "disabled"] == [
        "models"
    ]

    assert kb_here("plugins", "enable", "embeddings")[0] == 0
    assert [info.name for info in Plugins(read_bootstrap()).infos if info.state == "disabled"] == []


@pytest.mark.above_the_store("settings")
def test_settings_of_a_plugin_that_is_switched_off_may_stay(kb_home, kb_here, monkeypatch) -> None:
    file = 'embedder = "none"\nknowledge_generator = "none"\n[embeddings]\nurl = "http://127.0.0.1:1/v1"\n'
    kb_home.mkdir(exist_ok=True)
    (kb_home / "kb.toml").write_text(file, encoding="utf-8")
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "models")
    monkeypatch.setenv("KB_EMBEDDINGS_MODEL", "tiny")

    code, printed, _ = kb_here("config", "--json")

    assert code == 0
    assert json.loads(printed)["unknown"] == []


@pytest.mark.parametrize(
    "environment", [{"KB_EMBEDDER": "none"}, {"KB_DISABLED_PLUGINS": "models"}]
)
def test_without_an_embedder_an_explicit_vector_search_is_a_400(
    kb_home, monkeypatch, environment
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with opened() as here:
        here.engine.add_note("notes about gardens")

        with pytest.raises(EngineError) as caught:
            here.engine.search("gardens", mode="vector")

    assert caught.value.http_status == 400
    assert caught.value.code == "embedder_unavailable"


def test_documents_added_without_an_embedder_are_found_lexically_later(
    kb_home, monkeypatch
) -> None:
    monkeypatch.setenv("KB_EMBEDDER", "none")
    with opened() as here:
        here.engine.add_note("notes about gardens")
    monkeypatch.delenv("KB_EMBEDDER")

    with opened() as here:
        here.engine.add_note("notes about harbours")
        assert {hit["title"] for hit in here.engine.search("gardens")["hits"]} >= {
            "notes about gardens"
        }
        assert here.engine.get("/doctor")["status"] == "warning"
