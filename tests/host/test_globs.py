"""Rules of .gitignore files mean what they mean to git."""

from __future__ import annotations

import pytest
from kb_documents.globs import Rules, rule_of


@pytest.mark.parametrize(
    ("lines", "taken", "left"),
    [
        (["*.log"], ["a.log", "b/a.log"], ["a.log.md", "a.md"]),
        (["/*.log"], ["a.log"], ["b/a.log"]),
        (["b/*.log"], ["b/a.log"], ["c/b/a.log"]),
        (["build/"], ["build/", "a/build/"], ["build", "a/build"]),
        (["a/**/z"], ["a/z", "a/b/z", "a/b/c/z"], ["a/z/b", "b/a/z"]),
        (["a/**"], ["a/b", "a/b/c"], ["a"]),
        (["**/z"], ["z", "a/z"], ["az"]),
        (
            ["[ab].md", "[^c].txt", "[!d].rst"],
            ["a.md", "x.txt", "x.rst"],
            ["c.md", "c.txt", "d.rst"],
        ),
        (
            ["\\#a", "\\!b", "c\\*", "d\\ ", "e  "],
            ["#a", "!b", "c*", "d ", "e"],
            ["a", "b", "cx", "d"],
        ),
        (["*.log", "!keep.log"], ["a.log"], ["keep.log", "b/keep.log"]),
        (["*.log", "!logs/"], ["logs/a.log"], ["logs/"]),
        (["# a", "", "!", "/", "//"], [], ["a", "# a"]),
    ],
)
def test_rules_take_what_git_takes(lines: list[str], taken: list[str], left: list[str]) -> None:
    rules = Rules(lines)

    assert [path for path in taken if not rules.decide(path)] == []
    assert [path for path in left if rules.decide(path)] == []


def test_with_contents_a_rule_about_a_folder_is_about_what_is_in_it() -> None:
    rules = Rules(["docs/", "*.md", "!docs/old/"], contents=True)

    assert rules.decide("docs/a/b.txt")
    assert rules.decide("c.md")
    assert rules.decide("docs/old/a.md") is False
    assert rules.decide("docs") is None


def test_a_rule_longer_than_any_path_matches_nothing() -> None:
    assert rule_of("a" * 5000) is None
