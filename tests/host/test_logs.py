"""The log file of the data folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kb_testing.fixtures import start_server, stop_server

BROKEN = """
from kb_framework import api, hookimpl
from kb_framework.api.cli import Cli


def breaks(*, cli: Cli):
    "Fail."
    raise RuntimeError("no answer from http://me:hunter2@example.org")


def broken() -> dict:
    raise RuntimeError("the key kb_" + "a" * 48 + " is wrong")


def asks(*, cli: Cli):
    "Ask."
    cli.engine.get("/broken")


@hookimpl
def kb_commands():
    return [api.Command(name, f"{__name__}:{name}", "Fail.", "Engine") for name in ("breaks", "asks")]


@hookimpl
def kb_operations():
    return [api.Operation("broken", f"{__name__}:broken", "documents.read", api.Http("GET", "/broken"))]
"""


def lines(kb_home: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (kb_home / "kb.log").read_text(encoding="utf-8").splitlines()
    ]


def test_a_command_that_fails_unexpectedly_names_the_log_that_says_why(
    kb_here, kb_home, plugin
) -> None:
    plugin("broken", BROKEN)
    kb_here("list")

    answer = kb_here("breaks")

    assert answer.returncode == 1
    assert str(kb_home / "kb.log") in answer.stderr
    assert "Traceback" not in answer.stderr
    (line,) = lines(kb_home)
    assert "RuntimeError" in line["message"]
    assert "in breaks" in line["exception"]
    assert "hunter2" not in json.dumps(line)
    assert (kb_home / "kb.log").stat().st_mode & 0o777 == 0o600


def test_what_an_answer_says_was_logged_is_in_the_log(kb_here, kb_home, plugin) -> None:
    plugin("broken", BROKEN)

    answer = kb_here("asks", "--json")

    error = json.loads(answer.stderr.splitlines()[-1])
    assert str(kb_home / "kb.log") in error["hint"]
    (line,) = [line for line in lines(kb_home) if "exception" in line]
    assert line["request_id"] in error["message"]
    assert "kb_" + "a" * 48 not in json.dumps(line)


def test_a_server_writes_the_log_too_and_tells_callers_no_path(kb_home, plugin) -> None:
    plugin("broken", BROKEN)
    server = start_server()
    try:
        with pytest.raises(Exception, match="logged as") as caught:
            server.engine.get("/broken")
    finally:
        stop_server(server)

    assert str(kb_home) not in str(vars(caught.value))
    assert [line["path"] for line in lines(kb_home) if line.get("status") == 500] == [
        "/api/v1/broken"
    ]
    assert [line for line in lines(kb_home) if "exception" in line]


@pytest.mark.new_database
def test_a_command_with_nothing_to_say_makes_no_log(kb_here, kb_home) -> None:
    assert kb_here("config").returncode == 0
    assert not kb_home.exists()
    assert kb_here("list").returncode == 0
    assert not (kb_home / "kb.log").exists()


FILL = """
import logging, os, sys
from pathlib import Path
from kb_framework.logs import LogFile
log_file = LogFile(Path(sys.argv[1]), max_bytes=5000)
for number in range(300):
    log_file.handle(logging.LogRecord("kb", logging.INFO, "", 0, f"{os.getpid()} {number} {'x' * 50}", None, None))
"""


def fill(folder: Path) -> subprocess.Popen[bytes]:
    """Write 300 records to the log of a folder, in a process of its own."""
    return subprocess.Popen([sys.executable, "-c", FILL, str(folder)])


def test_several_processes_share_a_log_of_bounded_size(tmp_path: Path) -> None:
    processes = [fill(tmp_path) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]

    assert sorted(path.name for path in tmp_path.iterdir()) in (
        ["kb.log.1"],
        ["kb.log", "kb.log.1"],
    )
    for path in tmp_path.iterdir():
        assert path.stat().st_size < 7000
        assert all(json.loads(line)["message"] for line in path.read_text().splitlines())


def test_a_log_that_cannot_be_written_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "kb.log").mkdir()

    assert fill(tmp_path).wait() == 0
    assert fill(tmp_path / "nowhere").wait() == 0

    assert not (tmp_path / "nowhere").exists()
