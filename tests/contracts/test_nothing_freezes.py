"""No text, stored or sent, takes more time than its size deserves."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kb_documents.globs import glob_regex

from kb_framework.client import Engine
from kb_framework.errors import KBError

FEEDER = Path(__file__).parent / "adversarial.py"
# Some ten times what it takes on an idle machine.
CPU_SECONDS = 240


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter, ended by the system when its CPU time is over."""
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_CPU, ({CPU_SECONDS}, {CPU_SECONDS + 5}))"
    source = (
        arguments[1]
        if arguments[0] == "-c"
        else f"import runpy; runpy.run_path({arguments[0]!r}, run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-c", f"{limited}\n{source}"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={name: value for name, value in os.environ.items() if not name.startswith("COV_")},
        cwd=FEEDER.parent,
    )


def test_no_pattern_and_no_function_of_text_takes_longer_than_its_text_deserves() -> None:
    answer = python(str(FEEDER))

    assert answer.returncode == 0, f"{answer.stdout}\nended at {answer.stderr[-500:]}"
    *slow, counts = answer.stdout.splitlines()
    assert slow == []
    patterns, functions = (int(word) for word in counts.split() if word.isdigit())
    # That it finds them at all.
    assert patterns > 100
    assert functions > 80


def test_a_new_pattern_that_is_not_linear_is_noticed() -> None:
    patterns = [
        r"\d+(?:[.,]\d+)?\s*%",
        "<!--.*?-->",
        "(?:[^/]+/)*(?:[^/]+/)*x",
        r"^\s*\$",
        "«[^»]{12,}»",
        "(a|aa)+!",
        r"(.+?)\s*$",
    ]
    source = (
        f"import sys; sys.path.insert(0, {str(FEEDER.parent)!r})\n"
        "import adversarial, re, signal\n"
        "signal.signal(signal.SIGVTALRM, adversarial.stop)\n"
        "adversarial.ALLOWED_SECONDS = 0.3\n"
        f"for text in {patterns!r}:\n"
        "    pattern = re.compile(text, re.MULTILINE | re.DOTALL)\n"
        "    adversarial.check(text, adversarial.run(pattern, 'finditer'), adversarial.texts_for(pattern))"
    )
    noticed = python("-c", source).stdout

    assert [pattern for pattern in patterns if f"SLOW {pattern}:" not in noticed] == []


def plainly(pattern: str) -> re.Pattern[str]:
    """A glob by its definition, in time that grows with every star."""
    piece = re.compile(r"(?:(?<=/)|(?<=^))\*\*/|(?:(?<=/)|(?<=^))\*\*$|\*+|\?|.")
    words = {"**/": "(?:[^/]+/)*", "?": "[^/]"}
    parts = [
        ".+" if found[0] == "**" and found.end() == len(pattern) and pattern[: found.start()][-1:] in ("", "/")
        else words.get(found[0]) or ("[^/]*" if found[0].startswith("*") else re.escape(found[0]))
        for found in piece.finditer(pattern)
    ]  # fmt: skip
    return re.compile("".join(parts))


def test_globs_mean_what_they_meant_before_they_were_linear() -> None:
    paths = [
        "".join(path) for size in range(1, 6) for path in itertools.product("ab/", repeat=size)
    ]
    paths = [path for path in paths if not path.startswith("/") and "//" not in path]
    parts = ["a", "b", "*", "?", "/", "**/", "a/", "*a"]
    for size in range(1, 5):
        for chosen in itertools.product(parts, repeat=size):
            for pattern in ("".join(chosen), "".join(chosen) + "/**"):
                regex, plain = re.compile(glob_regex(pattern)), plainly(pattern)
                for path in paths[:: 1 if size < 4 else 7]:
                    assert bool(regex.fullmatch(path)) == bool(plain.fullmatch(path)), (
                        pattern,
                        path,
                    )


HOSTILE = r"""
import tempfile
from pathlib import Path

from kb_documents.folders import list_folder

from kb_framework.api.client import connect
from kb_framework.errors import KBError

texts = [unit * (9000 // len(unit)) for unit in ("0", "«", "\n.", "a ", "[", "a/", "**/", "가", "“a", "x;\n")]
globs = ("**/" * 150 + "x", "**/a/" * 150 + "x", "*a" * 300, "**/*a*/" * 100, "[!b]/**/" * 100 + "x")
queries = ("river " * 1600, '"' + "river " * 1600 + '"', " ".join(f"w{n}" for n in range(1600)), "-a " * 3000 + "b", "a* " * 3000)
with connect() as engine:
    for text in texts:
        engine.research_add(text + " river meeting", "fact")
    engine.add_file("b.md", b"the meeting", path="a/" * 450 + "b.md")
    assert [hit["doc_path"][-4:] for hit in engine.search("meeting", path_glob="**/b.md")["hits"]] == ["b.md"]
    for glob in globs:
        engine.search("meeting", path_glob=glob)
    for query in queries:
        try:
            engine.search(query, syntax=True)
        except KBError as error:
            assert error.http_status == 400, error
            assert "too many" in error.message, error
    for text in texts:
        engine.search(text[:4900], mode="lexical") if text.strip(" [*/«.\n") else None
    engine.research_search("meeting")
with tempfile.TemporaryDirectory() as name:
    root = Path(name)
    (root / ("a" * 250)).write_text("a")
    for pattern in ("*a" * 100 + "b", "**/" * 100 + "*a" * 50 + "b"):
        (root / ".gitignore").write_text(pattern)
        for chosen in ({}, {"include": [pattern]}, {"exclude": [pattern]}):
            assert len(list_folder(root, **chosen).files) == ("include" not in chosen)
print("done")
"""


def test_hostile_texts_globs_and_questions_are_answered_in_their_time(kb_home: Path) -> None:
    answer = python("-c", HOSTILE)

    assert answer.stdout == "done\n", answer.stderr[-2000:]


def test_a_repeated_word_counts_once_for_the_query_language(kb_engine: Engine) -> None:
    kb_engine.add_note("a river runs", title="River")

    assert len(kb_engine.search("river " * 1600, syntax=True)["hits"]) == 1
    with pytest.raises(KBError, match="at most 64 different terms"):
        kb_engine.search(" ".join(f"word{number}" for number in range(65)), syntax=True)


def test_deep_front_matter_is_left_as_text(kb_engine: Engine) -> None:
    for head in ("a: " + "[" * 30_000, "- " * 30_000, "a: " + "{b: " * 20_000):
        added = kb_engine.add_file(
            "note.md", f"---\n{head}\n---\nthe body of it {head[:9]}\n".encode()
        )
        assert added["document"]["metadata"] == {}
