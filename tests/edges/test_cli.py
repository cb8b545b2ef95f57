"""H4: what the command line prints, where, with which exit code, and that it never hangs or shows its insides."""

from __future__ import annotations

import json
import logging
import os
import pty
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kb_framework import __version__
from kb_framework.bootstrap import read_bootstrap
from kb_framework.edges.cli.app import run as run_here
from kb_framework.plugins import Plugins
from kb_testing.commands import FROM_THE_BEGINNING
from kb_testing.fixtures import Install, Run, RunningServer, kb_line
from kb_testing.postgres import Databases

Done = subprocess.CompletedProcess[str]


@pytest.fixture
def run(server: RunningServer, kb_run: Run) -> Run:
    """`kb` against the server that this module shares: faster, and the same commands."""

    def call(*arguments: str, stdin: str | None = "", **environment: str) -> Done:
        return kb_run(*arguments, stdin=stdin, KB_ENGINE_URL=server.url, **environment)

    return call


@pytest.fixture
def here(
    server: RunningServer,
    kb_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[Callable[..., Done]]:
    """The same command line in this process, for long tables of arguments."""
    monkeypatch.setenv("KB_ENGINE_URL", server.url)
    root, handlers, levels = (
        logging.getLogger(),
        logging.getLogger().handlers[:],
        [(logging.getLogger(), logging.getLogger().level)],
    )
    levels.append((logging.getLogger("kb"), logging.getLogger("kb").level))

    def call(*arguments: str) -> Done:
        capfd.readouterr()
        code = run_here(list(arguments))
        out, said = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, code, out, said)

    yield call
    root.handlers[:] = handlers
    for logger, level in levels:
        logger.setLevel(level)


@pytest.fixture(scope="module")
def note(server: RunningServer) -> Iterator[Callable[..., int]]:
    """Adds a note and gives its id."""
    engine = server.engine

    def add(text: str = "# A note\n\nwith words", **fields: Any) -> int:
        return engine.post("/notes", {"text": text, **fields})["document"]["id"]

    # Enough others for the safety threshold never to be in the way.
    for number in range(10):
        add(f"another {number}")
    yield add
    engine.close()


def require_quiet(done: Done) -> None:
    assert "Traceback" not in done.stderr
    assert "Error:" not in done.stderr
    assert "unexpected" not in done.stderr


# Exit codes


def test_exit_0_when_done(run: Run) -> None:
    assert run("list").returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "999999"),
        ("show", "no such title"),
        ("show", "999999", "--file"),
        ("jobs", "show", "999999"),
        ("tag", "999999", "--add", "x"),
        ("remove", "999999", "--yes"),
        ("tags", "rename", "nobody-has-this", "x"),
        ("bulk-remove", "--from-id", "1", "--yes"),
    ],
)
def test_exit_1_when_refused(here: Run, note: Any, arguments: tuple[str, ...]) -> None:
    note()
    done = here(*arguments)

    assert done.returncode == 1, done.stderr
    assert done.stderr.strip()
    require_quiet(done)


@pytest.mark.parametrize(
    "arguments",
    [
        ("show",),
        ("show", "1", "2", "3"),
        ("show", "1", "--nosuchflag"),
        ("show", "9223372036854775808"),
        ("list", "--page", "0"),
        ("list", "--per-page", "101"),
        ("list", "--sort", "nope"),
        ("list", "--tags", "x" * 129),
        ("jobs", "--status", "nope"),
        ("search",),
        ("search", ""),
        ("search", "a", "--k", "0"),
        ("search", "a", "--k", "x"),
        ("search", "a", "--mode", "nope"),
        ("note", ""),
        ("note", "text", "--tags", "a\x07b"),
        ("add",),
        ("add", "no/such/file"),
        ("remove",),
        ("tags", "nosuch"),
        ("tags", "merge", "a"),
        ("tag", "1", "--set", "a", "--add", "b"),
        ("bulk-remove", "--yes"),
        ("bulk-remove", "--force", "--yes"),
        ("bulk-remove", "--ids", "x", "--yes"),
        ("bulk-remove", "--tags", "", "--yes"),
        ("bulk-tag", "--ids", "1", "--yes"),
        ("bulk-tag", "--ids", "1", "--add", "a", "--remove", "a", "--yes"),
        ("bulk-set-tags", "--ids", "1", "--yes"),
        ("plugins", "disable", "nosuch"),
        ("mcp", "--profile", "nope"),
    ],
    ids=" ".join,
)
def test_exit_2_on_bad_usage_or_input(here: Run, arguments: tuple[str, ...]) -> None:
    done = here(*arguments)

    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("kb: ")
    require_quiet(done)


def test_exit_2_on_a_setting_that_cannot_be(run: Run) -> None:
    done = run("list", KB_BULK_SAFETY_PERCENT="101")

    assert (done.returncode, done.stdout) == (2, "")
    assert "KB_BULK_SAFETY_PERCENT" in done.stderr
    assert "101" in done.stderr


def test_exit_3_when_the_engine_cannot_be_reached(kb_run: Run) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        done = kb_run("list", KB_ENGINE_URL=f"http://127.0.0.1:{unused.getsockname()[1]}")

    assert (done.returncode, done.stdout) == (3, "")
    require_quiet(done)


@pytest.mark.new_database
@pytest.mark.sqlite_only("about the file")
def test_exit_3_when_the_database_is_not_one(kb_run: Run, kb_home: Path) -> None:
    kb_home.mkdir()
    (kb_home / "kb.sqlite").write_bytes(b"this is no database " * 500)
    done = kb_run("list")

    assert (done.returncode, done.stdout) == (3, "")
    require_quiet(done)
    assert (kb_home / "kb.sqlite").read_bytes().startswith(b"this is no database")


def test_a_data_folder_that_cannot_be_made_is_told_in_a_sentence(
    kb_run: Run, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    done = kb_run("list", KB_DATA_DIR=str(tmp_path / "file" / "home"))

    assert done.returncode in {2, 3}
    assert done.stdout == ""
    assert str(tmp_path / "file" / "home") in done.stderr
    require_quiet(done)


def test_the_exit_code_is_that_of_the_process(run: Run) -> None:
    assert [run("show", *words).returncode for words in (["999999"], ["1", "2"])] == [1, 2]


# JSON


def json_commands(number: int, file: Path, chunk: str) -> dict[str, tuple[str, ...]]:
    """Every command that prints data, by its name."""
    return {
        "add": ("add", str(file)),
        "note": ("note", "a note"),
        "list": ("list",),
        "show": ("show", str(number)),
        "tag": ("tag", str(number), "--add", "json"),
        "tags": ("tags",),
        "tags rename": ("tags", "rename", "json", "json-2"),
        "tags merge": ("tags", "merge", "json-2", "--into", "json-3", "--yes", "--force"),
        "facets": ("facets",),
        "views save": ("views", "save", "mine", "--tags", "json-3"),
        "views list": ("views", "list"),
        "views show": ("views", "show", "mine"),
        "views remove": ("views", "remove", "mine"),
        "folders": ("folders",),
        "jobs": ("jobs",),
        "jobs show": ("jobs", "show", "1"),
        "search": ("search", "note"),
        "open": ("open", f"doc:{number}"),
        "chunks get": ("chunks", "get", chunk),
        "chunks list": ("chunks", "list"),
        "chunks show": ("chunks", "show", chunk),
        "chunks deactivate": ("chunks", "deactivate", chunk),
        "chunks activate": ("chunks", "activate", chunk),
        "chunks reclassify": ("chunks", "reclassify", chunk, "--kind", "quote"),
        "chunks set-policy": ("chunks", "set-policy", chunk, "--policy", "inspiration_only"),
        "chunks bulk-deactivate": ("chunks", "bulk-deactivate", "--chunk-ids", chunk, "--yes"),
        "chunks bulk-activate": ("chunks", "bulk-activate", "--chunk-ids", chunk, "--yes"),
        "chunks bulk-reclassify": (
            "chunks",
            "bulk-reclassify",
            "--chunk-ids",
            chunk,
            "--chunk-kind",
            "fact",
            "--yes",
        ),
        "chunks bulk-set-policy": (
            "chunks",
            "bulk-set-policy",
            "--chunk-ids",
            chunk,
            "--usage-policy",
            "normal",
            "--yes",
        ),
        "chunks history": ("chunks", "history", chunk),
        "chunks events": ("chunks", "events"),
        "chunks left-over": ("chunks", "left-over"),
        "ask": ("ask", "what is in the note"),
        "impact": ("impact", chunk),
        "snapshots": ("snapshots",),
        "research search": ("research", "search", "note"),
        "research add": ("research", "add", "a snippet", "--kind", "fact"),
        "research recent": ("research", "recent"),
        "bulk-tag": ("bulk-tag", "--ids", str(number), "--add", "x", "--yes"),
        "bulk-set-tags": ("bulk-set-tags", "--ids", str(number), "--set", "y", "--yes"),
        "bulk-remove": ("bulk-remove", "--ids", str(number), "--yes"),
        "remove": ("remove", "1", "--yes"),
        "users": ("users",),
        "orgs": ("orgs",),
        "orgs create": ("orgs", "create", f"organization-{number}"),
        "roles": ("roles",),
        "roles set": ("roles", "set", f"reader-{number}", "--permissions", "documents.read"),
        "roles remove": ("roles", "remove", f"reader-{number}"),
        "whoami": ("whoami",),
        "sessions": ("sessions",),
        "audit": ("audit",),
        "schema": ("schema",),
        "doctor": ("doctor",),
        "config": ("config",),
        "config set": ("config", "set", "log_level", "info"),
        "config unset": ("config", "unset", "log_level"),
        "plugins": ("plugins",),
        "plugins check": ("plugins", "check"),
        "plugins disable": ("plugins", "disable", "quickstart"),
        "plugins enable": ("plugins", "enable", "quickstart"),
        "quickstart": ("quickstart",),
        "reindex": ("reindex",),
        "export": ("export", str(file.with_suffix(".export"))),
        "backup": ("backup", str(file.with_suffix(".backup"))),
        "mcp": ("mcp", "--cost"),
    }


@pytest.mark.both_stores
def test_every_command_that_prints_data_prints_json_when_asked(
    server: RunningServer, here: Run, note: Any, tmp_path: Path, kb_databases: Databases | None
) -> None:
    file = tmp_path / "file.md"
    file.write_text("# A file\n\nfor the JSON of it")
    chunk = server.engine.get(f"/documents/{note()}/chunks")["data"][0]["id"]
    for name, arguments in json_commands(note(), file, chunk).items():
        done = here(*arguments, "--json")

        if name == "backup" and kb_databases:
            assert json.loads(done.stderr)["code"] == "conflict"
            continue
        assert done.returncode == 0, f"{name}: {done.stderr}"
        assert isinstance(json.loads(done.stdout), dict | list), name
        assert done.stdout.count("\n") == 1, name
        assert "Traceback" not in done.stderr, name


def test_no_command_is_missing_from_the_one_above(kb_home: Path) -> None:
    plugins = Plugins(read_bootstrap())
    distributions = {info.name: info.distribution for info in plugins.infos}
    own = {
        command.name
        for command in plugins.commands
        if distributions.get(plugins.commands.plugin_of(command.name), "kb-framework")
        == "kb-framework"
    }

    # These go on until they are stopped, or have tests of their own that read their JSON.
    elsewhere = {
        "serve",
        "watch",
        "worker",
        "eval",
        "sync",
        "import",
        "restore",
        "models install",
        "models list",
    }
    elsewhere |= {
        "migrate-store",
        "chunks delete",
        "snapshots show",
        "research show",
        "db partition",
        "folders forget",
        "console",
        "sessions end",
    }
    # A key would close the server that these tests share.
    elsewhere |= {"keys create", "keys list", "keys revoke", "keys rotate", "users remove"}
    assert own - elsewhere == set(json_commands(1, Path("x"), ""))


def test_json_is_where_one_puts_it(here: Run) -> None:
    for arguments in (
        ("--json", "list"),
        ("list", "--json"),
        ("list", "--json", "--per-page", "1"),
    ):
        assert "data" in json.loads(here(*arguments).stdout)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("show", "999999"), "not_found"),
        (("list", "--page", "0"), "invalid_input"),
        (("nosuchcommand",), "config_invalid"),
        (("show", "1", "2"), "config_invalid"),
        (("add", "no/such/file"), "invalid_input"),
        (("bulk-remove", "--from-id", "1", "--yes"), "safety_threshold_exceeded"),
        (("bulk-remove", "--from-id", "1"), "safety_threshold_exceeded"),
        (("bulk-remove", "--ids", "2"), "config_invalid"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_error_is_one_object_on_stderr_when_json_is_asked_for(
    here: Run, note: Any, arguments: tuple[str, ...], code: str
) -> None:
    note()
    done = here(*arguments, "--json")

    assert done.returncode > 0
    assert done.stdout == ""
    error = json.loads(done.stderr.splitlines()[-1])
    assert set(error) == {"schema_version", "code", "message", "details", "hint"}
    assert (error["schema_version"], error["code"]) == ("error.v1", code)
    assert isinstance(error["details"], dict)


def test_stderr_is_nothing_but_the_error_when_json_is_asked_for(run: Run) -> None:
    done = run("show", "999999", "--json")

    assert json.loads(done.stderr)["details"] == {"document_id": 999999}


def test_the_threshold_is_told_with_its_numbers(run: Run, note: Any) -> None:
    note()
    error = json.loads(run("bulk-remove", "--from-id", "1", "--yes", "--json").stderr)

    assert error["details"]["matched"] == error["details"]["total"] > 0
    assert (error["details"]["percent"], error["details"]["threshold"]) == (100.0, 70)


# Streams


def test_results_go_to_stdout_and_messages_to_stderr(run: Run, note: Any) -> None:
    note()
    done = run("list", "--per-page", "2")

    assert done.stdout.startswith("id\t")
    assert len(done.stdout.splitlines()) == 3
    assert re.fullmatch(r"page 1 of \d+, \d+ in all\n", done.stderr)


def test_nothing_is_coloured_or_drawn_in_a_pipe(here: Run, note: Any) -> None:
    note()
    for arguments in (("list",), ("search", "note"), ("tags",), ("plugins",)):
        assert not re.search("[\x1b│┃━]", here(*arguments).stdout)


def test_a_title_cannot_break_a_line_of_a_listing(here: Run, note: Any) -> None:
    number = note("text", title="one\ttwo\nthree")
    rows = [
        line
        for line in here("list", "--sort=-id").stdout.splitlines()
        if line.startswith(f"{number}\t")
    ]

    assert len(rows) == 1
    assert len(rows[0].split("\t")) == 7


def test_a_title_cannot_send_codes_to_a_terminal(here: Run, note: Any) -> None:
    note("text", title="a title that is \x1b[31mred")

    assert "\x1b" not in here("list", "--sort=-id").stdout


def test_a_listing_is_sorted_as_its_help_says(here: Run, note: Any) -> None:
    number = note()
    done = here("list", "--sort", "-id", "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"][0]["id"] == number


def test_the_text_of_a_document_comes_back_as_it_is(run: Run, note: Any) -> None:
    text = "# Größe 크기\n\nwith emoji 🙂"
    number = note(text)

    assert run("show", str(number), "--text").stdout == text + "\n"
    assert run("show", str(number), "--file").stdout == text


def test_text_that_the_terminal_cannot_show_does_not_stop_a_command(run: Run, note: Any) -> None:
    number = note("크기 🙂")
    done = run("show", str(number), PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")

    assert done.returncode == 0, done.stderr


# Errors without a traceback, unless it is asked for


FAULTY = """
from kb_framework import api, hookimpl
from kb_framework.api.cli import Cli

def broken(*, cli: Cli) -> None:
    "Raises."
    raise LookupError("deep inside")

def slow(*, cli: Cli) -> None:
    "Asks for something that takes long."
    cli.engine
    cli.say("asking")
    cli.engine.get("/slow")

@hookimpl
def kb_commands():
    return [
        api.Command("broken", "faulty_commands:broken", help="Raises.", group="Engine"),
        api.Command("slow", "faulty_commands:slow", help="Takes long.", group="Engine"),
    ]

def wait() -> dict:
    import os
    import time
    from pathlib import Path

    home = Path(os.environ["KB_DATA_DIR"])
    (home / "begun").touch()
    # Never done before Ctrl-C was pressed, however busy the machine.
    while not (home / "pressed").exists():
        time.sleep(0.01)
    return {}

@hookimpl
def kb_operations():
    return [api.Operation("wait", "faulty_commands:wait", "documents.read", api.Http("GET", "/slow"))]
"""


def test_no_traceback_reaches_a_person_unless_debug_asks_for_it(
    kb_plugin: Install, kb_run: Run
) -> None:
    kb_plugin("faulty", FAULTY, module="faulty_commands")
    done = kb_run("broken")

    assert done.returncode > 0
    assert (done.stdout, done.stderr.count("\n")) == ("", 2)
    assert "LookupError: deep inside" in done.stderr
    assert "--debug" in done.stderr

    debugged = kb_run("broken", "--debug")
    assert debugged.returncode == done.returncode
    assert "Traceback (most recent call last)" in debugged.stderr
    assert "faulty_commands.py" in debugged.stderr

    as_json = kb_run("broken", "--json")
    assert json.loads(as_json.stderr)["schema_version"] == "error.v1"


def test_debug_shows_where_a_known_error_came_from_too(run: Run) -> None:
    assert "Traceback" not in run("show", "999999").stderr
    assert "Traceback (most recent call last)" in run("show", "999999", "--debug").stderr


# Readers and people that go away


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "--per-page", "100"),
        ("list", "--json", "--per-page", "100"),
        ("schema",),
        ("--help",),
    ],
)
def test_a_reader_that_is_gone_ends_it_quietly(
    server: RunningServer, kb_home: Path, note: Any, arguments: tuple[str, ...]
) -> None:
    note()
    environment = {**os.environ, "KB_ENGINE_URL": server.url}
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as out:
        done = subprocess.run(
            kb_line(*arguments),
            stdout=out,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=600,
            text=True,
        )

    assert done.stderr == ""
    assert done.returncode in {0, 1}


@pytest.mark.parametrize("what", ["--text", "--file"])
def test_a_reader_that_goes_in_the_middle_ends_it_quietly(
    server: RunningServer, kb_home: Path, note: Any, what: str
) -> None:
    number = note("a line of words\n" * 60_000)
    environment = {**os.environ, "KB_ENGINE_URL": server.url}
    with subprocess.Popen(
        kb_line("show", str(number), what),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "a line of words\n"
        process.stdout.close()
        said = process.stderr.read()
        code = process.wait(timeout=600)

    assert said == ""
    assert code in {0, 1}


def test_ctrl_c_while_an_engine_is_asked_ends_it_quietly(kb_home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen(
            kb_line("list"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "KB_ENGINE_URL": url},
            text=True,
        ) as process:
            silent.settimeout(60)
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(65536).startswith(b"GET /api/v1/documents")
                process.send_signal(signal.SIGINT)
                out, said = process.communicate(timeout=600)

    assert (process.returncode, out, said) == (130, "", "")


def test_ctrl_c_while_the_engine_works_in_this_process_ends_it_quietly(
    kb_plugin: Install, kb_home: Path
) -> None:
    kb_plugin("faulty", FAULTY, module="faulty_commands")
    with subprocess.Popen(
        kb_line("slow"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "asking\n"
        while not (kb_home / "begun").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        (kb_home / "pressed").touch()
        out, said = process.communicate(timeout=600)

    assert (process.returncode, out, said) == (130, "", "")


def test_ctrl_c_at_a_question_changes_nothing_and_ends_it_quietly(
    server: RunningServer, kb_home: Path, note: Any
) -> None:
    number = note()
    code, said = answer_in_terminal(server, ["remove", str(number)], signal.SIGINT)

    assert code == 130
    assert "Traceback" not in said
    assert server.engine.get(f"/documents/{number}")["id"] == number


def test_ctrl_c_at_the_question_of_a_bulk_command_says_that_nothing_was_changed(
    server: RunningServer, note: Any
) -> None:
    number = note()
    code, said = answer_in_terminal(
        server, ["bulk-tag", "--ids", str(number), "--add", "x", "--force"], signal.SIGINT
    )

    assert (code, said.splitlines()[-1]) == (130, "kb: interrupted: nothing was changed")
    assert server.engine.get(f"/documents/{number}")["tags"] == []


# Questions


def answer_in_terminal(
    server: RunningServer, arguments: list[str], answer: bytes | signal.Signals
) -> tuple[int, str]:
    """Run a command whose standard input is a terminal; answer when it asks. Its exit code, and what it said."""
    controlling, terminal = pty.openpty()
    said: list[str] = []
    try:
        process = subprocess.Popen(
            kb_line(*arguments),
            stdin=terminal,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=0,
            env={**os.environ, "KB_ENGINE_URL": server.url},
        )
        with process:
            assert process.stderr is not None
            asked = threading.Event()

            def follow() -> None:
                assert process.stderr is not None
                while character := process.stderr.read(1):
                    said.append(character)
                    if "".join(said[-6:]) == "[y/N] ":
                        asked.set()
                asked.set()

            following = threading.Thread(target=follow)
            following.start()
            asked.wait(600)
            if isinstance(answer, signal.Signals):
                time.sleep(0.3)
                process.send_signal(answer)
            else:
                os.write(controlling, answer)
            try:
                code = process.wait(timeout=600)
            finally:
                process.kill()
                following.join()
    finally:
        os.close(terminal)
        os.close(controlling)
    return code, "".join(said)


@pytest.mark.parametrize(
    ("answer", "yes"),
    [(b"y\n", True), (b"n\n", False), (b"\n", False), (b"\x04", False), (b"ye\n", False)],
)
def test_a_bulk_change_asks_first_and_takes_no_for_an_answer(
    server: RunningServer, kb_home: Path, note: Any, answer: bytes, yes: bool
) -> None:
    tag = f"ask-{answer.hex()}"
    numbers = [note(tags=[tag, "old"]) for _ in range(2)]

    code, said = answer_in_terminal(
        server, ["bulk-remove", "--tags", f"{tag},old", "--type", "note"], answer
    )

    assert f"This will delete 2 documents matching: tags=[{tag},old] type=note\n" in said
    assert "Proceed? [y/N] " in said
    assert code == (0 if yes else 1)
    left = {item["id"] for item in server.engine.get("/documents", tags=tag)["data"]}
    assert left == (set() if yes else set(numbers))


@pytest.mark.parametrize(("answer", "yes"), [(b"y\n", True), (b"n\n", False), (b"\x04", False)])
def test_removing_asks_first_and_takes_no_for_an_answer(
    server: RunningServer, kb_home: Path, note: Any, answer: bytes, yes: bool
) -> None:
    number = note("the title of it")

    code, said = answer_in_terminal(server, ["remove", str(number)], answer)

    assert "the title of it" in said
    assert code == (0 if yes else 1)
    left = {item["id"] for item in server.engine.get("/documents", sort="-id")["data"]}
    assert (number in left) is not yes


def test_force_does_not_answer_the_question(
    server: RunningServer, kb_home: Path, note: Any
) -> None:
    note(tags=["forced"])
    code, said = answer_in_terminal(server, ["bulk-remove", "--tags", "forced", "--force"], b"n\n")

    assert code == 1
    assert "[y/N]" in said


def test_nothing_is_asked_when_nothing_matches(run: Run) -> None:
    done = run("bulk-remove", "--tags", "nobody-has-this")

    assert done.returncode == 0
    assert "no documents match" in done.stdout + done.stderr


def test_a_note_is_not_awaited_from_a_terminal(server: RunningServer, kb_home: Path) -> None:
    controlling, terminal = pty.openpty()
    try:
        environment = {**os.environ, "KB_ENGINE_URL": server.url}
        done = subprocess.run(
            kb_line("note"),
            stdin=terminal,
            capture_output=True,
            text=True,
            env=environment,
            timeout=600,
        )
    finally:
        os.close(terminal)
        os.close(controlling)

    assert (done.returncode, done.stdout) == (2, "")
    assert "text" in done.stderr


@pytest.mark.parametrize(
    "command", ["bulk-remove --ids {}", "bulk-tag --ids {} --add x", "remove {}"]
)
@pytest.mark.parametrize("closed", [False, True], ids=["empty stdin", "no stdin"])
def test_a_question_that_nobody_can_answer_is_exit_2_and_names_the_flag(
    server: RunningServer, kb_home: Path, note: Any, command: str, closed: bool
) -> None:
    words = command.format(note()).split()
    environment = {**os.environ, "KB_ENGINE_URL": server.url}
    shell = [
        "sh",
        "-c",
        'exec "$@" <&-' if closed else 'exec "$@" </dev/null',
        "sh",
        *FROM_THE_BEGINNING,
        *words,
    ]
    done = subprocess.run(shell, capture_output=True, text=True, env=environment, timeout=600)

    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "--yes" in done.stderr
    require_quiet(done)


@pytest.mark.parametrize("words", [["note"], ["note", "-"], ["add", "-"]], ids=" ".join)
@pytest.mark.parametrize("closed", [False, True], ids=["empty stdin", "no stdin"])
def test_a_text_that_nobody_gives_is_refused_at_once(
    server: RunningServer, kb_home: Path, words: list[str], closed: bool
) -> None:
    environment = {**os.environ, "KB_ENGINE_URL": server.url}
    shell = [
        "sh",
        "-c",
        'exec "$@" <&-' if closed else 'exec "$@" </dev/null',
        "sh",
        *FROM_THE_BEGINNING,
        *words,
    ]
    done = subprocess.run(shell, capture_output=True, text=True, env=environment, timeout=600)

    assert done.returncode in ({2} if words[0] == "add" else {1, 2})
    assert done.stderr.strip()
    require_quiet(done)


# Adding


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    unique = tmp_path.name
    inside = tmp_path / "notes"
    (inside / "deep" / "er").mkdir(parents=True)
    (inside / ".hidden").mkdir()
    for name in (
        "one.md",
        "two.txt",
        "deep/three.md",
        "deep/er/four.md",
        ".hidden/secret.md",
        ".five.md",
    ):
        (inside / name).write_text(f"# {name}\n\nof {unique}")
    return inside


def test_a_folder_is_added_with_all_that_is_in_it(run: Run, folder: Path) -> None:
    done = run("add", str(folder), "--json")

    added = json.loads(done.stdout)
    assert done.returncode == 0
    assert (added["added"], added["unchanged"], added["failed"]) == (4, 0, 0)
    paths = [item["path"] for item in added["files"]]
    assert paths == [
        "notes/deep/er/four.md",
        "notes/deep/three.md",
        "notes/one.md",
        "notes/two.txt",
    ]

    again = run("add", str(folder))
    assert (again.returncode, again.stdout.strip()) == (
        0,
        "0 added, 0 updated, 4 unchanged, 0 failed",
    )


def test_an_empty_folder_adds_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run("add", str(tmp_path / "empty"))

    assert (done.returncode, done.stdout.strip()) == (
        0,
        "0 added, 0 updated, 0 unchanged, 0 failed",
    )


def test_a_pattern_is_expanded_when_the_shell_did_not(run: Run, folder: Path) -> None:
    added = json.loads(
        run("add", str(folder / "**" / "t*"), "--json", "--tags", "by-pattern").stdout
    )

    assert sorted(item["path"] for item in added["files"]) == ["three.md", "two.txt"]


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(run: Run, folder: Path) -> None:
    (folder / "a[1]*.md").write_text(f"# Odd name\n\n{folder.parent.name}")

    assert json.loads(run("add", str(folder / "a[1]*.md"), "--json").stdout)["added"] == 1


def test_standard_input_is_added_with_a_title_and_tags(run: Run, tmp_path: Path) -> None:
    done = run(
        "add", "-", "--title", "Piped", "--tags", "a,b", "--json", stdin=f"# In\n\n{tmp_path.name}"
    )
    number = json.loads(done.stdout)["files"][0]["document_id"]
    shown = json.loads(run("show", str(number), "--json").stdout)

    assert done.returncode == 0
    assert (shown["title"], shown["tags"]) == ("Piped", ["a", "b"])


def test_a_missing_path_is_named_and_nothing_is_added(run: Run, folder: Path) -> None:
    before = json.loads(run("list", "--json").stdout)["meta"]["total"]
    done = run("add", str(folder / "one.md"), str(folder / "nosuch.md"))

    assert (done.returncode, done.stdout) == (2, "")
    assert "nosuch.md" in done.stderr
    assert json.loads(run("list", "--json").stdout)["meta"]["total"] == before


def test_what_fails_is_listed_and_the_rest_is_added(run: Run, folder: Path) -> None:
    (folder / "binary.bin").write_bytes(bytes(range(256)) * 4)
    (folder / "empty.md").write_text("")
    (folder / "again.md").write_text((folder / "one.md").read_text())
    gone = folder / "gone.md"
    gone.symlink_to(folder / "nowhere")

    done = run("add", str(folder), str(gone))

    assert done.returncode == 1
    assert done.stdout.strip() == "4 added, 0 updated, 0 unchanged, 1 failed, 1 copy"
    assert re.search(r"^failed: .*gone\.md: \S+", done.stderr, re.MULTILINE), done.stderr
    assert "left out: 1 binary file, 1 empty file, 2 hidden, 1 link" in done.stderr
    require_quiet(done)

    result = json.loads(run("add", str(folder), str(gone), "--json").stdout)
    assert (result["added"], result["unchanged"], result["failed"]) == (0, 5, 1)
    assert [
        (item["path"], bool(item["reason"]))
        for item in result["files"]
        if item["state"] == "failed"
    ] == [(str(gone), True)]
    left_out = {
        reason: [Path(path).name for path in paths] for reason, paths in result["left_out"].items()
    }
    assert left_out | {"hidden": []} == {
        "binary": ["binary.bin"],
        "empty": ["empty.md"],
        "hidden": [],
        "link": ["gone.md"],
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable for root")
def test_an_unreadable_file_fails_alone(run: Run, folder: Path) -> None:
    (folder / "one.md").chmod(0)
    done = run("add", str(folder))

    assert (done.returncode, done.stdout.strip()) == (
        1,
        "3 added, 0 updated, 0 unchanged, 1 failed",
    )
    assert "one.md" in done.stderr


def test_a_title_for_many_files_is_refused(run: Run, folder: Path) -> None:
    done = run("add", str(folder), "--title", "One for all")

    assert (done.returncode, done.stdout) == (2, "")
    assert "--title" in done.stderr


# The tour


def test_the_quickstart_walks_through_everything(kb_run: Run, kb_home: Path) -> None:
    done = kb_run("quickstart")

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert re.search(r"1\. kb add sample: [1-9]\d* added, 0 already there", done.stdout)
    assert "2. kb search" in done.stdout
    assert re.search(r"would delete [1-9]\d* of \d+ documents", done.stdout)
    for advice in ("kb add ~/notes", "kb serve", '"mcpServers"', str(kb_home)):
        assert advice in done.stdout
    assert "kb console" in done.stdout.splitlines()[-1]

    again = json.loads(kb_run("quickstart", "--json").stdout)
    assert again["added"]
    assert all(item["unchanged"] for item in again["added"])
    assert again["search"]["hits"]
    assert 0 < again["preview"]["matched"] < again["preview"]["total"] == len(again["added"])
    assert again["mcp"]["mcpServers"]["kb"]["env"]["KB_DATA_DIR"] == str(kb_home)

    cleared = kb_run("bulk-remove", "--tags", "quickstart", "--force", "--yes", "--json")
    assert json.loads(cleared.stdout)["succeeded"] == len(again["added"])


# Help


def test_the_version_is_printed(kb_run: Run) -> None:
    done = kb_run("--version")

    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, __version__, "")


@pytest.mark.new_database
def test_help_shows_every_command_in_its_group_with_a_line_about_it(
    kb_run: Run, kb_home: Path
) -> None:
    done = kb_run("--help", COLUMNS="200")

    assert (done.returncode, done.stderr) == (0, "")
    groups = re.findall(r"^╭─ (\S+) ", done.stdout, re.MULTILINE)
    wanted = ["Start", "Documents", "Search", "Bulk", "Engine"]
    assert [group for group in groups if group in wanted] == wanted
    for command in Plugins(read_bootstrap()).commands:
        if " " not in command.name:
            assert re.search(rf"^│ {command.name} +\S", done.stdout, re.MULTILINE), command.name
    assert "kb quickstart" in done.stdout
    assert "--json" in done.stdout
    assert not kb_home.exists()


def test_help_fits_a_narrow_terminal_without_breaking_its_examples(kb_run: Run) -> None:
    lines = kb_run("--help", COLUMNS="80").stdout.splitlines()

    examples = [line for line in lines if line.startswith("kb ")]
    assert len(examples) == 5
    assert all(len(line) <= 80 for line in lines)
    assert not [line for line in lines if line.startswith("http")], (
        "an example goes over the end of a line"
    )


@pytest.mark.parametrize(
    "command", ["add", "list", "bulk-remove", "serve", "mcp", "tags", "jobs", "search"]
)
def test_a_command_explains_its_flags(here: Run, command: str) -> None:
    done = here(command, "--help")

    assert (done.returncode, done.stderr) == (0, "")
    assert f"Usage: kb {command}" in done.stdout


def test_a_group_of_commands_lists_them(here: Run) -> None:
    text = here("tags", "--help").stdout

    assert "rename" in text
    assert "merge" in text


@pytest.mark.parametrize(
    ("wrong", "right"), [("serch", "search"), ("bulk-rm", "bulk-remove"), ("lst", "list")]
)
def test_a_misspelt_command_is_answered_with_the_right_one(
    here: Run, wrong: str, right: str
) -> None:
    done = here(wrong, "x")

    assert (done.returncode, done.stdout) == (2, "")
    assert wrong in done.stderr
    assert right in done.stderr


def test_a_misspelt_flag_is_named(here: Run) -> None:
    done = here("list", "--tgas", "x")

    assert done.returncode == 2
    assert "--tgas" in done.stderr


def test_without_a_command_it_shows_its_help(kb_run: Run) -> None:
    done = kb_run()

    assert done.returncode in {0, 2}
    assert "kb quickstart" in done.stdout + done.stderr


# Completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_into_ones_own_home(
    kb_run: Run, tmp_path: Path, kb_home: Path, shell: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    done = kb_run(
        "--install-completion",
        "--shell",
        shell,
        HOME=str(home),
        ZDOTDIR=str(home),
        SHELL=f"/bin/{shell}",
        XDG_DATA_HOME="",
        XDG_CONFIG_HOME="",
    )

    assert done.returncode == 0, done.stderr
    written = [path for path in home.rglob("*") if path.is_file()]
    script = next(path for path in written if "bulk-remove" in path.read_text())
    text = script.read_text()
    for command in Plugins(read_bootstrap()).commands:
        assert command.name.split(" ")[0] in text
    assert "--tags" in text
    if shell == "bash":
        assert subprocess.run(["bash", "-n", str(script)], capture_output=True).returncode == 0


def test_completion_completes_in_bash(kb_run: Run, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    kb_run("--install-completion", "--shell", "bash", HOME=str(home), XDG_DATA_HOME="")
    script = next(
        path for path in home.rglob("*") if path.is_file() and "bulk-remove" in path.read_text()
    )
    ask = f"""source {script}
function=$(complete -p kb | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_WORDS=(kb bulk-r); COMP_CWORD=1; COMP_LINE="kb bulk-r"; COMP_POINT=9
$function kb bulk-r kb
echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True)

    assert done.stdout.split() == ["bulk-remove"], done.stderr
