"""Ctrl-C: a command says what was done and how to go on."""

from __future__ import annotations

import pytest

from kb_framework.edges.cli.console import Cli
from kb_testing.fixtures import Install, Run

STOPS = """
from kb_framework import api, hookimpl

@hookimpl
def kb_commands():
    return [api.Command("stops", __name__ + ":stops", group="Engine", help="Stops.")]

def stops(inner: str = "", *, cli: "Cli"):
    with cli.interruptible("nothing was done"):
        raise KeyboardInterrupt(*([inner] if inner else []))

from kb_framework.api.cli import Cli
"""


@pytest.mark.parametrize(
    ("arguments", "message"), [((), "nothing was done"), (("3 added",), "3 added")]
)
def test_an_interrupted_command_says_what_was_done(
    kb_plugin: Install, kb_run: Run, arguments: tuple[str, ...], message: str
) -> None:
    kb_plugin("stops", STOPS)

    done = kb_run("stops", *arguments)

    assert done.returncode == 130
    assert done.stderr == f"kb: interrupted: {message}\n"


def test_what_is_not_interrupted_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Cli(None, None).interruptible("nothing was done"):  # type: ignore[arg-type]
        pass

    assert capsys.readouterr().err == ""
