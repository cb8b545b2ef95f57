"""H8: plugins are found, isolated, reported by name, and switched off."""

from __future__ import annotations

import gc
import json
import logging
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kb_framework.app import open_kb
from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine, connect
from kb_framework.edges.http.app import create_app
from kb_framework.edges.mcp.tools import bind_tools
from kb_framework.errors import EngineError
from kb_framework.plugins import Plugins
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import start_server, stop_server, stored_tables

IMPORTS = """
from kb_framework import api, hookimpl
"""

REGISTRATION_HOOKS = [
    "kb_settings",
    "kb_migrations",
    "kb_services",
    "kb_routes",
    "kb_commands",
    "kb_tools",
    "kb_permissions",
    "kb_selection_filters",
    "kb_mutation_kinds",
    "kb_retrievers",
    "kb_rerankers",
    "kb_embedders",
    "kb_extractors",
    "kb_chunkers",
]

# A kind of its own: sets the type of documents.
STAMP = (
    IMPORTS
    + """
from typing import Annotated

from pydantic import Field

from kb_documents.api import touch
from kb_framework.api.models import Body


class Stamp(Body):
    label: Annotated[str, Field(description="The new type.")]

    def apply(self, tx, documents):
        touch(tx, documents, doc_type=self.label)


@hookimpl
def kb_mutation_kinds():
    return [api.MutationKind("stamp", f"{__name__}:Stamp", verb="stamp", help="Stamp documents.")]
"""
)


def hook(name: str, body: str, parameters: str = "") -> str:
    """The source of a plugin with one hook."""
    return f"{IMPORTS}\n\n@hookimpl\ndef {name}({parameters}):\n    {body}\n"


def infos() -> dict[str, Any]:
    return {info.name: info for info in Plugins(read_bootstrap()).infos}


def refused(call: Callable[[], Any]) -> EngineError:
    with pytest.raises(EngineError) as caught:
        call()
    return caught.value


def three_notes(engine: Engine) -> list[int]:
    return [engine.add_note(f"note {number}")["document"]["id"] for number in (1, 2, 3)]


def notes_from_before() -> list[int]:
    """Three notes, added before the test installs its plugin."""
    with connect() as engine:
        return three_notes(engine)


def everything_built_in_works(engine: Engine) -> None:
    """Reads, and what needs each of the built-in plugins."""
    assert engine.list_documents()["meta"]["total"] == 0
    assert engine.search("anything")["hits"] == []
    assert engine.bulk_preview("delete", doc_type="note")["matched"] == 0


@pytest.fixture
def engine(kb_home) -> Iterator[Callable[[], Engine]]:
    """Opens an engine in this process, after the plugins are installed."""
    opened: list[Engine] = []

    def open_engine() -> Engine:
        opened.append(connect())
        return opened[-1]

    yield open_engine
    for item in opened:
        item.close()


@pytest.fixture
def served(kb_home) -> Iterator[Callable[[], Engine]]:
    """Opens an engine with the routes of its HTTP server, after the plugins are installed."""
    opened: list[Engine] = []

    def open_served() -> Engine:
        kb = open_kb()
        opened.append(Engine(AsgiTransport(create_app(kb), kb.close), kb.plugins))
        return opened[-1]

    yield open_served
    for item in opened:
        item.close()


# Loading


@pytest.mark.parametrize(
    "source",
    [
        "raise RuntimeError('broken on purpose')",
        "import no_such_module_anywhere",
        "def broken(:",
        "raise SystemExit(1)",
        "from kb_framework.api import NoSuchNoun",
    ],
)
def test_a_plugin_that_raises_at_import_is_reported_and_the_rest_works(
    plugin, kb_here, engine, source
) -> None:
    plugin("broken", source)

    listed = kb_here("plugins", "--json")
    found = {item["name"]: item for item in json.loads(listed.stdout)}

    assert listed.returncode == 0
    assert found["broken"]["state"] == "failed"
    assert found["broken"]["reason"]
    assert "broken" in listed.stderr
    assert all(item["state"] == "active" for name, item in found.items() if name != "broken")
    opened = engine()
    health = opened.get("/health")
    assert health["status"] == "degraded"
    assert "broken" in health["plugins"]["failed"]
    everything_built_in_works(opened)


def test_a_broken_plugin_costs_a_process_one_line_on_stderr(plugin, kb_run) -> None:
    plugin("broken", "raise RuntimeError('broken on purpose')")

    answer = kb_run("list", "--json")

    assert answer.returncode == 0
    assert json.loads(answer.stdout)["meta"]["total"] == 0
    (line,) = answer.stderr.splitlines()
    assert "broken" in line
    assert "broken on purpose" in line


@pytest.mark.parametrize("name", REGISTRATION_HOOKS)
def test_a_plugin_that_raises_in_a_registration_hook_has_failed_alone(plugin, engine, name) -> None:
    plugin("raiser", hook(name, "raise RuntimeError('not today')"))

    found = infos()

    assert (found["raiser"].state, found["raiser"].reason) == ("failed", "RuntimeError: not today")
    assert [info.name for info in found.values() if info.state == "failed"] == ["raiser"]
    everything_built_in_works(engine())


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("kb_commands", "['list']"),
        ("kb_commands", "[api.Tool('kb_x', 'x:x', 'X', 'read')]"),
        ("kb_commands", "42"),
        ("kb_tools", "[api.Command('x', 'x:x', 'X', 'Search')]"),
        ("kb_routes", "[api.Command('x', 'x:x', 'X', 'Search')]"),
        ("kb_selection_filters", "[api.Tool('kb_x', 'x:x', 'X', 'read')]"),
        ("kb_mutation_kinds", "[api.Tool('kb_x', 'x:x', 'X', 'read')]"),
        ("kb_migrations", "[api.Tool('kb_x', 'x:x', 'X', 'read')]"),
        ("kb_settings", "[api.Tool('kb_x', 'x:x', 'X', 'read')]"),
    ],
)
def test_a_plugin_that_registers_the_wrong_thing_has_failed_alone(
    plugin, engine, kb_here, name, answer
) -> None:
    plugin("confused", hook(name, f"return {answer}"))

    found = infos()

    assert found["confused"].state == "failed"
    assert [info.name for info in found.values() if info.state == "failed"] == ["confused"]
    everything_built_in_works(engine())
    assert kb_here("--help").returncode == 0


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        (
            "kb_mutation_kinds",
            "[api.MutationKind('odd', 'no_such_module:Odd', verb='odd', help='Odd.')]",
        ),
        (
            "kb_mutation_kinds",
            "[api.MutationKind('odd', 'json:no_such_name', verb='odd', help='Odd.')]",
        ),
        ("kb_selection_filters", "[api.SelectionFilter('odd', 'no_such_module:odd', help='Odd.')]"),
        (
            "kb_selection_filters",
            "[api.SelectionFilter('odd', 'json:dumps', help='Takes no value.')]",
        ),
        (
            "kb_selection_filters",
            "[api.SelectionFilter('add', f'{__name__}:f', help='Clashes with a field.')]",
        ),
        (
            "kb_selection_filters",
            "[api.SelectionFilter('force', f'{__name__}:f', help='Clashes with a switch.')]",
        ),
        ("kb_routes", "[api.Routes('odd', 'no_such_module:handlers')]"),
        ("kb_routes", "[api.Routes('odd', 'json:dumps', build=True)]"),
    ],
)
def test_a_plugin_whose_contribution_cannot_be_used_has_failed_alone(
    plugin, served, name, answer
) -> None:
    plugin(
        "unusable",
        hook(name, f"return {answer}") + "\n\ndef f(value: int):\n    raise NotImplementedError\n",
    )

    opened = served()
    health = opened.get("/health")

    assert list(health["plugins"]["failed"]) == ["unusable"]
    everything_built_in_works(opened)


def test_a_filter_that_cannot_be_imported_leaves_the_bulk_commands_and_tools(
    plugin, kb_here
) -> None:
    plugin(
        "unusable",
        hook(
            "kb_selection_filters",
            "return [api.SelectionFilter('odd', 'no_such_module:odd', help='Odd.')]",
        ),
    )

    assert kb_here("bulk-remove", "--help").returncode == 0
    assert "kb_bulk_delete" in bind_tools(Plugins(read_bootstrap()), "admin")


def test_a_command_that_cannot_be_imported_is_reported_with_its_plugin(plugin, kb_here) -> None:
    plugin(
        "unusable",
        hook("kb_commands", "return [api.Command('odd', 'no_such_module:odd', 'Odd.', 'Search')]"),
    )

    answer = kb_here("odd")

    assert answer.returncode != 0
    assert "unusable" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert kb_here("list").returncode == 0
    assert kb_here("--help").returncode == 0


def test_a_tool_that_cannot_be_imported_costs_its_plugin_alone(plugin) -> None:
    plugin(
        "unusable",
        hook("kb_tools", "return [api.Tool('kb_odd', 'no_such_module:odd', 'Odd', 'read')]"),
    )
    plugins = Plugins(read_bootstrap())

    tools = bind_tools(plugins, "admin")

    assert {"kb_search", "kb_addnote", "kb_bulk_delete"} <= set(tools)
    assert "kb_odd" not in tools
    assert [info.name for info in plugins.failed] == ["unusable"]


def test_a_service_that_cannot_be_built_fails_its_own_route_alone(plugin, served) -> None:
    plugin(
        "unusable",
        IMPORTS
        + """
from litestar import get
from litestar.di import NamedDependency


class Weather:
    def __init__(self, no_such_part):
        raise NotImplementedError


@get("/weather", sync_to_thread=True)
def weather(weather_service: NamedDependency[Weather]) -> dict[str, str]:
    return {}


@hookimpl
def kb_services():
    return [api.Service("weather_service", f"{__name__}:Weather")]


@hookimpl
def kb_routes():
    return [api.Routes("weather", f"{__name__}:weather")]
""",
    )
    opened = served()

    error = refused(lambda: opened.get("/weather"))

    assert (error.http_status, error.code) == (503, "plugin_failed")
    assert "unusable" in error.message
    assert "unusable" in opened.get("/health")["plugins"]["errors"]
    everything_built_in_works(opened)


def test_a_misspelt_hook_is_a_failure_that_names_it(plugin) -> None:
    plugin("careless", hook("kb_guard_mutations", "return []"))

    info = infos()["careless"]

    assert info.state == "failed"
    assert "kb_guard_mutations" in info.reason


def test_a_hook_with_an_unknown_parameter_is_a_failure(plugin) -> None:
    plugin("careless", hook("kb_guard_mutation", "return []", "plan, surprise"))

    info = infos()["careless"]

    assert info.state == "failed"
    assert "surprise" in info.reason


# Clashes


def test_two_plugins_with_one_name_are_both_named_and_one_works(plugin) -> None:
    plugin(
        "twin",
        hook("kb_permissions", "return [api.Permission('twin', 'X')]"),
        distribution="a-twin",
    )
    plugin(
        "twin",
        hook("kb_permissions", "return [api.Permission('other', 'X')]"),
        distribution="b-twin",
    )

    plugins = Plugins(read_bootstrap())
    first, second = [info for info in plugins.infos if info.name == "twin"]

    assert (first.distribution, first.state) == ("a-twin", "active")
    assert (second.distribution, second.state) == ("b-twin", "failed")
    assert "a-twin" in second.reason
    assert "b-twin" in second.reason
    assert [item.name for item in plugins.permissions if item.name in {"twin", "other"}] == ["twin"]


def test_a_plugin_with_a_built_in_name_fails_and_the_built_in_one_works(plugin, engine) -> None:
    plugin(
        "documents",
        hook("kb_permissions", "return [api.Permission('impostor', 'X')]"),
        distribution="a-impostor",
    )
    opened = engine()

    error = refused(lambda: opened.bulk_delete(doc_type="note"))

    assert "kb-framework" in error.message
    assert "a-impostor" in error.message
    everything_built_in_works(opened)


def test_the_advice_on_a_name_clash_disables_the_one_that_failed(plugin, engine, kb_here) -> None:
    plugin(
        "documents",
        hook("kb_permissions", "return [api.Permission('impostor', 'X')]"),
        distribution="a-impostor",
    )

    error = refused(lambda: engine().bulk_delete(doc_type="note"))
    advised = error.hint.rsplit("kb plugins disable ", 1)[1]
    kb_here("plugins", "disable", advised)

    assert advised == "a-impostor:documents"
    states = {
        (info.distribution, info.name): info.state for info in Plugins(read_bootstrap()).infos
    }
    assert states["a-impostor", "documents"] == "disabled"
    assert states["kb-framework", "documents"] == "active"
    assert kb_here("note", "works again").returncode == 0


@pytest.mark.parametrize(
    ("clashing", "built_in", "contribution"),
    [
        (
            "command",
            "documents",
            hook("kb_commands", "return [api.Command('list', 'x:x', 'X', 'Search')]"),
        ),
        (
            "command",
            "host",
            hook("kb_commands", "return [api.Command('serve', 'x:x', 'X', 'Search')]"),
        ),
        ("tool", "search", hook("kb_tools", "return [api.Tool('kb_search', 'x:x', 'X', 'read')]")),
        (
            "selection filter",
            "documents",
            hook("kb_selection_filters", "return [api.SelectionFilter('tags', 'x:x', help='X')]"),
        ),
        ("service", "bulk", hook("kb_services", "return [api.Service('bulk', 'x:x')]")),
        (
            "operation",
            "documents",
            hook(
                "kb_operations",
                "return [api.Operation('add_note', 'x.y', 'documents.write', api.Http('GET', '/x'))]",
            ),
        ),
        (
            "mutation kind",
            "documents",
            hook("kb_mutation_kinds", "return [api.MutationKind('delete', 'x:x', 'x', 'X')]"),
        ),
        ("retriever", "search", hook("kb_retrievers", "return [api.Retriever('lexical', 'x:x')]")),
        ("reranker", "models", hook("kb_rerankers", "return [api.Reranker('late', 'x:x')]")),
        ("embedder", "models", hook("kb_embedders", "return [api.Embedder('wordllama', 'x:x')]")),
        ("chunker", "documents", hook("kb_chunkers", "return [api.Chunker('structure', 'x:x')]")),
    ],
)
def test_a_clash_names_both_plugins_and_the_built_in_one_keeps_working(
    plugin, engine, clashing, built_in, contribution
) -> None:
    plugin("aardvark", contribution)

    found = infos()

    assert found["aardvark"].state == "failed"
    for word in (clashing, repr(built_in), "'aardvark'"):
        assert word in found["aardvark"].reason
    assert [info.name for info in found.values() if info.state == "failed"] == ["aardvark"]
    everything_built_in_works(engine())


@pytest.mark.parametrize(
    ("keyword", "built_in"),
    [("command='list'", "list"), ("tool='kb_search'", "kb_search"), ("command='serve'", "serve")],
)
def test_a_kind_whose_surface_clashes_with_a_built_in_one_costs_its_own_plugin(
    plugin, engine, keyword, built_in
) -> None:
    plugin(
        "aardvark", STAMP.replace('help="Stamp documents."', f'help="Stamp documents.", {keyword}')
    )

    found = infos()

    assert [info.name for info in found.values() if info.state == "failed"] == ["aardvark"]
    assert built_in in found["aardvark"].reason
    everything_built_in_works(engine())


def test_a_route_that_clashes_names_both_plugins_and_the_built_in_one_keeps_working(
    plugin, served
) -> None:
    plugin(
        "aardvark",
        IMPORTS
        + """
from litestar import get


@get("/documents", sync_to_thread=False)
def documents() -> dict[str, str]:
    return {"mine": "now"}


@hookimpl
def kb_routes():
    return [api.Routes("aardvark", f"{__name__}:documents")]
""",
    )
    opened = served()

    failed = opened.get("/health")["plugins"]["failed"]

    assert list(failed) == ["aardvark"]
    for word in ("/documents", "'documents'", "'aardvark'"):
        assert word in failed["aardvark"]
    everything_built_in_works(opened)


def test_a_route_that_differs_only_in_its_parameters_name_is_a_clash(plugin, served) -> None:
    plugin(
        "aardvark",
        IMPORTS
        + """
from litestar import get

from kb_framework.api.web import DocumentId


@get("/documents/{number:int}", sync_to_thread=False)
def document(number: DocumentId) -> dict[str, str]:
    return {"mine": "now"}


@hookimpl
def kb_routes():
    return [api.Routes("aardvark", f"{__name__}:document")]
""",
    )
    opened = served()

    assert list(opened.get("/health")["plugins"]["failed"]) == ["aardvark"]
    everything_built_in_works(opened)


def test_what_fails_when_the_engine_opens_is_reported_by_kb_plugins_too(plugin, kb_here) -> None:
    plugin("unusable", hook("kb_routes", "return [api.Routes('odd', 'no_such_module:handlers')]"))
    kb_here("list")

    found = {item["name"]: item for item in json.loads(kb_here("plugins", "--json").stdout)}

    assert found["unusable"]["state"] == "failed"
    assert "no_such_module" in found["unusable"]["reason"]


# In flight


def test_a_guard_that_raises_refuses_and_nothing_changes(plugin, engine) -> None:
    ids = notes_from_before()
    plugin("nervous", hook("kb_guard_mutation", "raise RuntimeError('cannot tell')", "plan"))
    opened = engine()
    jobs = opened.list_jobs()["meta"]["total"]

    calls: list[Callable[[], Any]] = [
        lambda: opened.delete_document(ids[0]),
        lambda: opened.set_document_tags(ids[0], ["x"]),
        lambda: opened.update_document(ids[0], title="x"),
        lambda: opened.bulk_delete(document_ids=ids, force=True),
    ]
    for call in calls:
        error = refused(call)
        assert (error.http_status, error.code) == (409, "mutation_refused")
        assert "nervous" in error.message

    assert opened.list_documents()["meta"]["total"] == 3
    assert opened.list_documents(tags="x")["meta"]["total"] == 0
    assert opened.list_jobs()["meta"]["total"] == jobs
    assert "nervous" in opened.get("/health")["plugins"]["errors"]


def test_a_guard_that_answers_nonsense_refuses(plugin, engine) -> None:
    ids = notes_from_before()
    plugin("nonsense", hook("kb_guard_mutation", "return ['no']", "plan"))
    opened = engine()

    error = refused(lambda: opened.delete_document(ids[0]))

    assert (error.http_status, error.code) == (409, "mutation_refused")
    assert "nonsense" in error.message
    assert opened.list_documents()["meta"]["total"] == 3


def test_a_guard_that_is_a_generator_is_asked_to_its_end(plugin, engine) -> None:
    ids = notes_from_before()
    plugin("lazy", hook("kb_guard_mutation", "yield api.Objection('not on my watch')", "plan"))
    opened = engine()

    error = refused(lambda: opened.delete_document(ids[0]))

    assert (error.http_status, error.message) == (409, "not on my watch")


def test_every_guard_is_asked_whatever_the_others_say(plugin, engine) -> None:
    ids = notes_from_before()
    objecting = """
import sqlalchemy as sa


@hookimpl
def kb_guard_mutation(plan, tx):
    ids = sorted(tx.connection.scalars(plan.documents))
    return [api.Objection("%s objects", ids[%d])]
"""
    plugin("one", IMPORTS + objecting % ("one", 0))
    plugin("two", IMPORTS + objecting % ("two", 1))
    opened = engine()

    result = opened.bulk_delete(document_ids=ids, force=True)

    assert result["errors"] == [
        {"document_id": ids[0], "error": "one objects"},
        {"document_id": ids[1], "error": "two objects"},
    ]
    assert (result["matched"], result["succeeded"], result["failed"]) == (3, 1, 2)


def test_a_guard_cannot_be_outvoted_by_a_wrapper(plugin, engine) -> None:
    (first, *_) = notes_from_before()
    plugin("guard", hook("kb_guard_mutation", "return [api.Objection('never')]", "plan"))
    plugin(
        "yes",
        IMPORTS
        + "\n\n@hookimpl(wrapper=True)\ndef kb_guard_mutation(plan):\n    yield\n    return []\n",
    )
    opened = engine()

    error = refused(lambda: opened.delete_document(first))

    assert error.http_status in (409, 503)
    assert opened.list_documents()["meta"]["total"] == 3


def test_a_selection_narrowing_that_raises_stops_the_operation(plugin, engine) -> None:
    plugin("narrow", hook("kb_narrow_selection", "assert purpose == 'read'", "purpose"))
    opened = engine()
    ids = three_notes(opened)

    calls: list[Callable[[], Any]] = [
        lambda: opened.delete_document(ids[0]),
        lambda: opened.bulk_delete(document_ids=ids, force=True),
        lambda: opened.bulk_preview("delete", document_ids=ids),
    ]
    for call in calls:
        error = refused(call)
        assert (error.http_status, error.code) == (503, "plugin_failed")
        assert "narrow" in error.message

    assert opened.list_documents()["meta"]["total"] == 3
    assert "narrow" in opened.get("/health")["plugins"]["errors"]


def test_a_retrieval_narrowing_that_raises_stops_the_search(plugin, engine) -> None:
    plugin("narrow", hook("kb_narrow_retrieval", "raise RuntimeError('no')", "query"))
    opened = engine()
    three_notes(opened)

    error = refused(lambda: opened.search("note"))

    assert (error.http_status, error.code) == (503, "plugin_failed")
    assert "narrow" in error.message
    assert opened.list_documents()["meta"]["total"] == 3


@pytest.mark.both_stores
def test_an_observer_in_the_transaction_that_raises_rolls_everything_back(plugin, engine) -> None:
    plugin(
        "observer",
        hook(
            "kb_documents_changed", "assert changes.action == 'added', 'only additions'", "changes"
        ),
    )
    opened = engine()
    ids = three_notes(opened)

    calls: list[Callable[[], Any]] = [
        lambda: opened.delete_document(ids[0]),
        lambda: opened.bulk_tags(document_ids=ids, add=["x"], force=True),
    ]
    for call in calls:
        error = refused(call)
        assert (error.http_status, error.code) == (503, "plugin_failed")
        assert "observer" in error.message

    assert opened.list_documents()["meta"]["total"] == 3
    assert opened.list_documents(tags="x")["meta"]["total"] == 0
    assert opened.get_file(ids[0]) == b"note 1"


@pytest.mark.both_stores
def test_an_observer_that_raises_on_an_addition_leaves_no_document(plugin, engine) -> None:
    plugin("observer", hook("kb_documents_changed", "raise RuntimeError('no')", "changes"))
    opened = engine()

    error = refused(lambda: opened.add_note("text"))

    assert (error.http_status, error.code) == (503, "plugin_failed")
    assert opened.list_documents()["meta"]["total"] == 0
    assert opened.search("text")["hits"] == []


def test_an_observer_after_the_commit_that_raises_is_logged_and_reported_and_changes_nothing(
    plugin, engine, caplog
) -> None:
    plugin("late", hook("kb_mutation_applied", "raise RuntimeError('too late')", "result"))
    opened = engine()
    ids = three_notes(opened)

    with caplog.at_level(logging.ERROR, "kb"):
        result = opened.bulk_delete(document_ids=ids[:2])

    assert (result["status"], result["succeeded"]) == ("done", 2)
    assert opened.list_documents()["meta"]["total"] == 1
    assert any(
        "late" in record.getMessage() and "too late" in record.getMessage()
        for record in caplog.records
    )
    health = opened.get("/health")
    assert health["status"] == "degraded"
    assert "too late" in health["plugins"]["errors"]["late"][0]
    checks = opened.get("/doctor")["checks"]
    assert any(check["state"] == "warning" and "late" in check["message"] for check in checks)


def test_one_observer_that_raises_does_not_silence_the_next(plugin, engine, tmp_path) -> None:
    plugin("a_first", hook("kb_mutation_applied", "raise RuntimeError('no')", "result"))
    seen = tmp_path / "seen"
    plugin("b_second", hook("kb_mutation_applied", f"open({str(seen)!r}, 'a').close()", "result"))
    opened = engine()

    opened.delete_document(three_notes(opened)[0])

    assert seen.exists()


@pytest.mark.both_stores
def test_an_application_that_raises_rolls_its_documents_back(plugin, engine) -> None:
    plugin("breaker", hook("kb_apply_mutation", "raise RuntimeError('no')", "plan"))
    opened = engine()
    ids = three_notes(opened)

    result = opened.bulk_delete(document_ids=ids[:2])

    assert (result["status"], result["succeeded"], result["failed"]) == ("partial_failure", 0, 2)
    assert opened.list_documents()["meta"]["total"] == 3


def test_a_fusion_that_raises_is_reported_by_name_and_the_next_one_is_asked(plugin, engine) -> None:
    plugin("fuser", hook("kb_fuse_hits", "raise RuntimeError('no')", "queries, lists"))
    opened = engine()
    three_notes(opened)

    found = opened.search("note")

    assert len(found["hits"]) == 3
    assert "fuser" in found["hint"]
    assert "fuser" in opened.get("/health")["plugins"]["errors"]


def test_what_hooks_raised_in_a_running_engine_is_shown_by_kb_plugins(plugin, kb_here) -> None:
    plugin("late", hook("kb_mutation_applied", "raise RuntimeError('too late')", "result"))
    server = start_server()
    try:
        server_engine = Engine(server.engine._transport, Plugins(read_bootstrap()))
        server_engine.delete_document(server_engine.add_note("text")["document"]["id"])

        found = {item["name"]: item for item in json.loads(kb_here("plugins", "--json").stdout)}
    finally:
        stop_server(server)

    assert "too late" in found["late"]["errors"][0]


# Mutations while a plugin has failed


def test_mutations_refuse_while_a_plugin_failed_and_reads_go_on(plugin, kb_home) -> None:
    with connect() as well:
        ids = three_notes(well)
    plugin("hold", "raise RuntimeError('broken on purpose')")
    with connect() as broken:
        calls: list[Callable[[], Any]] = [
            lambda: broken.delete_document(ids[0]),
            lambda: broken.set_document_tags(ids[0], ["x"]),
            lambda: broken.update_document(ids[0], title="x"),
            lambda: broken.bulk_delete(document_ids=ids),
            lambda: broken.bulk_tags(document_ids=ids, add=["x"]),
            lambda: broken.bulk_set_tags(document_ids=ids, new_tags=[]),
            lambda: broken.rename_tag("a", "b"),
        ]
        for call in calls:
            error = refused(call)
            assert (error.http_status, error.code) == (503, "plugin_failed")
            assert "hold" in error.message
            assert error.body["plugins"] == ["hold"]
            assert "kb plugins disable hold" in error.hint
        assert broken.list_documents()["meta"]["total"] == 3
        assert broken.search("note")["hits"]
        assert broken.get_document(ids[0])["title"] == "note 1"
        assert broken.bulk_preview("delete", document_ids=ids)["matched"] == 3


def test_mutations_work_again_once_the_failed_plugin_is_disabled(plugin, kb_run) -> None:
    assert kb_run("note", "text").returncode == 0
    plugin("hold", "raise RuntimeError('broken on purpose')")
    assert "hold" in kb_run("bulk-tag", "--ids", "1", "--add", "x", "--yes", "--force").stderr

    disabled = kb_run("plugins", "disable", "hold")
    tagged = kb_run("bulk-tag", "--ids", "1", "--add", "x", "--yes", "--force")

    assert disabled.returncode == 0
    assert (tagged.returncode, tagged.stderr) == (0, "")


def test_a_plugin_is_disabled_without_being_imported_from_then_on(
    plugin, kb_here, tmp_path
) -> None:
    trace = tmp_path / "imported"
    plugin("costly", f"open({str(trace)!r}, 'a').close()")
    kb_here("plugins", "disable", "costly")
    trace.unlink(missing_ok=True)

    kb_here("list")

    assert not trace.exists()
    assert infos()["costly"].state == "disabled"


def test_disabling_does_not_import_the_plugin(plugin, kb_here, tmp_path) -> None:
    trace = tmp_path / "imported"
    plugin("costly", f"open({str(trace)!r}, 'a').close()")

    answer = kb_here("plugins", "disable", "costly")

    assert answer.returncode == 0
    assert not trace.exists()


# kb plugins


def test_plugins_lists_every_plugin_with_its_fields(plugin, kb_here) -> None:
    plugin("stamper", STAMP, distribution="kb-stamper")

    answer = kb_here("plugins", "--json")
    found = {item["name"]: item for item in json.loads(answer.stdout)}

    assert {"bulk", "documents", "models", "quickstart", "search", "stamper"} <= set(found)
    assert found["stamper"].pop("import_ms") >= 0
    assert found["stamper"] == {
        "name": "stamper",
        "version": "1.0",
        "distribution": "kb-stamper",
        "state": "active",
        "reason": None,
        "hooks": ["kb_mutation_kinds"],
        "contributes": {
            "mutation_kinds": ["stamp"],
            "commands": ["bulk-stamp"],
            "tools": ["kb_bulk_stamp"],
            "operations": ["bulk_stamp"],
        },
        "errors": [],
        "engine": None,
        "shadowed": [],
    }
    assert found["bulk"]["distribution"] == "kb-framework"


def test_plugins_is_a_table_for_people(plugin, kb_here) -> None:
    plugin("broken", "raise RuntimeError('broken on purpose')")
    plugin("idle", hook("kb_permissions", "return []"))

    lines = [line.split("\t") for line in kb_here("plugins").stdout.splitlines()]
    rows = {line[0]: line for line in lines[1:]}

    assert lines[0][:4] == ["name", "version", "distribution", "state"]
    assert rows["broken"][3] == "failed"
    assert "broken on purpose" in rows["broken"][4]
    assert rows["idle"][3] == "active"


def test_a_disabled_plugin_can_be_enabled_again(plugin, kb_here) -> None:
    plugin("stamper", STAMP)

    kb_here("plugins", "disable", "stamper")
    assert infos()["stamper"].state == "disabled"
    assert kb_here("bulk-stamp", "--help").returncode == 2

    answer = kb_here("plugins", "enable", "stamper", "--json")
    assert json.loads(answer.stdout) == {"name": "stamper", "state": "enabled"}
    assert infos()["stamper"].state == "active"
    assert kb_here("bulk-stamp", "--help").returncode == 0


@pytest.mark.parametrize("verb", ["disable", "enable"])
def test_a_plugin_that_is_not_there_cannot_be_switched(kb_here, verb) -> None:
    answer = kb_here("plugins", verb, "nonesuch")

    assert answer.returncode == 2
    assert "nonesuch" in answer.stderr


def test_plugins_are_disabled_by_the_environment(plugin, kb_here, monkeypatch) -> None:
    plugin("stamper", STAMP)
    plugin("broken", "raise RuntimeError('broken on purpose')")
    monkeypatch.setenv("KB_DISABLED_PLUGINS", " stamper, broken ,")

    found = {
        item["name"]: item["state"] for item in json.loads(kb_here("plugins", "--json").stdout)
    }

    assert (found["stamper"], found["broken"]) == ("disabled", "disabled")


def test_enabling_what_the_environment_disables_says_so(plugin, kb_here, monkeypatch) -> None:
    plugin("stamper", STAMP)
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "stamper")

    answer = kb_here("plugins", "enable", "stamper")

    assert "KB_DISABLED_PLUGINS" in answer.stderr


def test_a_damaged_list_of_disabled_plugins_stops_with_its_path(kb_home, kb_here) -> None:
    kb_home.mkdir(exist_ok=True)
    (kb_home / "plugins.json").write_text("{not json", encoding="utf-8")

    answer = kb_here("list")

    assert answer.returncode == 2
    assert "plugins.json" in answer.stderr


@pytest.mark.parametrize(
    ("required", "why"),
    [("nonesuch", "not installed"), ("broken", "broken on purpose"), ("stamper", "disabled")],
)
def test_nothing_starts_without_a_required_plugin(
    plugin, kb_here, monkeypatch, required, why
) -> None:
    plugin("broken", "raise RuntimeError('broken on purpose')")
    plugin("stamper", STAMP)
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "stamper")
    monkeypatch.setenv("KB_REQUIRED_PLUGINS", f"documents,{required}")

    answer = kb_here("list")

    assert (answer.returncode, answer.stdout) == (2, "")
    for word in ("KB_REQUIRED_PLUGINS", required, why):
        assert word in answer.stderr


@pytest.mark.parametrize(
    "contribution",
    [
        "kb_migrations():\n    return [api.Migration(1, 'first', 'no_such_module:first')]",
        "kb_routes():\n    return [api.Routes('odd', 'no_such_module:handlers')]",
        "kb_settings():\n    return [api.SettingsSection('odd', 'no_such_module:Odd')]",
    ],
)
def test_nothing_starts_when_a_required_plugin_fails_while_the_engine_opens(
    plugin, kb_home, kb_here, monkeypatch, contribution
) -> None:
    plugin("escrow", f"{IMPORTS}\n\n@hookimpl\ndef {contribution}\n")
    monkeypatch.setenv("KB_REQUIRED_PLUGINS", "escrow")

    answer = kb_here("list")

    assert (answer.returncode, answer.stdout) == (2, "")
    assert "KB_REQUIRED_PLUGINS" in answer.stderr
    # What was opened is closed: SQLite's last one takes its log away, and psycopg warns of a connection that was forgotten.
    gc.collect()
    assert not (kb_home / "kb.sqlite-wal").exists()


def test_required_plugins_that_are_there_change_nothing(kb_here, monkeypatch) -> None:
    monkeypatch.setenv("KB_REQUIRED_PLUGINS", "documents, bulk")

    assert kb_here("list").returncode == 0


# Tracing


def test_hook_calls_are_logged_to_stderr_when_tracing(plugin, kb_run) -> None:
    plugin("guard", hook("kb_guard_mutation", "return []", "plan"))
    kb_run("note", "text")

    answer = kb_run(
        "bulk-tag", "--ids", "1", "--add", "x", "--yes", "--force", "--json", KB_TRACE_HOOKS="1"
    )

    assert answer.returncode == 0
    assert json.loads(answer.stdout)["succeeded"] == 1
    for call in (
        "kb_guard_mutation of guard",
        "kb_commands of documents",
        "kb_apply_mutation",
        "kb_mutation_applied",
    ):
        assert call in answer.stderr


def test_hook_calls_are_not_logged_otherwise(kb_here, monkeypatch) -> None:
    assert kb_here("list").stderr == ""

    monkeypatch.setenv("KB_TRACE_HOOKS", "0")
    assert kb_here("list").stderr == ""


@pytest.mark.parametrize("where", ["toml", "dotenv"])
def test_tracing_can_be_switched_on_in_a_file(kb_here, kb_home, where) -> None:
    kb_home.mkdir(exist_ok=True)
    if where == "toml":
        (kb_home / "kb.toml").write_text("trace_hooks = true", encoding="utf-8")
    else:
        (kb_home / ".env").write_text("KB_TRACE_HOOKS=1\n", encoding="utf-8")

    assert "hook kb_commands of documents" in kb_here("list").stderr


# A third party's kind


def test_a_third_partys_kind_gets_a_route_a_preview_and_a_job(plugin, engine) -> None:
    plugin("stamper", STAMP)
    opened = engine()
    ids = three_notes(opened)

    preview = opened.post(
        "/bulk/preview", {"operation": "stamp", "document_ids": ids[:2], "label": "memo"}
    )
    result = opened.post("/bulk/stamp", {"document_ids": ids[:2], "label": "memo"})

    assert (preview["operation"], preview["matched"], preview["total"], preview["exceeds"]) == (
        "stamp",
        2,
        3,
        False,
    )
    assert (result["status"], result["succeeded"]) == ("done", 2)
    assert opened.list_documents(doc_type="memo")["meta"]["total"] == 2
    job = opened.get_job(result["job_id"])
    assert job["job_type"] == "bulk_stamp"
    assert json.loads(job["filename"]) == {"document_ids": ids[:2]}
    assert opened.list_jobs(job_type="bulk_stamp")["meta"]["total"] == 1


def test_a_third_partys_kind_is_checked_guarded_and_limited_like_any_other(plugin, engine) -> None:
    ids = notes_from_before()
    plugin("stamper", STAMP)
    plugin("guard", hook("kb_guard_mutation", "return [api.Objection('not the first', 1)]", "plan"))
    opened = engine()

    assert refused(lambda: opened.post("/bulk/stamp", {"document_ids": ids})).http_status == 400
    assert refused(lambda: opened.post("/bulk/stamp", {"label": "memo"})).http_status == 400
    assert (
        refused(
            lambda: opened.post("/bulk/stamp", {"document_ids": ids, "label": "memo", "x": 1})
        ).http_status
        == 400
    )
    over = refused(lambda: opened.post("/bulk/stamp", {"document_ids": ids, "label": "memo"}))
    assert over.code == "safety_threshold_exceeded"
    forced = opened.post("/bulk/stamp", {"document_ids": ids, "label": "memo", "force": True})
    assert forced["errors"] == [{"document_id": 1, "error": "not the first"}]


def test_a_third_partys_kind_gets_a_command(plugin, kb_here) -> None:
    plugin("stamper", STAMP)
    kb_here("note", "text")

    helped = kb_here("--help")
    refusal = kb_here("bulk-stamp", "--ids", "1", "--label", "memo", "--yes")
    done = kb_here("bulk-stamp", "--ids", "1", "--label", "memo", "--yes", "--force", "--json")

    assert "bulk-stamp" in helped.stdout
    assert "Stamp documents." in helped.stdout
    assert refusal.returncode == 1
    assert (done.returncode, json.loads(done.stdout)["succeeded"]) == (0, 1)


def test_a_third_partys_kind_gets_a_tool_and_a_client_method(plugin, engine) -> None:
    plugin("stamper", STAMP)
    opened = engine()
    ids = three_notes(opened)
    tool = bind_tools(Plugins(read_bootstrap()), "curate")["kb_bulk_stamp"]

    nobody = types.SimpleNamespace(possible=False, answer=None)
    by_tool = tool.function(
        opened, nobody, **tool.arguments({"document_ids": ids[:1], "label": "memo"})
    )
    by_method = opened.bulk_stamp(document_ids=ids[1:2], label="memo")

    assert {"label", "document_ids", "tags", "force"} <= set(
        tool.description.input_schema["properties"]
    )
    assert by_tool["succeeded"] == by_method["succeeded"] == 1
    assert opened.list_documents(doc_type="memo")["meta"]["total"] == 2


def test_a_third_partys_kind_is_in_the_schema_and_in_openapi(plugin) -> None:
    plugin("stamper", STAMP)
    kb = open_kb()
    transport = AsgiTransport(create_app(kb), kb.close)
    try:
        openapi = json.loads(transport.send("GET", "/schema/openapi.json", {}, b"").body)
        schema = Engine(transport).get("/schema")
    finally:
        transport.close()

    assert "/api/v1/bulk/stamp" in openapi["paths"]
    assert schema["mutation_kinds"]["stamp"] == "Stamp documents."


# Migrations


MIGRATION = """

def create(tx):
    import sqlalchemy as sa

    tx.execute(sa.text("CREATE TABLE readings (id INTEGER PRIMARY KEY)"))


def explode(tx):
    import sqlalchemy as sa

    tx.execute(sa.text("CREATE TABLE half_done (id INTEGER PRIMARY KEY)"))
    raise RuntimeError("no such luck")


@hookimpl
def kb_migrations():
    return [api.Migration(1, "create", f"{__name__}:create"), api.Migration(2, "explode", f"{__name__}:explode")]
"""


@pytest.mark.both_stores
def test_a_migration_that_raises_costs_that_plugin_alone(plugin, engine, kb_home) -> None:
    plugin("migrant", IMPORTS + MIGRATION)
    opened = engine()

    failed = opened.get("/health")["plugins"]["failed"]

    assert list(failed) == ["migrant"]
    assert "no such luck" in failed["migrant"]
    assert {"readings", "half_done"}.isdisjoint(stored_tables())
    assert {"documents", "uploads"} <= stored_tables()
    everything_built_in_works(opened)
    assert refused(lambda: opened.add_note("text")).code == "plugin_failed"


@pytest.mark.both_stores
def test_a_migration_is_tried_again_and_then_not_once_more(plugin, kb_home) -> None:
    plugin("migrant", IMPORTS + MIGRATION, distribution="kb-migrant")
    connect().close()
    plugin(
        "migrant",
        IMPORTS + MIGRATION.replace('raise RuntimeError("no such luck")', "return"),
        distribution="kb-migrant",
    )

    for _ in range(2):
        with connect() as opened:
            assert opened.get("/health")["plugins"]["failed"] == {}

    assert {"readings", "half_done"} <= stored_tables()


def test_a_migration_that_raises_leaves_the_bulk_routes_of_a_server(plugin, kb_home) -> None:
    plugin("migrant", STAMP + MIGRATION)
    server = start_server()
    try:
        preview = server.engine.post("/bulk/preview", {"operation": "delete", "doc_type": "note"})
        failed = server.engine.get("/health")["plugins"]["failed"]
    finally:
        stop_server(server)

    assert preview["matched"] == 0
    assert list(failed) == ["migrant"]
