"""The command line: mounts what plugins contribute, and translates errors in one place.

Only what the command line names is imported. `kb --help` reads the commands' descriptions and nothing else.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import io
import logging
import os
import re
import sys
import traceback
from collections.abc import Iterable
from typing import Annotated, Any, NoReturn

from cyclopts import App, CycloptsError, Group, Parameter

from kb_framework import __version__
from kb_framework.api import Command, resolve
from kb_framework.api.data_folder import LOG_FILE
from kb_framework.bootstrap import ignored_dotenv, read_bootstrap
from kb_framework.edges.cli.console import STDIN, Cli
from kb_framework.edges.cli.usage import usage_error
from kb_framework.errors import (
    ConfigInvalid,
    EngineUnreachable,
    KBError,
    SafetyThresholdExceeded,
    memory_trouble,
)
from kb_framework.logs import LogFile
from kb_framework.masking import masked
from kb_framework.plugins import Plugins

HELP = """A knowledge base that can be searched, curated and changed in bulk without accidents.

To begin with:

kb quickstart                             a tour with a sample folder
kb add ~/notes                            add a folder
kb search "how do we rotate keys"         search it
kb bulk-remove --tags draft,old           preview, confirm, delete
kb serve                                  HTTP, MCP and API docs, on loopback
"""
GROUPS = ("Start", "Documents", "Search", "Bulk", "Knowledge", "Access", "Engine")
_INTERRUPTED = 130
# Commands of which only the help line is shown are not made. Cyclopts imports a target only to call it.
_PLACEHOLDER = "kb_framework.edges.cli.operations:command_of"
_FORCE = " Use force: true to proceed."
_CONFIG_HELP = "Read settings from this TOML or .env file instead of those in the data and configuration folders."


def main() -> NoReturn:
    if sys.getfilesystemencoding() == "ascii":
        # A C locale without UTF-8 mode: arguments and file names would not be text. Only a new interpreter can change that.
        # -P: without it, modules in the current folder would be run.
        command = [sys.executable, "-P", "-X", "utf8", "-m", "kb_framework", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONUTF8": "1"})
    # Whatever a command writes holds documents or secrets: it is its user's alone.
    os.umask(0o077)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows a question mark; a command does not fail over it.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        # The reader went away: what is left in the buffer has nowhere to go.
        pass
    # Everything is closed and flushed; tearing down the interpreter would cost more than most commands.
    os._exit(code)


def _unexpected(error: Exception, cli: Cli | None) -> KBError:
    if cli and cli.bootstrap.engine_url and isinstance(error, LookupError | TypeError):
        # What is missing from an answer is the fault of what answered.
        return EngineUnreachable(
            f"the answer of {masked(cli.bootstrap.engine_url)} is not that of a kb engine of this version",
            hint="check KB_ENGINE_URL, or unset it; --debug shows what the answer lacks",
        )
    return KBError(f"unexpected: {type(error).__name__}: {error}", hint="--debug shows where")


def run(argv: list[str]) -> int:
    """Run one command line; its exit code."""
    as_json, debug = "--json" in argv, "--debug" in argv
    _configure_logging(debug)
    cli: Cli | None = None
    log_file: LogFile | None = None
    try:
        argv, named = _take_config(argv)
        bootstrap = read_bootstrap({**os.environ, "KB_CONFIG_FILE": named} if named else None)
        log_file = LogFile(bootstrap.data_dir)
        logging.getLogger().addHandler(log_file)
        if not as_json and ignored_dotenv(bootstrap):
            sys.stderr.write(
                "kb: .env in this folder is not read, since it may be somebody else's; to use it: --config .env\n"
            )
        if argv[:2] == ["plugins", "disable"]:
            # What is being switched off must not be loaded for it.
            bootstrap = dataclasses.replace(
                bootstrap, disabled_plugins=bootstrap.disabled_plugins | set(argv[2:])
            )
        if bootstrap.trace_hooks:
            logging.getLogger("kb.plugins").setLevel(logging.INFO)
        plugins = Plugins(bootstrap)
        cli = Cli(bootstrap, plugins, json=as_json, debug=debug)
        if not bootstrap.nothing_else and not {"--help", "-h", "--version"} & set(argv):
            from kb_framework.app import load_plugin_settings

            load_plugin_settings(bootstrap, plugins)
        return _dispatch(argv, cli)
    except KeyboardInterrupt as interrupted:
        if interrupted.args:
            sys.stderr.write(f"kb: interrupted: {interrupted}\n")
        return _INTERRUPTED
    except BrokenPipeError:
        return 0
    except CycloptsError as error:
        return _report(
            usage_error(
                error,
                _called(error, argv),
                [item.name for item in cli.plugins.commands] if cli else [],
            ),
            cli,
            as_json,
            debug,
        )
    except KBError as error:
        return _report(error, cli, as_json, debug)
    except Exception as error:  # noqa: BLE001 - no traceback reaches a user
        unexpected = memory_trouble(error) or _unexpected(error, cli)
        if log_file:
            record = logging.LogRecord(
                "kb.cli", logging.ERROR, __file__, 0, unexpected.message, None, sys.exc_info()
            )
            # To the file alone: standard error has the message below.
            log_file.handle(record)
        return _report(unexpected, cli, as_json, debug)
    finally:
        if cli:
            cli.close()


def _take_config(argv: list[str]) -> tuple[list[str], str | None]:
    """Return the command line without `--config FILE`, and the file: settings are needed before the rest can be parsed."""
    end = argv.index("--") if "--" in argv else len(argv)
    for place, word in enumerate(argv[:end]):
        if word == "--config":
            if place + 1 == end:
                raise ConfigInvalid("--config needs the name of a file")
            return [*argv[:place], *argv[place + 2 :]], argv[place + 1]
        if word.startswith("--config="):
            return [*argv[:place], *argv[place + 1 :]], word.removeprefix("--config=")
    return argv, None


def _report(error: KBError, cli: Cli | None, as_json: bool, debug: bool) -> int:
    if debug:
        sys.stderr.write(masked(traceback.format_exc()))
    if error.code == SafetyThresholdExceeded.code and _FORCE in error.message:
        # The engine speaks of its request's field; here that is a flag.
        error.message, error.hint = (
            error.message.replace(_FORCE, ""),
            "--force proceeds all the same",
        )
    if error.code == KBError.code and cli and not cli.bootstrap.engine_url:
        # Only here: a path is nothing for callers elsewhere.
        file = cli.bootstrap.data_dir / LOG_FILE
        named = [f"{file} has the details"] if file.is_file() else []
        error.hint = "; ".join([*([error.hint] if error.hint else []), *named]) or None
    (cli or Cli(None, None, json=as_json)).error(error)  # type: ignore[arg-type]
    return error.exit_code


def _called(error: CycloptsError, argv: list[str]) -> str:
    """The command that an error is about, like `kb chunks list`."""
    words = error.command_chain or [word for word in argv if not word.startswith("-")][:1]
    return " ".join(["kb", *words])


def _dispatch(argv: list[str], cli: Cli) -> int:
    app = build_app(cli.plugins, argv)

    @app.meta.default
    def launch(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        json: Annotated[
            bool, Parameter(negative=(), help="Print JSON.", group="Everywhere")
        ] = False,
        debug: Annotated[
            bool, Parameter(negative=(), help="Show tracebacks and logs.", group="Everywhere")
        ] = False,
        config: Annotated[str | None, Parameter(help=_CONFIG_HELP, group="Everywhere")] = None,
    ) -> Any:
        words = [STDIN if token == "-" else token for token in tokens]
        command, bound, ignored = app.parse_args(words, exit_on_error=False, print_error=False)
        bound.arguments.update(dict.fromkeys(ignored, cli))
        return command(*bound.args, **bound.kwargs)

    # `run` ends an interrupted command, and says what was done.
    app.meta.suppress_keyboard_interrupt = False
    result = app.meta(argv, exit_on_error=False, print_error=False)
    return result if isinstance(result, int) else 0


def build_app(plugins: Plugins, argv: list[str]) -> App:
    """The commands of all plugins; only the one that `argv` names is imported (all of them for shell completion)."""
    app = App(
        name="kb",
        help=_help(plugins),
        version=__version__,
        help_format="plaintext",
        # That a switch is off, or a list empty, goes without saying.
        default_parameter=Parameter(show_default=lambda value: value or None),
        result_action="return_int_as_exit_code_else_zero",
    )
    everything = "--install-completion" in argv
    first, second = ([word for word in argv if not word.startswith("-")] + [None, None])[:2]
    if everything or first is None:
        app.register_install_completion_command()
    if not everything:
        _check_command(first, plugins)
    groups = {name: Group(name, sort_key=index) for index, name in enumerate(GROUPS)}
    found: dict[str, list[Command]] = {}
    for command in plugins.commands:
        word = command.name.split(" ")[0]
        # Whoever asks for one command needs no other.
        if everything or first in (None, word):
            found.setdefault(word, []).append(command)
    for name, commands in found.items():
        group = groups.get(commands[0].group) or Group(commands[0].group, sort_key=len(GROUPS))
        top = next((command for command in commands if command.name == name), None)
        inner = [command for command in commands if command is not top]
        wanted = everything or name == first
        if inner:
            named = {second, *(item.name.split(" ")[1] for item in inner if everything)}
            app.command(_group(plugins, name, top, inner, named if wanted else None, group))
        elif top and wanted:
            function = _function(plugins, top)
            app.command(function, name=name, group=group, **_told(function))
        elif top:
            app.command(top.target or _PLACEHOLDER, name=name, help=_line(top.help), group=group)
    return app


def _help(plugins: Plugins) -> str:
    """The introduction, with examples of commands that are there."""
    examples = [
        line
        for line in HELP.splitlines()
        if not line.startswith("kb ") or plugins.commands.get(line.split()[1])
    ]
    return "\n".join(examples)


def _check_command(word: str | None, plugins: Plugins) -> None:
    # Asking the parser would make it import every command.
    known = {command.name.split(" ")[0] for command in plugins.commands}
    if word is not None and word not in known:
        if owner := plugins.disabled_owner(word):
            message = f"the command {word!r} belongs to the plugin {owner}, which is disabled"
            raise ConfigInvalid(message, hint=f"kb plugins enable {owner}")
        near = difflib.get_close_matches(word, known, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigInvalid(
            f"there is no command {word!r}{meant}", hint="kb --help lists the commands"
        )


def _group(
    plugins: Plugins,
    name: str,
    top: Command | None,
    inner: Iterable[Command],
    wanted: set[str | None] | None,
    group: Group,
) -> App:
    """Commands of one first word, of one plugin or of several: one that cannot be imported must not stop another's.

    Those whose second word is wanted are imported; with None, this first word is not.
    """
    by_word = {command.name.split(" ")[1]: command for command in inner}
    about = (
        _line(top.help)
        if top
        else next((command.about for command in by_word.values() if command.about), "")
    )
    sub = App(name=name, help=about or f"Work with {name}: {', '.join(by_word)}.", group=group)
    if wanted is None:
        return sub
    if top and (None in wanted or not wanted & by_word.keys()):
        function = _function(plugins, top)
        sub.default(function)
        sub.help_epilogue = _told(function)["help_epilogue"]
    for word, command in by_word.items():
        if word in wanted:
            function = _function(plugins, command)
            sub.command(function, name=word, **_told(function))
        else:
            sub.command(command.target or _PLACEHOLDER, name=word, help=_line(command.help))
    return sub


def _line(help: str) -> str:
    """Return the part of a command's help that lists of commands show."""
    return help.partition("\n")[0]


def _function(plugins: Plugins, command: Command) -> Any:
    try:
        if operation := plugins.operation_of_command.get(command.name):
            from kb_framework.edges.cli.operations import command_of

            return command_of(plugins, operation, command)
        return resolve(command.target)
    except ImportError as error:
        plugin = plugins.commands.plugin_of(command.name)
        raise KBError(
            f"the command {command.name!r} of plugin {plugin!r} cannot be imported: {error}"
        ) from error


def _told(function: Any) -> dict[str, str]:
    """What `--help` says besides the parameters: the docstring's paragraphs, and the lines of its `Examples` at the end."""
    sections = re.split(r"^(\w+)\n-{3,}\n", inspect.getdoc(function) or "", flags=re.MULTILINE)
    named = dict(zip(sections[1::2], sections[2::2], strict=True))
    # Lines end where the source's do; a terminal has its own width.
    paragraphs = [" ".join(part.split("\n")) for part in sections[0].strip().split("\n\n")]
    examples = named.get("Examples", "").strip()
    return {
        "help": "\n\n".join(paragraphs),
        "help_epilogue": f"Examples:\n\n{examples}" if examples else "",
    }


def examples(plugins: Plugins, command: Command) -> list[str]:
    """Return the examples of a command's `--help`, as one types them."""
    return [
        line
        for line in _told(_function(plugins, command))["help_epilogue"].splitlines()[1:]
        if line.strip()
    ]


class _PlainFormatter(logging.Formatter):
    """One line per record; tracebacks only with --debug."""

    def __init__(self, debug: bool) -> None:
        super().__init__("kb: %(message)s")
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        if not self._debug:
            record = logging.makeLogRecord({**record.__dict__, "exc_info": None, "exc_text": None})
        return masked(super().format(record))


def _configure_logging(debug: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_PlainFormatter(debug))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("kb").setLevel(logging.DEBUG if debug else logging.WARNING)
