"""Words of a command line: they need no quotes, and bytes that are no text get a clean message."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kb_testing.fixtures import Run

C_LOCALE = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


def test_words_need_no_quotes(kb_run: Run) -> None:
    assert kb_run("note", "the", "heat", "pump", "hums", "--tags", "home").returncode == 0
    assert kb_run("research", "add", "a", "quiet", "fan", "--kind", "fact").returncode == 0

    found = json.loads(kb_run("search", "heat", "pump", "--json", "-k", "1").stdout)["hits"][0]
    asked = json.loads(kb_run("ask", "what", "hums", "--json").stdout)
    researched = kb_run("research", "search", "quiet", "fan", "--limit", "1")

    assert found["title"] == "the heat pump hums"
    assert "the heat pump hums" in asked["context"]["prompt"]
    assert "a quiet fan" in researched.stdout


@pytest.mark.parametrize("command", [["search"], ["ask"], ["research", "search"]], ids=" ".join)
def test_no_words_at_all_are_bad_usage(command: list[str], kb_run: Run) -> None:
    done = kb_run(*command)

    assert done.returncode == 2
    assert f"kb {' '.join(command)} WORDS" in done.stderr


@pytest.mark.parametrize(
    "arguments", [["search"], ["search", "--json"], ["research", "search"]], ids=" ".join
)
def test_nothing_found_is_exit_1(arguments: list[str], kb_run: Run) -> None:
    assert kb_run(*arguments, "walrus").returncode == 1


@pytest.mark.parametrize(
    "arguments", [["search"], ["list", "--q"], ["list", "--tags"], ["note"]], ids=" ".join
)
def test_bytes_that_are_no_text_are_named_in_a_clean_message(
    arguments: list[str], kb_run: Run
) -> None:
    # As Python hands over an argument that is not valid UTF-8.
    done = kb_run(*arguments, b"bad\xff".decode(errors="surrogateescape"))

    assert (done.returncode, done.stderr) == (2, "kb: 'bad?' is not valid UTF-8\n")


def test_a_c_locale_does_not_keep_words_from_being_understood(
    kb_start: Run, tmp_path: Path
) -> None:
    (tmp_path / "Größe.md").write_text("Die Größe der Wärmepumpe", encoding="utf-8")

    added = kb_start("add", "Größe.md", **C_LOCALE)
    found = kb_start("search", "Größe", "--json", **C_LOCALE)

    assert added.returncode == 0, added.stderr
    assert [hit["doc_path"] for hit in json.loads(found.stdout)["hits"]] == ["Größe.md"]


def test_a_c_locale_does_not_run_what_is_in_the_current_folder(
    kb_home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "cloned"
    folder.mkdir()
    for module in ("json", "re", "kb_framework", "encodings"):
        (folder / f"{module}.py").write_text(
            "raise SystemExit('code of the current folder')", encoding="utf-8"
        )

    done = subprocess.run(
        [Path(sys.executable).with_name("kb"), "list"],
        cwd=folder,
        env={**os.environ, **C_LOCALE},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )

    assert (done.returncode, done.stderr) == (0, "")
