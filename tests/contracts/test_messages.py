"""Messages for bad input: in our own words, whichever library noticed it, and with what is allowed instead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cyclopts import CycloptsError
from litestar.routes import HTTPRoute
from pydantic import BaseModel, ValidationError

from kb_framework.api.messages import nearest
from kb_framework.api.models import invalid, validate
from kb_framework.app import open_kb
from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine
from kb_framework.edges.cli.app import build_app
from kb_framework.edges.cli.usage import usage_error
from kb_framework.edges.http.app import create_app
from kb_framework.edges.mcp.tools import bind_tools
from kb_framework.errors import EngineError, InvalidInput
from kb_framework.plugins import Plugins
from kb_framework.remote import decoded
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import Run

WRONG: list[Any] = [
    3,
    -1,
    10**30,
    1.5,
    True,
    None,
    "",
    "x",
    "x" * 20_000,
    [],
    [3],
    [""],
    [{}],
    {},
    {"x": 1},
    {3: 4},
]
OF_LIBRARIES = (
    "after validation",
    "valid dictionary",
    "instance of",
    "xpected `",
    "Unused Tokens",
    "nable to convert",
    "nput should",
    "nputs are not",
    "pydantic",
    "msgspec",
    "cyclopts",
    "function-",
    "constrained",
    "Not Found",
    "list[",
    "str]",
)


def require_own_words(message: str) -> None:
    assert message
    assert not [phrase for phrase in OF_LIBRARIES if phrase in message], message


def routes() -> Iterator[tuple[str, str, Any]]:
    kb = open_kb(read_bootstrap())
    try:
        for route in create_app(kb).app.routes:  # type: ignore[attr-defined]
            if isinstance(route, HTTPRoute) and route.path.startswith("/api/v1"):
                for method, (handler, _) in route.route_handler_map.items():
                    yield str(method), route.path, handler
    finally:
        kb.close()


def test_bodies_are_refused_in_our_own_words(kb_home: Path) -> None:
    models = {
        kind
        for _, _, handler in routes()
        if (data := handler.parsed_fn_signature.parameters.get("data"))
        and isinstance(kind := data.annotation, type)
        and issubclass(kind, BaseModel)
    } | {
        handler.opt["model"]
        for method, _, handler in routes()
        if method != "GET" and "model" in handler.opt
    }
    refused = 0
    for model in models:
        for body in [
            *WRONG,
            *({name: value} for name in [*model.model_fields, "nosuch"] for value in WRONG),
        ]:
            try:
                validate(model, body)
            except InvalidInput as error:
                refused += 1
                require_own_words(error.message)
    assert len(models) > 20
    assert refused > 1500


def test_parameters_of_requests_are_refused_in_our_own_words(kb_http: AsgiTransport) -> None:
    refused = 0
    for method, path, handler in routes():
        if method == "GET" and "{" not in path:
            for name in [*handler.opt.get("query", ()), "nosuch"]:
                for value in ("x", "-1", "0", "9" * 30, "x" * 20_000):
                    place = path.removeprefix("/api/v1")
                    reply = kb_http.ask("GET", place, params={name: value})
                    if reply.status >= 400:
                        refused += 1
                        require_own_words(EngineError(reply.status, decoded(reply)).message)
    assert refused > 50


def test_ids_that_cannot_be_are_named_in_our_own_words(kb_engine: Engine) -> None:
    for path, message in (
        ("/documents/abc", "there is no document 'abc': ids are whole numbers"),
        (
            "/knowledge/chunks/no",
            "there is no chunk 'no': ids look like 6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        ),
        ("/nope", "nothing is served at /api/v1/nope"),
    ):
        with pytest.raises(EngineError) as refused:
            kb_engine.get(path)
        assert (refused.value.http_status, refused.value.message) == (404, message)


def test_arguments_of_tools_are_refused_in_our_own_words(kb_home: Path) -> None:
    refused = 0
    for tool in bind_tools(Plugins(read_bootstrap()), "admin").values():
        for name in [*tool.parameters.model_fields, "nosuch"]:
            for value in WRONG[:-1]:
                try:
                    tool.arguments({name: value})
                except ValidationError as error:
                    refused += 1
                    require_own_words(invalid(error, tool.parameters).message)
    assert refused > 500


def test_command_lines_are_refused_in_our_own_words(kb_home: Path) -> None:
    plugins = Plugins(read_bootstrap())
    names = [command.name for command in plugins.commands]
    refused = 0
    for name in names:
        words = name.split()
        app = build_app(plugins, words)
        command = app
        for word in words:
            command = command[word]
        flags = [
            flag for argument in command.assemble_argument_collection() for flag in argument.names
        ]
        tails = [[flag, *value] for flag in flags for value in ([], ["x"])]
        for tail in [[], ["x"] * 9, ["--page", "1", "--page", "2"], ["--nosuch"], ["-x"], *tails]:
            try:
                app.parse_args([*words, *tail], exit_on_error=False, print_error=False)
            except CycloptsError as error:
                refused += 1
                found = usage_error(error, f"kb {name}", names)
                require_own_words(found.message)
                assert found.hint and found.hint.endswith(f"kb {name} --help")
    assert refused > 150


@pytest.mark.parametrize(
    ("given", "known", "meant"),
    [
        ("limit", ["query", "mode", "k"], "k"),
        ("--limit", ["--page", "--per-page"], "--per-page"),
        ("Tags", ["tags", "tag"], "tags"),
        ("snipet_chars", ["snippet_chars", "k"], "snippet_chars"),
        ("zebra", ["query", "k"], None),
    ],
)
def test_a_name_that_is_not_known_is_answered_with_the_nearest(
    given: str, known: list[str], meant: str | None
) -> None:
    assert nearest(given, known) == meant


def test_an_unknown_field_lists_what_is_allowed(kb_engine: Engine) -> None:
    with pytest.raises(EngineError) as refused:
        kb_engine.post("/search", {"query": "x", "limit": 3})

    assert refused.value.message == "limit: is not a field of this request; did you mean k?"
    assert refused.value.hint and refused.value.hint.startswith("it takes query, mode, k, ")


def test_a_usage_error_ends_with_the_commands_own_help(kb_run: Run) -> None:
    done = kb_run("search", "x", "--limit", "3")

    assert done.returncode == 2
    assert done.stderr.startswith("kb: kb search has no option --limit; did you mean -k?\n")
    assert done.stderr.endswith("kb search --help\n")
