"""In-flight hooks that name settings, services and parts of the host as parameters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kb_framework.api.client import Engine, connect
from kb_framework.bootstrap import read_bootstrap
from kb_framework.errors import EngineError
from kb_framework.plugins import Plugins
from kb_testing.fixtures import Install

LIMIT = """
from kb_framework import api, hookimpl
from kb_framework.api.models import Body
from kb_framework.api.settings import Section

noted = []


class LimitSettings(Section):
    longest: int = 10


class Counter:
    def __init__(self, store, settings):
        self.longest = settings.longest


class Sign(Body):
    def apply(self, tx, selected, actor):
        noted.append(actor.user_id)


@hookimpl
def kb_settings():
    return [api.SettingsSection("limit", f"{__name__}:LimitSettings")]


@hookimpl
def kb_services():
    return [api.Service("counter", f"{__name__}:Counter")]


@hookimpl
def kb_mutation_kinds():
    return [api.MutationKind("sign", f"{__name__}:Sign", verb="sign", help="Sign documents.")]
"""
GUARD = """

@hookimpl
def kb_guard_mutation(plan, {names}):
    if plan.matched > {limit}:
        return [api.Objection("too many")]
"""
WRAPPER = """

@hookimpl(wrapper=True)
def kb_apply_mutation(selected, counter, plan):
    noted.append((plan.kind, counter.longest))
    return (yield)
"""


@pytest.fixture
def notes(kb_home: Path) -> Iterator[Engine]:
    with connect() as engine:
        for number in range(3):
            engine.add_note(f"note {number}")
        yield engine


def noted_of(engine: Engine, plugin: str) -> list[object]:
    return engine.plugins.module(plugin).noted


@pytest.mark.parametrize(
    ("names", "limit"),
    [
        ("settings", "settings.longest"),
        ("limit_settings", "limit_settings.longest"),
        ("counter", "counter.longest"),
        ("tx, host_settings, counter, selector", "counter.longest"),
        ("counter, missing=2", "counter.longest - missing + 2"),
    ],
)
def test_a_guard_is_given_the_settings_and_services_that_it_names(
    notes: Engine, kb_plugin: Install, monkeypatch: pytest.MonkeyPatch, names: str, limit: str
) -> None:
    kb_plugin("limit", LIMIT + GUARD.format(names=names, limit=limit))

    with connect() as engine:
        assert engine.bulk_tags(doc_type="note", add=["a"], force=True)["succeeded"] == 3
    monkeypatch.setenv("KB_LIMIT_LONGEST", "2")
    with connect() as engine, pytest.raises(EngineError, match="too many"):
        engine.bulk_tags(doc_type="note", add=["b"], force=True)


def test_a_wrapper_is_given_a_service_and_what_the_hook_gives_in_any_order(
    notes: Engine, kb_plugin: Install
) -> None:
    kb_plugin("limit", LIMIT + WRAPPER)

    with connect() as engine:
        engine.bulk_tags(doc_type="note", add=["a"], force=True)
        assert noted_of(engine, "limit") == [("tags", 10)]


def test_apply_is_given_the_actor_that_it_names(notes: Engine, kb_plugin: Install) -> None:
    kb_plugin("limit", LIMIT)

    with connect() as engine:
        assert engine.bulk_sign(doc_type="note", force=True)["succeeded"] == 3
        assert len(noted_of(engine, "limit")) == 1


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            "settigns",
            "'settigns', which is no part of the host and no service; did you mean 'settings'?",
        ),
        ("plna", "did you mean 'plan'?"),
        ("services", "'services', which is no part"),
    ],
)
def test_a_hook_that_names_what_nobody_has_fails_its_plugin(
    kb_home: Path, kb_plugin: Install, names: str, words: str
) -> None:
    kb_plugin("limit", LIMIT + GUARD.format(names=names, limit=1))

    info = next(info for info in Plugins(read_bootstrap()).infos if info.name == "limit")

    assert info.state == "failed"
    assert words in (info.reason or "")


def test_a_hook_that_names_settings_of_a_plugin_without_any_fails_it(
    kb_home: Path, kb_plugin: Install
) -> None:
    kb_plugin(
        "limit",
        "from kb_framework import hookimpl\n" + "@hookimpl\ndef kb_serving(settings): ...\n",
    )

    info = next(info for info in Plugins(read_bootstrap()).infos if info.name == "limit")

    assert info.state == "failed"
    assert "kb_serving names 'settings'" in (info.reason or "")


def test_a_guard_whose_service_cannot_be_made_refuses_the_change(
    notes: Engine, kb_plugin: Install
) -> None:
    broken = LIMIT.replace("self.longest = settings.longest", "raise RuntimeError('no')")
    kb_plugin("limit", broken + GUARD.format(names="counter", limit=10))

    with connect() as engine, pytest.raises(EngineError) as refused:
        engine.bulk_tags(doc_type="note", add=["a"], force=True)
    assert refused.value.code == "mutation_refused"
