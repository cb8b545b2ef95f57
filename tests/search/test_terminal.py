"""What a person sees: colour, links and a bar in a terminal, plain text in a pipe; and `kb open`."""

from __future__ import annotations

import os
import pty
import re
from pathlib import Path

import pytest
from kb_search.render import wrapped

from kb_framework.client import Engine
from kb_testing.fixtures import Run, kb_line


@pytest.fixture
def home(kb_home: Path, tmp_path: Path, kb_run: Run) -> Path:
    """A folder that was added."""
    folder = tmp_path / "notes"
    folder.mkdir()
    text = (
        "# Ops\n\n"
        + "Some words before it comes to the point.\n\n" * 3
        + "Access keys are rotated every 90 days.\n"
    )
    (folder / "keys.md").write_text(text, encoding="utf-8")
    assert kb_run("add", str(folder)).returncode == 0
    assert kb_run("note", "Keys \033[31mred\033[0m \x07 of a note").returncode == 0
    return folder


def in_terminal(*arguments: str, **environment: str) -> str:
    """What `kb` writes to a terminal."""
    line = kb_line(*arguments)
    read, write = pty.openpty()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.setsid()
        for number in (0, 1, 2):
            os.dup2(write, number)
        os.execve(line[0], line, {**os.environ, "TERM": "xterm", **environment})
    os.close(write)
    parts = []
    while True:
        try:
            part = os.read(read, 65536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    os.waitpid(pid, 0)
    os.close(read)
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_a_terminal_shows_title_place_bar_and_the_words_that_match(home: Path) -> None:
    shown = in_terminal("search", "rotated keys")

    assert "\033[1m1. " in shown
    assert "█" in shown
    assert "\033[1;33mkeys\033[0m" in shown
    assert "\033[1;33mrotated\033[0m" in shown
    assert f"\033]8;;{(home / 'keys.md').as_uri()}\033\\" in shown
    assert "notes/keys.md:1" in shown
    # A text cannot colour the terminal, or ring its bell.
    assert "\033[31m" not in shown
    assert "\x07" not in shown


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_who_wants_no_colour_gets_the_same_layout_without_it(
    home: Path, environment: dict[str, str]
) -> None:
    coloured = in_terminal("search", "rotated keys", COLUMNS="60", TERM="xterm")
    plain = in_terminal("search", "rotated keys", **{"COLUMNS": "60", **environment})

    assert "\033" not in plain
    assert plain == re.sub(r"\x1b\[[\d;]*m|\x1b]8;;.*?\x1b\\", "", coloured)
    assert "█" in plain


def test_a_title_is_shown_once(home: Path, kb_run: Run) -> None:
    for shown in (
        kb_run("search", "rotated keys", "-k", "1").stdout,
        in_terminal("search", "rotated keys", "-k", "1"),
    ):
        assert shown.count("Ops") == 1, shown
        assert "Some words" in shown


def test_a_trace_is_told_in_a_few_lines_and_whole_with_json(home: Path, kb_run: Run) -> None:
    shown = kb_run("search", "rotated keys", "--trace").stdout
    told = shown[shown.index("trace: ") :].splitlines()

    assert len(told) < 8
    assert "{" not in shown
    assert re.search(
        r"^   1\. [\d.]+: lexical 1 \(.*\), vector \d \(", "\n".join(told), re.MULTILINE
    ), shown
    assert '"fusion"' in kb_run("search", "rotated keys", "--trace", "--json").stdout


def test_a_list_fits_80_columns_with_paths_and_ids_that_can_be_copied(
    home: Path, kb_engine: Engine
) -> None:
    documents = in_terminal("list", COLUMNS="80")
    chunks = in_terminal("chunks", "list", COLUMNS="80")

    assert "notes/keys.md" in documents
    for item in kb_engine.list_chunks()["data"]:
        assert f"\n{item['id']}  document {item['document_id']}: fact, normal" in "\n" + chunks
    assert max(map(len, chunks.splitlines())) <= 90


def test_a_document_is_shown_without_control_characters_and_none(home: Path) -> None:
    shown = in_terminal("show", "2")

    assert "\033" not in shown
    assert "None" not in shown


def test_a_pipe_gets_plain_text(home: Path, kb_run: Run) -> None:
    done = kb_run("search", "rotated keys", "--facets")

    assert "\033" not in done.stdout
    assert "█" not in done.stdout
    assert re.search(r"^\d\. Ops  notes/keys\.md:1$", done.stdout, re.MULTILINE)
    assert "2 documents match" in done.stdout
    one = kb_run("search", "rotated keys", "--facets", "--path-glob", "keys.md")
    assert "1 document matches" in one.stdout


def test_open_prints_the_path_where_nobody_looks(home: Path, kb_run: Run) -> None:
    kb_run("search", "rotated every 90 days", "--mode", "lexical")

    assert kb_run("open", "1").stdout.strip() == str(home / "keys.md")
    assert kb_run("open").stdout.strip() == str(home / "keys.md")
    assert kb_run("open", "1", "--print").stdout.strip() == str(home / "keys.md")
    assert kb_run("open", "doc:1").stdout.strip() == str(home / "keys.md")
    assert kb_run("open", "doc:2").stdout.strip() == "document/2"


def test_open_takes_the_id_of_a_chunk(home: Path, kb_run: Run, kb_engine: Engine) -> None:
    chunk = kb_engine.search("rotated")["hits"][0]["chunk_id"]

    assert kb_run("open", chunk.upper()).stdout.strip() == str(home / "keys.md")
    done = kb_run("open", "00000000-0000-4000-8000-000000000000")
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(("hit", "code"), [("99", 1), ("nonsense", 1), ("doc:99", 1)])
def test_open_says_what_it_does_not_know(home: Path, kb_run: Run, hit: str, code: int) -> None:
    done = kb_run("open", hit)

    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("kb: ")


def test_open_starts_the_editor_at_the_line_or_the_pager(
    home: Path, tmp_path: Path, kb_run: Run
) -> None:
    editor = tmp_path / "vim"
    editor.write_text("#!/bin/sh\necho edits $@\n")
    editor.chmod(0o755)

    kb_run("search", "rotated", "--mode", "lexical")
    assert f"edits +1 {home / 'keys.md'}" in in_terminal("open", "1", EDITOR=str(editor), VISUAL="")
    note = in_terminal("open", "doc:2", PAGER="cat")
    assert "of a note" in note
    assert "\033[31m" not in note


def test_lines_are_wrapped_by_columns_not_characters() -> None:
    assert wrapped("aa bb cc", 5) == ["aa bb", "cc"]
    assert wrapped("백업정책", 4) == ["백업", "정책"]
    assert wrapped("", 4) == []
