"""`--help` of every command: with examples, and with such that the command takes."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from kb_framework.bootstrap import read_bootstrap
from kb_framework.edges.cli.app import build_app
from kb_framework.edges.cli.console import STDIN
from kb_framework.plugins import Plugins

COMMANDS = [command.name for command in Plugins(read_bootstrap()).commands]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_examples_that_it_takes(
    name: str, kb_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    plugins = Plugins(read_bootstrap())

    build_app(plugins, name.split()).help_print(name.split())

    examples = [
        line.strip()
        for line in capsys.readouterr().out.partition("Examples:")[2].splitlines()
        if line.strip()
    ]
    assert examples, f"kb {name} --help shows no example"
    for line in examples:
        # What comes before a pipe, or after a redirection, is the shell's.
        _, _, own = line.partition("kb ")
        words = [STDIN if word == "-" else word for word in shlex.split(own.partition(" < ")[0])]
        assert words[: len(name.split())] == name.split()
        build_app(plugins, words).parse_args(
            [word for word in words if word != "--json"], exit_on_error=False, print_error=False
        )


def test_paragraphs_of_help_fit_the_terminal_and_not_the_source(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")

    build_app(Plugins(read_bootstrap()), ["add"]).help_print(["add"])

    (told,) = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("Files that are there and unchanged")
    ]
    assert told.rstrip().endswith("run the same command to continue.")


def test_every_parameter_is_described(kb_home: Path) -> None:
    plugins = Plugins(read_bootstrap())
    silent = []
    for name in COMMANDS:
        command = build_app(plugins, name.split())
        for word in name.split():
            command = command[word]
        for argument in command.assemble_argument_collection(parse_docstring=True):
            if argument.parse and argument.show and not (argument.parameter.help or "").strip():
                silent.append(f"kb {name} {argument.name}")
    assert silent == []


def test_every_group_of_commands_is_described_by_a_sentence(kb_home: Path) -> None:
    plugins = Plugins(read_bootstrap())
    for name in {name.split()[0] for name in COMMANDS if " " in name}:
        told = build_app(plugins, [name])[name].help
        assert told and told.endswith(".") and not told.startswith("Commands:"), (name, told)


def test_options_of_bulk_commands_that_take_several_values_say_how() -> None:
    from kb_framework.edges.cli.app import build_app

    for line in ("bulk-tag --help", "chunks bulk-set-policy --help"):
        app = build_app(Plugins(read_bootstrap()), line.split())
        found = app[line.split()[0]] if " bulk" not in line else app["chunks"]["bulk-set-policy"]
        lists = [item for item in found.assemble_argument_collection() if "list" in str(item.hint)]
        assert lists
        assert [
            item.name for item in lists if "comma-separated" not in str(item.parameter.help)
        ] == []
