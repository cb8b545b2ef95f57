"""A knowledge base that can only be read."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kb_framework.client import connect

from .conftest import fill

pytestmark = [
    pytest.mark.sqlite_only("permissions of SQLite's file"),
    pytest.mark.skipif(
        sys.platform != "linux",
        reason="root is not bound by permissions, and only Linux can take that from it",
    ),
]

# Runs several commands in one process, and prints what each said.
COMMANDS = """
import contextlib, io, json, os, sys
from kb_framework.edges.cli.app import run

said = []
for command in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = run(command)
        except SystemExit as end:
            code = end.code
    said.append([code or 0, out.getvalue(), err.getvalue()])
os.write(1, json.dumps(said).encode())
"""
_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE = 1


def _obey_permissions() -> None:
    """Take from root what lets it write anywhere; it counts from the next program on."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0)


def run(*commands: list[str]) -> list[list]:
    arguments = [sys.executable, "-c", COMMANDS, json.dumps(commands)]
    done = subprocess.run(arguments, capture_output=True, preexec_fn=_obey_permissions, timeout=600)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.fixture
def home(kb_home: Path) -> Iterator[Path]:
    with connect() as engine:
        fill(engine)
    yield kb_home
    for path in (kb_home, *kb_home.rglob("*")):
        path.chmod(0o755)


def _only_read(*paths: Path) -> None:
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)


def _folder(home: Path) -> None:
    _only_read(home, *home.rglob("*"))


def _file(home: Path) -> None:
    _only_read(home / "kb.sqlite")


def _folder_alone(home: Path) -> None:
    _only_read(home)


@pytest.mark.parametrize("protect", [_folder, _file, _folder_alone])
def test_what_can_only_be_read_is_searched_listed_shown_and_exported(
    home: Path, tmp_path: Path, protect
) -> None:
    protect(home)

    search, listed, show, file, export, backup, doctor, note, tag = run(
        ["search", "zebras", "--json"],
        ["list", "--json"],
        ["show", "1", "--text"],
        ["show", "1"],
        ["export", str(tmp_path / "saved.kbz")],
        ["backup", str(tmp_path / "saved.zip")],
        ["doctor"],
        ["note", "more zebras"],
        ["tag", "1", "--add", "new"],
    )

    assert len(json.loads(search[1])["hits"]) == 6
    assert json.loads(listed[1])["meta"]["total"] == 6
    assert "rotation number 0" in show[1]
    assert "Topic 0" in file[1]
    assert [export[0], backup[0], doctor[0]] == [0, 0, 0]
    assert "can only be read" in doctor[1]
    for refused in (note, tag):
        assert refused[0] == 3
        assert "can only be read" in refused[2]
        assert "is not writable" in refused[2]
    assert not list(home.glob("*-wal"))


def test_a_copy_with_changes_in_its_log_is_read_whole_or_not_at_all(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    with connect() as engine:
        engine.add_note("zebras of the last minute")
        shutil.copytree(home, copy)
    assert (copy / "kb.sqlite-wal").stat().st_size
    monkeypatch.setenv("KB_DATA_DIR", str(copy))
    _folder(copy)
    try:
        ((code, out, err),) = run(["list", "--json"])
    finally:
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755)

    assert code == 3 or json.loads(out)["meta"]["total"] == 7, err
