"""Every example of every `--help` text runs, on a base that has what the examples speak of."""

from __future__ import annotations

import io
import itertools
import logging
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import connect
from kb_framework.edges.cli.app import examples, run
from kb_framework.plugins import Plugins

# What other examples need is made by these.
FIRST = [
    "sync",
    "orgs create",
    "roles set",
    "keys create",
    "search",
    "export",
    "backup",
    "plugins disable",
    "plugins enable",
    "views save",
    "views show",
]
CHUNK = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
NOT_RUN = {
    "kb serve": "does not end",
    "kb serve --host 0.0.0.0 --port 8420": "does not end",
    "kb watch ~/notes --tags mine": "does not end",
    "kb worker": "does not end",
    "kb console": "needs a running engine",
    "kb console --print": "needs a running engine",
    f"kb sessions end {CHUNK}": "needs a session in a browser",
    "kb mcp --profile read": "takes over standard input",
    "kb db partition 8": "needs PostgreSQL",
    "kb migrate-store ~/.local/share/kb/kb.sqlite postgresql://kb@db.example/kb": "needs PostgreSQL",
    "kb models install multilingual": "needs the package of the model",
    "kb eval my-questions": "needs judged questions",
    "kb eval my-questions --compare KB_EMBEDDER=multilingual": "needs judged questions",
}
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Ids:
    """Ids to put where an example has one: each document, chunk and key is used once."""

    def __init__(self) -> None:
        with connect() as engine:
            added = [
                engine.add_note(f"# Note {number}\n\nKeys are rotated.", tags=["kept"])["document"]
                for number in range(40)
            ]
            for number, tags in enumerate(
                (["draft", "old"], ["todo"], ["to-do"], ["mail"], ["finance"], ["reviewed"])
            ):
                engine.add_note(f"budget {number}, a press release with an exact phrase", tags=tags)
            self._documents = iter([item["id"] for item in reversed(added)])
            self._chunks = iter(
                [engine.get_document_chunks(item["id"])["data"][0]["id"] for item in added[:20]]
            )
            self._keys = iter(
                [engine.post("/keys", {"user": "bo", "role": "viewer"})["id"] for _ in range(3)]
            )
            self.snapshot = engine.knowledge_context("keys")["snapshot_id"]
            self.research = engine.research_search("keys")["saved_id"]

    def given_to(self, line: str) -> str:
        if line.startswith("kb keys"):
            return re.sub(CHUNK, lambda _: next(self._keys), line)
        if line.startswith("kb research show"):
            return UUID.sub(self.research, line)
        if line.startswith("kb snapshots"):
            return line.replace(CHUNK, self.snapshot)
        line = re.sub(CHUNK, lambda _: next(self._chunks), line)
        return re.sub(r"\b(42|43)\b", lambda _: str(next(self._documents)), line)


@pytest.fixture
def prepared(kb_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ids]:
    """A base and a home with the files that examples name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KB_KNOWLEDGE_HARD_DELETE", "true")
    for name in ("notes/a.md", "notes/drafts/b.md", "papers/c.pdf", "paper.pdf", "minutes.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {name}\n\nKeys are rotated every 90 days.", encoding="utf-8")
    logger, handlers = logging.getLogger(), logging.getLogger().handlers[:]
    yield Ids()
    logger.handlers[:] = handlers


def standard_input(line: str) -> str:
    """What an example's shell line sends to the command; else the answer to its question."""
    if found := re.match(r"echo '(.*)' \| ", line):
        return found[1] + "\n"
    return Path(line.split(" < ")[1]).read_text(encoding="utf-8") if " < " in line else "y\n"


def test_every_example_runs(
    prepared: Ids,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    plugins = Plugins(read_bootstrap())
    order = {name: place for place, name in enumerate(FIRST)}
    commands = sorted(
        plugins.commands, key=lambda command: (order.get(command.name, len(order)), command.name)
    )
    lines = list(itertools.chain.from_iterable(examples(plugins, command) for command in commands))
    failed = []
    for line in (line for line in lines if line not in NOT_RUN):
        given = prepared.given_to(line)
        own = given.partition("| ")[2] or given
        words = [str(Path(word).expanduser()) for word in shlex.split(own.partition(" < ")[0])[1:]]
        monkeypatch.setattr(
            sys, "stdin", io.TextIOWrapper(io.BytesIO(standard_input(given).encode()))
        )
        with monkeypatch.context() as patch:
            if words[0] == "restore":
                patch.setenv("KB_DATA_DIR", str(tmp_path / "restored"))
            code = run(words)
        out, said = capfd.readouterr()
        if code != 0:
            failed.append(f"{given} -> {code}: {said.strip() or out.strip()}"[:400])
    assert not failed, "\n".join(failed)
    assert set(NOT_RUN) <= set(lines)
