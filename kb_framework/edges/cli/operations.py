"""Commands made of operations: flags from the fields of the input, the answer to the plugin's render function."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, NamedTuple

from cyclopts import Parameter
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kb_framework.api import Command, Flag, Operation, resolve
from kb_framework.api.models import takes_list
from kb_framework.edges.cli.console import STDIN, Cli
from kb_framework.edges.cli.lists import CommaListOrNone, CommaNumbersOrNone, says_commas
from kb_framework.errors import ConfigInvalid, PluginFailed
from kb_framework.operations import input_model
from kb_framework.plugins import Plugins


class Option(NamedTuple):
    """A field of an operation's input on the command line; `inside` names the field that it is part of."""

    name: str
    info: FieldInfo
    inside: str = ""


def command_of(
    plugins: Plugins, operation: Operation[Any, Any], command: Command
) -> Callable[..., int]:
    """Return the function that cyclopts calls for an operation."""
    if operation.subject is not None:
        from kb_framework.pipelines.selection import check_contributions

        # What others contributed to it must not fail this command.
        check_contributions(plugins)
        if plugins.operation_of_command.get(command.name) is None:
            raise PluginFailed(
                f"the command {command.name!r} cannot be used", hint="kb plugins says why"
            )
    options = _chosen(command, [*_options(input_model(plugins, operation), command)])
    target = resolve(command.target) if command.target else None
    own = _own_parameters(target) if target else []
    listed = _listed(options, command)

    def run(*words: Any, cli: Cli, **given: Any) -> int:
        before, words = (words, ()) if all_words else (words[: len(placed)], words[len(placed) :])
        given.update(zip(command.positional, words, strict=False))
        rest = words[len(command.positional) - bool(listed) :]
        if command.words and (rest or not target):
            given[command.words] = _joined(rest, command)
        if listed:
            if not rest:
                raise ConfigInvalid(
                    f"no {listed.name} given: kb {command.name} {listed.name.upper()}"
                )
            given[listed.name] = [*rest]
        values = {**command.defaults, **_values(options, given)}
        if target:
            chosen = {item.name: given[item.name] for item in own if item.name in given}
            return target(cli, operation, values, *before, **chosen) or 0
        answer = cli.engine.run(operation, values)
        if command.render:
            return resolve(command.render)(cli, answer, values) or 0
        cli.result(answer)
        return 0

    # The signature and the docstring are what cyclopts makes flags and help of.
    cli = inspect.Parameter("cli", inspect.Parameter.KEYWORD_ONLY, annotation=Cli)
    placed = [item for item in own if item.kind in _BY_PLACE]
    flags = [item for item in own if item.kind not in _BY_PLACE]
    all_words = any(item.kind is item.VAR_POSITIONAL for item in placed)
    parameters = [*placed, *_parameters(options, command), *flags, cli]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    help, examples = command.help or operation.help, "\n".join(command.examples)
    run.__doc__ = f"{help}\n\nExamples\n--------\n{examples}" if examples else help
    return run


_BY_PLACE = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


def _own_parameters(target: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a command's target that are no fields of the operation."""
    return [*inspect.signature(target, eval_str=True).parameters.values()][3:]


def _options(model: type[BaseModel], command: Command) -> Iterator[Option]:
    for name, info in model.model_fields.items():
        inner = _bare(info.annotation)
        if name in command.omit:
            continue
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from (
                Option(field, part, inside=name)
                for field, part in inner.model_fields.items()
                # A flag is the request's own field rather than one inside.
                if field not in command.omit and field not in model.model_fields
            )
        else:
            yield Option(name, info)


def _chosen(command: Command, options: list[Option]) -> list[Option]:
    """Return the options that the command takes. A field comes before one of its parts with the same name."""
    by_name = {
        option.name: option for option in sorted(options, key=lambda item: item.inside == "")
    }
    names = command.only or dict.fromkeys(item.name for item in options)
    return [by_name[name] for name in names if name in by_name]


def _parameters(options: list[Option], command: Command) -> Iterator[inspect.Parameter]:
    """Yield the parameters in the order that Python wants: positional, words, flags."""
    by_name = {option.name: option for option in options}
    listed = _listed(options, command)
    for name in command.positional:
        option = by_name[name]
        if option == listed:
            help = Parameter(name=name.upper(), help=option.info.description)
            kind = int if _type(option) is CommaNumbersOrNone else str
            yield inspect.Parameter(
                "words", inspect.Parameter.VAR_POSITIONAL, annotation=Annotated[kind, help]
            )
            continue
        annotation = Annotated[_type(option), Parameter(help=option.info.description)]
        yield inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            annotation=annotation,
            default=_default(option, command),
        )
    if command.words:
        annotation = Annotated[
            str, Parameter(name=command.words.upper(), help=by_name[command.words].info.description)
        ]
        yield inspect.Parameter("words", inspect.Parameter.VAR_POSITIONAL, annotation=annotation)
    for option in options:
        if option.name not in (*command.positional, command.words):
            flags = Parameter(
                name=flag_names(option, command),
                help=_help(option),
                negative=(),
                allow_leading_hyphen=_begins_with_hyphen(option.info.annotation),
            )
            yield inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=Annotated[_type(option), flags],
                default=_default(option, command),
            )


def _begins_with_hyphen(annotation: Any) -> bool:
    """Return whether one of the choices does, such as `-created_at`."""
    bare = _bare(annotation)
    choices = typing.get_args(bare) if typing.get_origin(bare) is Literal else ()
    return any(str(choice).startswith("-") for choice in choices)


def _help(option: Option) -> str | None:
    said = option.info.description
    return says_commas(said) if said and takes_list(option.info.annotation) else said


def _listed(options: list[Option], command: Command) -> Option | None:
    """Return the positional field that takes all words that are left: the one that is a list."""
    return next(
        (
            option
            for option in options
            if option.name in command.positional and takes_list(option.info.annotation)
        ),
        None,
    )


def _type(option: Option) -> Any:
    found = cli_type(option.info.annotation, optional=not option.info.is_required())
    # A filter that is true or false has no default: left out, it selects nothing away.
    return bool | None if found is bool and option.info.default is None else found


def _default(option: Option, command: Command) -> Any:
    if option.info.is_required() and not option.inside:
        return inspect.Parameter.empty
    found = command.defaults.get(option.name, option.info.default)
    # A default that is no single value cannot be written on a command line.
    return found if isinstance(found, int | float | str) else None


def _values(options: list[Option], given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that were given. The engine knows the defaults of the others."""
    values: dict[str, Any] = {}
    for option in options:
        value = given.get(option.name)
        if value is None or (value == option.info.default and not option.info.is_required()):
            continue
        (values.setdefault(option.inside, {}) if option.inside else values)[option.name] = value
    return values


def _joined(words: tuple[str, ...], command: Command) -> str:
    text = " ".join(words)
    if text == STDIN or (not words and command.stdin):
        if sys.stdin is None or sys.stdin.isatty():
            raise ConfigInvalid(
                f"no {command.words} given: kb {command.name} {command.words.upper()}, or pipe it in"
            )
        return sys.stdin.read()
    if not words:
        raise ConfigInvalid(f"no {command.words} given: kb {command.name} WORDS")
    return text


def flag_names(option: Option, command: Command | None = None) -> list[str]:
    """Return a field's flags: the one that was chosen for it, and its own name, as in a request."""
    chosen = command.flags.get(option.name) if command else None
    chosen = chosen or next(
        (item.name for item in option.info.metadata if isinstance(item, Flag)), None
    )
    return list(dict.fromkeys([*([chosen] if chosen else []), flag_of(option.name)]))


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def cli_type(annotation: Any, *, optional: bool = True) -> Any:
    """Return what the command line takes for a field: lists are comma-separated, choices stay choices."""
    bare = _bare(annotation)
    if typing.get_origin(bare) is list:
        return CommaNumbersOrNone if _bare(typing.get_args(bare)[0]) is int else CommaListOrNone
    kept = bare if bare in (int, float, bool) or typing.get_origin(bare) is Literal else str
    return kept | None if optional and kept is not bool else kept


def _bare(annotation: Any) -> Any:
    """Return a type without `Annotated` and `| None`."""
    if typing.get_origin(annotation) is Annotated:
        return _bare(typing.get_args(annotation)[0])
    parts = [part for part in typing.get_args(annotation) if part is not type(None)]
    return _bare(parts[0]) if type(None) in typing.get_args(annotation) else annotation
