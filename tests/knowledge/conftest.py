"""What these tests share: notes of one chunk each, by the words they are about."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kb_framework.client import Engine
from kb_framework.edges.cli.app import run
from kb_testing.fixtures import Run


@pytest.fixture
def chunk_of(kb_engine: Engine) -> Callable[..., str]:
    """Adds a note of one chunk and gives the chunk's id."""

    def add(text: str, **fields) -> str:
        number = kb_engine.add_note(text, **fields)["document"]["id"]
        (chunk,) = kb_engine.get_document_chunks(number)["data"]
        return chunk["id"]

    return add


@pytest.fixture
def here(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """The command line in this process, where a process for each of many commands would take long."""
    loggers = [logging.getLogger(), logging.getLogger("kb")]
    handlers, levels = loggers[0].handlers[:], [logger.level for logger in loggers]

    def call(
        *arguments: str, stdin: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        capfd.readouterr()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            for name, value in environment.items():
                patch.setenv(name, value)
            code = run(list(arguments))
        out, said = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, code, out, said)

    yield call
    loggers[0].handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
