"""Folder commands over an engine in this process."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kb_documents.add_command import add
from kb_documents.sync_commands import sync

from kb_framework.api import Upload
from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine
from kb_framework.edges.cli.console import Cli
from kb_framework.plugins import Plugins
from kb_testing.fixtures import kb_line


class Here:
    """The commands in this process, over the test's engine."""

    def __init__(self, engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
        bootstrap = read_bootstrap()
        self._cli = Cli(bootstrap, Plugins(bootstrap), json=True)
        self._cli.__dict__["engine"] = engine
        self._capsys = capsys

    def run(self, command: Any, *arguments: Any, **options: Any) -> dict[str, Any]:
        self.code = command(*arguments, **options, cli=self._cli)
        found = json.loads(self._capsys.readouterr().out)
        self.answer, self.files = found, found["files"]
        return {key: value for key, value in found.items() if isinstance(value, int) and value}

    def sync(self, folder: Path, **options: Any) -> dict[str, Any]:
        return self.run(sync, folder, **options)

    def sync_all(self, **options: Any) -> list[dict[str, Any]]:
        self.code = sync(**options, cli=self._cli)
        return json.loads(self._capsys.readouterr().out)["folders"]

    def add(self, *paths: Path, **options: Any) -> dict[str, Any]:
        return self.run(add, *map(str, paths), **options)


@pytest.fixture
def here(kb_engine: Engine, capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(kb_engine, capsys)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("one", "two", "three", "four"):
        (folder / f"{name}.md").write_text(f"# {name}\n\nThe text of {name}.\n", encoding="utf-8")
    return folder


def documents(engine: Engine) -> dict[str, dict[str, Any]]:
    return {item["path"]: item for item in engine.list_documents(per_page=100)["data"]}


def exported(engine: Engine) -> bytes:
    return engine.export_archive()


def imported(engine: Engine, archive: bytes) -> dict[str, Any]:
    preview = engine.upload_import(Upload([archive], len(archive)))
    while not (done := engine.apply_import(preview["import_id"]))["finished"]:
        pass
    return done


class Watch:
    """A running `kb watch`, and the lines that it prints."""

    def __init__(self, folder: Path) -> None:
        self.lines: list[str] = []
        self._printed = threading.Condition()
        self.process = subprocess.Popen(
            kb_line("watch", str(folder)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._printed:
                self.lines.append(line.rstrip("\n"))
                self._printed.notify_all()

    def until(self, text: str) -> str:
        """Wait for a line that has a text; return it."""

        def found() -> list[str]:
            return [line for line in self.lines if text in line]

        with self._printed:
            assert self._printed.wait_for(found, timeout=600), self.lines
            return found()[-1]

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()
        self._reader.join()
        if self.process.stdout:
            self.process.stdout.close()


@pytest.fixture
def watching(kb_home: Path) -> Iterator[Callable[[Path], Watch]]:
    started: list[Watch] = []

    def start(folder: Path) -> Watch:
        started.append(Watch(folder))
        return started[-1]

    yield start
    for watch in started:
        watch.end()
