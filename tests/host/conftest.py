"""Fixtures of the host's own tests."""

from __future__ import annotations

import logging
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kb_framework.edges.cli.app import run


@dataclass(frozen=True)
class Finished:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def kb_here(kb_home: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Finished]]:
    """Runs a `kb` command line in this process: the same code as `kb_run`, without the cost of a process."""
    root, own = logging.getLogger(), logging.getLogger("kb")
    handlers, levels = (
        list(root.handlers),
        (root.level, own.level, logging.getLogger("kb.plugins").level),
    )

    def here(*arguments: str) -> Finished:
        capsys.readouterr()
        code = run(list(arguments))
        said = capsys.readouterr()
        return Finished(code, said.out, said.err)

    yield here
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])
    logging.getLogger("kb.plugins").setLevel(levels[2])


@pytest.fixture
def plugin(
    kb_home: Path, kb_plugin: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Installs a plugin from source under a module name that no other test has used; answers that name."""

    def install(name: str, source: str, *, distribution: str | None = None) -> str:
        module = f"{name}_{uuid.uuid4().hex}"
        kb_plugin(name, source, module=module, distribution=distribution)
        monkeypatch.delitem(sys.modules, module, raising=False)
        return module

    return install
