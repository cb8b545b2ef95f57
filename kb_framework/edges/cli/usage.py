"""Errors of the command line's parser, in the words of this project."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args, get_origin

from cyclopts import CycloptsError
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from kb_framework.api.messages import nearest
from kb_framework.errors import ConfigInvalid

_NUMBERS = {int: "a whole number", float: "a number"}


def usage_error(error: CycloptsError, command: str, commands: Iterable[str]) -> ConfigInvalid:
    """Translate a parser's error; `command` is the command that was given, like `kb search`, of all `commands`."""
    message, takes = _message(
        error,
        command,
        [name.split()[-1] for name in commands if f"kb {name}".startswith(f"{command} ")],
    )
    return ConfigInvalid(
        message, hint=f"{takes}; {command} --help" if takes else f"{command} --help"
    )


def _message(error: CycloptsError, command: str, inner: list[str]) -> tuple[str, str]:
    """Return what is wrong, and what is allowed instead where that is a list of names."""
    if isinstance(error, UnknownOptionError):
        given = (error.token.keyword or error.token.value).split("=")[0]
        options = [
            name
            for item in error.argument_collection
            if item.parse and item.show
            for name in item.names
        ]
        message = f"{command} has no option {given}{_meant(nearest(given, options))}"
        if not given.startswith("--"):
            message += "; words that begin with - come after --"
        return (
            message,
            f"it takes {', '.join([*(name for name in options if name.startswith('--')), '--json'])}",
        )
    if isinstance(error, UnusedCliTokensError | UnknownCommandError):
        given = (error.unused_tokens or [""])[0]
        if inner:
            return (
                f"there is no command {command} {given}{_meant(nearest(given, inner))}",
                f"there are {', '.join(inner)}",
            )
        return f"{command} does not take {given!r}", ""
    if isinstance(error, CoercionError):
        return f"{_name(error)}: must be {_expected(error.target_type)}{_not(error)}", ""
    if isinstance(error, MissingArgumentError):
        if error.keyword:
            return f"{error.keyword} needs a value{_of(error)}", ""
        return f"{_name(error)} is required{_of(error) or _described(error)}", ""
    if isinstance(error, RepeatArgumentError):
        return f"{_name(error)} is given twice", ""
    return (
        f"the command line cannot be understood{f' at {_name(error)}' if error.argument else ''}",
        "",
    )


def _meant(near: str | None) -> str:
    return f"; did you mean {near}?" if near else ""


def _described(error: MissingArgumentError) -> str:
    """Return what a required option is for, as its help says."""
    parameter = error.argument.parameter if error.argument else None
    help = parameter.help if parameter and error.argument.index is None else ""  # type: ignore[union-attr]
    return f": {help[:1].lower()}{help[1:]}" if help else ""


def _of(error: MissingArgumentError) -> str:
    choices = _choices(error.argument.hint if error.argument else None)
    return f": {_either(choices)}" if choices else ""


def _name(error: Any) -> str:
    """Return an option as it was written, or a positional parameter as help shows it."""
    token = getattr(error, "token", None)
    if token and token.keyword:
        return token.keyword
    argument = error.argument
    if argument is None:
        return "an argument"
    return argument.name.lstrip("-").upper() if argument.index is not None else argument.name


def _not(error: CoercionError) -> str:
    return f", not {error.token.value!r}" if error.token else ""


def _expected(kind: Any) -> str:
    choices = _choices(kind)
    if choices:
        return _either(choices)
    if kind not in _NUMBERS and int in _parts(kind):
        return "whole numbers, separated by commas"
    return next((_NUMBERS[part] for part in _parts(kind) if part in _NUMBERS), "of another type")


def _parts(kind: Any) -> list[Any]:
    return [kind, *(inner for part in get_args(kind) for inner in _parts(part))]


def _choices(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    return next((found for part in get_args(kind) if (found := _choices(part))), [])


def _either(names: list[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
