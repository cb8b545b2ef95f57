"""Listing a folder."""

from __future__ import annotations

from pathlib import Path

from kb_documents.folders import list_folder


def write(root: Path, *names: str, text: str = "x") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def names(root: Path, **patterns) -> list[str]:
    return [file.shown.removeprefix(f"{root.name}/") for file in list_folder(root, **patterns).files]


def test_files_of_all_levels_are_listed_by_their_way_from_the_folder(tmp_path: Path) -> None:
    root = tmp_path / "notes"
    write(root, "b.md", "a/c.md", "a/b/d.txt")

    assert [file.shown for file in list_folder(root).files] == ["notes/a/b/d.txt", "notes/a/c.md", "notes/b.md"]


def test_hidden_files_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.md", ".hidden.md", ".git/config", "b/.x/c.md")

    assert names(tmp_path) == ["a.md"]


def test_ignore_files_work_as_with_git(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "a.log", "keep.log", "build/x.md", "sub/b.log", "sub/c.md", "sub/deep/only.md")
    write(tmp_path, ".gitignore", text="*.log\nbuild/\n!keep.log\n")
    write(tmp_path, "sub/.kbignore", text="c.md\n!b.log\n/deep/\n")

    assert names(tmp_path) == ["a.md", "keep.log", "sub/b.log"]


def test_patterns_include_and_exclude(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b.txt", "docs/c.md", "docs/d.txt", "old/e.md")

    assert names(tmp_path, include=["*.md"]) == ["a.md", "docs/c.md", "old/e.md"]
    assert names(tmp_path, include=["*.md"], exclude=["old/"]) == ["a.md", "docs/c.md"]


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "in/a.md", "out/b.md")
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in", target_is_directory=True)
    (tmp_path / "in" / "away").symlink_to(tmp_path / "out", target_is_directory=True)

    assert names(tmp_path / "in") == ["a.md"]


def test_what_could_not_be_looked_at_is_told(tmp_path: Path) -> None:
    write(tmp_path, "a.md")

    listing = list_folder(tmp_path / "missing")

    assert listing.files == []
    assert listing.could_not_see(f"{(tmp_path / 'missing').as_posix()}/deep/file.md")
    assert not listing.could_not_see(f"{tmp_path.as_posix()}/missing-not/file.md")
