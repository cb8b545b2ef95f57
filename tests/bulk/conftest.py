"""What the tests of bulk operations under stress share: large collections in seconds, and looking at them from outside."""

from __future__ import annotations

import importlib.util
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kb_framework.app import KB, open_kb
from kb_framework.client import Engine
from kb_framework.edges.http.app import create_app
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import kb_line

_SYNTHETIC = Path(__file__).parents[2] / "benchmarks" / "synthetic.py"


@pytest.fixture(scope="session")
def synthetic() -> Any:
    """The loader that the benchmarks use."""
    spec = importlib.util.spec_from_file_location("kb_synthetic", _SYNTHETIC)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def filled(kb_home: Path, synthetic: Any) -> Callable[..., None]:
    """Fills the test's data folder: documents with ids from 1, the even ones tagged `old`, all tagged `all`, with files."""

    def fill(documents: int, chunks_each: int = 1) -> None:
        kb = open_kb()
        try:
            synthetic.fill(kb, synthetic.items(documents, chunks_each, words=20), files=True)
        finally:
            kb.close()

    return fill


@dataclass
class Opened:
    """A knowledge base in this process, with its parts and with a client."""

    kb: KB
    engine: Engine
    closed: bool = False

    def state(self) -> dict[str, Any]:
        """Everything that a bulk operation could change, but for jobs."""
        with self.kb.store.read() as tx:
            read = tx.connection.exec_driver_sql
            return {
                "documents": read("SELECT id, updated_at FROM documents ORDER BY id").fetchall(),
                "tags": read("SELECT document_id, tag FROM document_tags ORDER BY 1, 2").fetchall(),
                "chunks": read("SELECT count(*), sum(seq) FROM chunks").fetchall(),
                "text": tx.text.maintenance.count(),
                "files": sorted(self.kb.files.keys()),
                "waiting": read("SELECT key FROM file_removals ORDER BY key").fetchall(),
            }

    def complaints(self) -> list[str]:
        """What the doctor finds wrong. That an index which only makes searches faster is still to come, is not."""
        checks, expected = self.engine.get("/doctor")["checks"], {("side index", "warning")}
        return [
            check["message"]
            for check in checks
            if (check["name"], check["state"]) not in expected and check["state"] != "ok"
        ]

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.engine.close()

    def last_job(self) -> dict[str, Any] | None:
        found = self.engine.list_jobs(per_page=1)["data"]
        return found[0] if found else None


@pytest.fixture
def opened(kb_home: Path) -> Iterator[Callable[[], Opened]]:
    """Opens the test's data folder, as often as a test likes; what is still open in the end is closed."""
    all_opened: list[Opened] = []

    def open_it() -> Opened:
        kb = open_kb()
        all_opened.append(Opened(kb, Engine(AsgiTransport(create_app(kb), kb.close), kb.plugins)))
        return all_opened[-1]

    yield open_it
    for item in all_opened:
        item.close()


@pytest.fixture
def in_terminal(kb_home: Path) -> Callable[..., tuple[int, str]]:
    """Runs `kb` with a terminal to answer from; may do something between the question and the answer. Its code and words."""

    def run(
        *arguments: str, answer: str, before_answering: Callable[[], Any] = lambda: None
    ) -> tuple[int, str]:
        controlling, terminal = pty.openpty()
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            kb_line(*arguments),
            stdin=terminal,
            stdout=pipe,
            stderr=pipe,
            text=True,
            bufsize=0,
            env=dict(os.environ),
        )
        said = ""
        try:
            with process:
                assert process.stderr is not None
                while (character := process.stderr.read(1)) and not (
                    said := said + character
                ).endswith("[y/N] "):
                    pass
                before_answering()
                os.write(controlling, answer.encode())
                said += process.stderr.read()
                return process.wait(), said
        finally:
            os.close(terminal)
            os.close(controlling)

    return run
