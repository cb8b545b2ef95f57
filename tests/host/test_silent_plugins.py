"""A guard is never silently absent: what pluggy would pass over fails the plugin, on every surface alike."""

from __future__ import annotations

import json

import pytest

from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import connect
from kb_framework.edges.mcp.tools import bind_tools
from kb_framework.errors import EngineError
from kb_framework.plugins import Plugins

START = "import pluggy\nfrom kb_framework import api, hookimpl\n\n"
GUARD = "def kb_guard_mutation(plan):\n    return [api.Objection('no')]\n"
OTHER = "\n@hookimpl\ndef kb_permissions():\n    return []\n"
FOREIGN = "@pluggy.HookimplMarker('kb')\n" + GUARD
IN_CLASS = "class Hooks:\n    @hookimpl\n    def kb_guard_mutation(self, plan):\n        return [api.Objection('no')]\n"
LOST_MARK = "def plain(f):\n    return lambda plan: f(plan)\n\n@plain\n@hookimpl\n" + GUARD
SILENT = {
    "unmarked": (GUARD + OTHER, "kb_guard_mutation is no hook: it is not marked; use @hookimpl"),
    "foreign": (
        FOREIGN + OTHER,
        "kb_guard_mutation is no hook: it is marked by HookimplMarker('kb')",
    ),
    "in a class": (IN_CLASS + OTHER, "kb_guard_mutation is inside the class Hooks"),
    "mark lost": (LOST_MARK + OTHER, "kb_guard_mutation is no hook: it is not marked"),
    "partial": (
        "import functools\nkb_guard_mutation = functools.partial(print)\n" + OTHER,
        "kb_guard_mutation is no hook",
    ),
    "no hooks": ("x = 1\n", "it has no hooks"),
    "misspelt": (
        "@hookimpl\ndef kb_guard_mutations(plan):\n    return []\n",
        "did you mean 'kb_guard_mutation'?",
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_a_hook_that_would_never_be_called_fails_its_plugin_and_changes_are_refused(
    plugin, kb_home, name
) -> None:
    source, reason = SILENT[name]
    plugin("silent", START + source)

    with connect() as engine:
        failed = engine.get("/health")["plugins"]["failed"]
        with pytest.raises(EngineError) as refused:
            engine.bulk_delete(doc_type="note")

    assert reason in failed["silent"]
    assert refused.value.http_status == 503
    assert "silent" in refused.value.message


def test_classes_and_names_of_others_are_no_hooks(plugin) -> None:
    source = "from kb_testing.fixtures import kb_plugin\nclass kb_weather:\n    def show(self): ...\nkb_tags = ['a']\n"
    plugin("fine", START + source + OTHER)

    assert [info.reason for info in Plugins(read_bootstrap()).failed] == []


WRONG_ANSWERS = {
    "''": "expected a list of Objection, not str",
    "'never on Mondays'": "expected a list of Objection, not str",
    "b''": "expected a list of Objection, not bytes",
    "{}": "expected a list of Objection, not dict",
    "0": "expected a list of Objection, not int",
    "True": "expected a list of Objection, not bool",
    "['no']": "expected Objection, not str",
    "[None]": "expected Objection, not NoneType",
    "[('no', 1)]": "expected Objection, not tuple",
    "[api.Objection('no', '1')]": "Objection(document_id=…) must be of type int, not str",
    "[api.Objection('no', True)]": "Objection(document_id=…) must be of type int, not bool",
    "[api.Objection(None)]": "Objection(reason=…) must be of type str, not NoneType",
    "[api.Objection('no', chunk_id=1)]": "Objection(chunk_id=…) must be of type str, not int",
}


@pytest.mark.parametrize("answer", WRONG_ANSWERS)
def test_a_guard_that_answers_with_the_wrong_type_refuses_and_says_which(
    plugin, kb_home, answer
) -> None:
    plugin(
        "odd",
        START
        + f"@hookimpl\ndef kb_guard_mutation(plan):\n    return {answer} if plan.kind == 'delete' else None\n",
    )
    with connect() as engine:
        number = engine.add_note("text")["document"]["id"]
        with pytest.raises(EngineError) as refused:
            engine.delete_document(number)
        total = engine.list_documents()["meta"]["total"]

    assert total == 1
    assert refused.value.http_status == 409
    assert "plugin 'odd'" in refused.value.message
    assert WRONG_ANSWERS[answer] in refused.value.message


def test_a_guard_may_answer_with_one_objection_a_list_a_generator_or_nothing(
    plugin, kb_home
) -> None:
    answers = [
        "api.Objection('no')",
        "[api.Objection('no')]",
        "(api.Objection('no') for _ in 'x')",
        "{api.Objection('no')}",
    ]
    for number, answer in enumerate(answers):
        guard = (
            "@hookimpl\ndef kb_guard_mutation(plan):\n"
            f"    return {answer} if 'tag{number}' in str(plan.operation) else None\n"
        )
        plugin(f"guard{number}", START + guard)
    with connect() as engine:
        document = engine.add_note("text")["document"]["id"]
        for number in range(len(answers)):
            with pytest.raises(EngineError) as refused:
                engine.set_document_tags(document, [f"tag{number}"])
            assert (refused.value.http_status, refused.value.message) == (409, "no")
        engine.set_document_tags(document, ["fine"])


# Registration: one value instead of a list


@pytest.mark.parametrize(
    ("hook", "answer", "reason"),
    [
        (
            "kb_commands",
            "api.Command('x', 'x:x', 'X', 'Search')",
            "kb_commands must return a list of Command, not Command",
        ),
        (
            "kb_extractors",
            "api.Extractor('x', 'x:x', 'x', ())",
            "kb_extractors must return a list of Extractor, not Extractor",
        ),
        ("kb_retrievers", "'x'", "kb_retrievers must return a list of Retriever, not str"),
        ("kb_services", "42", "kb_services must return a list of Service, not int"),
        (
            "kb_selection_filters",
            "{'x': 'y'}",
            "kb_selection_filters must return a list of SelectionFilter, not dict",
        ),
        ("kb_tools", "['x']", "kb_tools must return a list of Tool; it holds 'x'"),
    ],
)
def test_a_registration_of_the_wrong_type_names_the_hook(plugin, hook, answer, reason) -> None:
    plugin("confused", START + f"@hookimpl\ndef {hook}():\n    return {answer}\n")

    assert [info.reason for info in Plugins(read_bootstrap()).failed] == [reason]


# Targets that are misspelt

TARGETS = {
    "kb_services": "api.Service('odd', TARGET)",
    "kb_routes": "api.Routes('odd', TARGET)",
    "kb_commands": "api.Command('odd', TARGET, 'Odd.', 'Search')",
    "kb_tools": "api.Tool('kb_odd', TARGET, 'Odd', 'read')",
    "kb_selection_filters": "api.SelectionFilter('odd', TARGET, help='Odd.')",
    "kb_mutation_kinds": "api.MutationKind('odd', TARGET, verb='odd', help='Odd.')",
    "kb_retrievers": "api.Retriever('odd', TARGET)",
    "kb_rerankers": "api.Reranker('odd', TARGET)",
    "kb_embedders": "api.Embedder('odd', TARGET)",
    "kb_extractors": "api.Extractor('odd', TARGET, 'odd', ())",
    "kb_chunkers": "api.Chunker('odd', TARGET)",
    "kb_generators": "api.Generator('odd', TARGET)",
    "kb_research_sources": "api.ResearchSource('odd', TARGET)",
    "kb_wire_objects": "api.WireObject('odd.v1', TARGET)",
    "kb_settings": "api.SettingsSection('odd', TARGET)",
    "kb_migrations": "api.Migration(1, 'odd', TARGET)",
    "kb_export_tables": "api.ExportTable('odd', 'odd', 'id', adapt=TARGET)",
}
MISSPELT = {
    "no_such_package.module:odd": "there is no module 'no_such_package.module'",
    "json.no_such_module:odd": "there is no module 'json.no_such_module'",
    "colorsys:rgb_to_hvs": "colorsys has no 'rgb_to_hvs'; did you mean 'rgb_to_hsv'?",
    "json": "is not an import path: write it as package.module:name",
}


@pytest.mark.parametrize("hook", TARGETS)
@pytest.mark.parametrize("target", MISSPELT)
def test_a_misspelt_target_fails_its_plugin_whatever_it_is_for(plugin, hook, target) -> None:
    plugin(
        "odd",
        START
        + f"@hookimpl\ndef {hook}():\n    return [{TARGETS[hook].replace('TARGET', repr(target))}]\n",
    )

    (failed,) = Plugins(read_bootstrap()).failed

    assert failed.name == "odd"
    assert MISSPELT[target] in failed.reason


def test_a_misspelt_target_is_the_same_failure_on_every_surface(plugin, kb_here) -> None:
    plugin(
        "odd",
        START
        + "@hookimpl\ndef kb_tools():\n    return [api.Tool('kb_odd', 'json.tool:man', 'Odd', 'read')]\n",
    )

    listed = {
        item["name"]: item["state"] for item in json.loads(kb_here("plugins", "--json").stdout)
    }
    plugins = Plugins(read_bootstrap())
    bind_tools(plugins, "read")
    with connect() as engine:
        health = engine.get("/health")["plugins"]["failed"]

    assert listed["odd"] == "failed"
    assert [info.name for info in plugins.failed] == ["odd"]
    assert list(health) == ["odd"]
    assert kb_here("bulk-tag", "--type", "note", "--add", "x", "--yes").returncode == 3


def test_targets_are_found_without_importing_them(plugin, monkeypatch) -> None:
    import sys

    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    plugin(
        "fine",
        START
        + "@hookimpl\ndef kb_services():\n    return [api.Service('odd', 'colorsys:rgb_to_hsv')]\n",
    )

    assert [info.reason for info in Plugins(read_bootstrap()).failed] == []
    assert "colorsys" not in sys.modules


def test_every_target_of_the_built_in_plugins_resolves(kb_home) -> None:
    from kb_framework.api import resolve
    from kb_framework.targets import targets_of

    plugins = Plugins(read_bootstrap())
    targets = {
        target
        for registry in plugins.registries
        for item in registry
        for target in targets_of(item)
    }

    assert len(targets) > 100
    for target in sorted(targets):
        resolve(target)


@pytest.mark.parametrize("hook", ["kb_narrow_selection", "kb_narrow_retrieval"])
@pytest.mark.parametrize("answer", ["True", "'1 = 1'", "['x']", "{}", "0"])
def test_a_narrowing_of_the_wrong_type_stops_the_operation_and_is_named(
    plugin, kb_home, hook, answer
) -> None:
    plugin("odd", START + f"@hookimpl\ndef {hook}(purpose):\n    return {answer}\n")
    with connect() as engine, pytest.raises(EngineError) as refused:
        engine.list_documents() if hook == "kb_narrow_selection" else engine.search("text")

    assert refused.value.http_status == 503
    assert f"plugin 'odd' failed in {hook}: expected a condition" in refused.value.message


@pytest.mark.parametrize(
    "answer", ["'x'", "42", "[1]", "{}", "api.Rejection(1, 'x')", "[api.Rejection('1', 'x')]"]
)
def test_a_gate_of_the_wrong_type_stops_the_assembly_and_is_named(plugin, kb_home, answer) -> None:
    plugin("odd", START + f"@hookimpl\ndef kb_gate_hits(hits):\n    return {answer}\n")
    with connect() as engine:
        engine.add_note("a harbour")
        with pytest.raises(EngineError) as refused:
            engine.knowledge_context(query="harbour")

    assert "plugin 'odd' failed in kb_gate_hits: expected" in refused.value.message
