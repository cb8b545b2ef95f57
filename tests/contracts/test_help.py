"""`--help` of every command: with examples, and with such that the command takes."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from kb_framework.bootstrap import read_bootstrap
from kb_framework.cli import build_app
from kb_framework.console import STDIN
from kb_framework.plugins import Plugins

COMMANDS = [command.name for command in Plugins(read_bootstrap()).commands]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_examples_that_it_takes(
    name: str, kb_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    plugins = Plugins(read_bootstrap())

    build_app(plugins, name.split()).help_print(name.split())

    examples = [line.strip() for line in capsys.readouterr().out.partition("Examples:")[2].splitlines() if line.strip()]
    assert examples, f"kb {name} --help shows no example"
    for line in examples:
        # What comes before a pipe, or after a redirection, is the shell's.
        _, _, own = line.partition("kb ")
        words = [STDIN if word == "-" else word for word in shlex.split(own.partition(" < ")[0])]
        assert words[: len(name.split())] == name.split()
        build_app(plugins, words).parse_args([word for word in words if word != "--json"], exit_on_error=False, print_error=False)


def test_paragraphs_of_help_fit_the_terminal_and_not_the_source(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")

    build_app(Plugins(read_bootstrap()), ["add"]).help_print(["add"])

    (told,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("What is already there")]
    assert told.rstrip().endswith("are left out.")
