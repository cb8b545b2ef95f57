"""Folders that were synced: remembered, recognised under another name, and told apart."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kb_documents.moves import possible_moves

from kb_framework.client import Engine, connect
from kb_framework.errors import ConfigInvalid, EngineError
from kb_testing.fixtures import Move, Run

from .conftest import Here, Watch, documents, exported, imported

# A folder under another name


def edit_after(here: Here, place: Path, folder: Path) -> None:
    """The rename is synced first, then the edit."""
    here.sync(place)
    edit(folder)


def edit_before(here: Here, place: Path, folder: Path) -> None:
    edit(folder)


def edit(folder: Path) -> None:
    (folder / "one.md").write_text("# one\n\nCorrected.", encoding="utf-8")
    (folder / "two.md").unlink()


def by_name(folder: Path) -> Path:
    return folder


def by_parent(folder: Path) -> Path:
    return folder.parent


def by_link(folder: Path) -> Path:
    link = folder.parent.parent / "link"
    link.symlink_to(folder)
    return link


def by_relative_path(folder: Path) -> Path:
    return Path(os.path.relpath(folder))


@pytest.mark.parametrize("edited", [edit_before, edit_after])
@pytest.mark.parametrize("called", [by_name, by_parent, by_link, by_relative_path])
def test_a_renamed_folder_is_followed_by_whichever_name_it_is_synced(
    here: Here,
    kb_engine: Engine,
    tmp_path: Path,
    notes: Path,
    called: Callable[[Path], Path],
    edited: Callable[[Here, Path, Path], None],
) -> None:
    old = tmp_path / "rn" / "old"
    old.parent.mkdir()
    notes.rename(old)
    here.sync(old, tags=["mine"])
    before = documents(kb_engine)
    kb_engine.set_document_tags(before["old/one.md"]["id"], ["mine", "important"])

    new = old.rename(old.with_name("new"))
    place = called(new)
    edited(here, place, new)
    here.sync(place)

    after = documents(kb_engine)
    prefix = "rn/new" if called is by_parent else "new"
    assert set(after) == {f"{prefix}/{name}.md" for name in ("one", "three", "four")}
    for name in ("one", "three", "four"):
        assert after[f"{prefix}/{name}.md"]["id"] == before[f"old/{name}.md"]["id"]
    assert after[f"{prefix}/one.md"]["tags"] == ["important", "mine"]
    assert "Corrected" in kb_engine.get_file(after[f"{prefix}/one.md"]["id"]).decode()
    assert here.sync(place) == {"unchanged": 3}


def test_a_folder_that_moved_keeps_what_is_remembered_of_it(
    here: Here, kb_engine: Engine, tmp_path: Path, notes: Path
) -> None:
    here.sync(notes, tags=["mine"], exclude=["four.md"])
    place = tmp_path / "deep" / "er" / "texts"
    place.parent.mkdir(parents=True)
    notes.rename(place)
    (place / "five.md").write_text("five", encoding="utf-8")

    assert here.sync(place)["added"] == 1

    assert documents(kb_engine)["texts/five.md"]["tags"] == ["mine"]
    (folder,) = kb_engine.list_folders()["data"]
    assert (folder["root"], folder["name"], folder["exclude"]) == (str(place), "texts", ["four.md"])


def test_a_copied_folder_has_not_moved(
    here: Here, kb_engine: Engine, tmp_path: Path, notes: Path
) -> None:
    here.sync(notes)
    shutil.copytree(notes, tmp_path / "copy")

    assert here.sync(tmp_path / "copy") == {"copies": 4}
    assert set(documents(kb_engine)) == {
        f"notes/{name}.md" for name in ("one", "two", "three", "four")
    }
    assert here.sync(notes) == {"unchanged": 4}


def test_a_renamed_folder_whose_files_were_written_again_is_followed(
    here: Here, kb_engine: Engine, tmp_path: Path, notes: Path
) -> None:
    here.sync(notes)
    before = {item["id"] for item in documents(kb_engine).values()}
    new = tmp_path / "new"
    new.mkdir()
    for file in list(notes.iterdir()):
        (new / file.name).write_bytes(file.read_bytes())
        os.utime(new / file.name, ns=(1, 1))
    shutil.rmtree(notes)

    here.sync(new)
    (new / "one.md").write_text("# one\n\nCorrected.", encoding="utf-8")
    assert here.sync(new) == {"updated": 1, "unchanged": 3}

    assert {item["id"] for item in documents(kb_engine).values()} == before


def test_files_inside_files_follow_a_renamed_folder(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    import zipfile

    with zipfile.ZipFile(notes / "a.zip", "w") as archive:
        archive.writestr("inner.md", "the inner text")
    here.sync(notes)
    before = documents(kb_engine)["notes/a.zip/inner.md"]

    here.sync(notes.rename(notes.with_name("new")))

    after = documents(kb_engine)["new/a.zip/inner.md"]
    assert (after["id"], after["metadata"]["parent_path"]) == (before["id"], "new/a.zip")


def test_folders_are_compared_level_by_level() -> None:
    known = [("/a/x/y/1.md", 1, 1), ("/a/x/y/2.md", 2, 2)]
    new = [("/b/c/x/y/1.md", 1, 1), ("/b/c/x/y/2.md", 2, 2)]

    moves = possible_moves(new, known, "/b/c")

    assert [tuple(move) for move in moves] == [
        ("/a", "/b/c", 2),
        ("/a/x", "/b/c/x", 2),
        ("/a/x/y", "/b/c/x/y", 2),
    ]
    assert possible_moves(new, [("/a/x/y/1.md", 1, 9)], "/b/c") == []


def test_two_folders_with_the_same_last_name_are_told_apart(
    here: Here, kb_engine: Engine, tmp_path: Path
) -> None:
    for owner in ("work", "private"):
        folder = tmp_path / owner / "notes"
        folder.mkdir(parents=True)
        (folder / "n1.md").write_text(f"# n1\n\nThe {owner} note.", encoding="utf-8")
        here.sync(folder)

    assert set(documents(kb_engine)) == {"notes/n1.md", "private/notes/n1.md"}
    (hit, *_) = kb_engine.search("private note", mode="lexical")["hits"]
    assert hit["doc_path"] == "private/notes/n1.md"
    for owner in ("work", "private"):
        assert here.sync(tmp_path / owner / "notes") == {"unchanged": 1}


# Remembered folders


def test_a_synced_folder_is_remembered_with_its_tags_and_patterns(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    here.sync(notes, tags=["mine"], exclude=["*.tmp"])
    (notes / "five.md").write_text("five", encoding="utf-8")
    (notes / "draft.tmp").write_text("draft", encoding="utf-8")

    assert here.sync(notes) == {"added": 1, "unchanged": 4}
    assert documents(kb_engine)["notes/five.md"]["tags"] == ["mine"]

    (notes / "six.md").write_text("six", encoding="utf-8")
    here.sync(notes, tags=[])
    assert documents(kb_engine)["notes/six.md"]["tags"] == []
    (folder,) = kb_engine.list_folders()["data"]
    assert (folder["root"], folder["tags"], folder["exclude"]) == (str(notes), [], ["*.tmp"])


def test_sync_without_a_folder_updates_all_of_them(
    here: Here, kb_engine: Engine, tmp_path: Path, notes: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "o.md").write_text("other", encoding="utf-8")
    here.sync(notes, tags=["a"])
    here.sync(other, tags=["b"])
    for folder in (notes, other):
        (folder / "new.md").write_text(f"new in {folder.name}", encoding="utf-8")

    reports = here.sync_all()

    assert [(Path(report["folder"]).name, report["added"]) for report in reports] == [
        ("notes", 1),
        ("other", 1),
    ]
    assert here.code == 0
    assert documents(kb_engine)["other/new.md"]["tags"] == ["b"]

    shutil.rmtree(other)
    (notes / "more.md").write_text("more", encoding="utf-8")
    first, second = here.sync_all()
    assert (first["added"], "other" in second["error"], here.code) == (1, True, 1)
    with pytest.raises(ConfigInvalid, match="--tags is for one folder"):
        here.sync_all(tags=["c"])


def test_sync_without_a_folder_says_so_where_none_is_known(kb_run: Run) -> None:
    done = kb_run("sync")
    assert (done.returncode, "kb sync DIR" in done.stderr) == (2, True)


def test_folders_lists_and_forgets(here: Here, kb_engine: Engine, kb_run: Run, notes: Path) -> None:
    here.sync(notes, tags=["mine"])

    listed = json.loads(kb_run("folders", "--json").stdout)["data"]
    assert [(folder["root"], folder["name"], folder["tags"]) for folder in listed] == [
        (str(notes), "notes", ["mine"])
    ]
    assert str(notes) in kb_run("folders").stdout
    assert json.loads(kb_run("folders", "forget", str(notes), "--json").stdout) == {
        "forgotten": str(notes)
    }
    assert kb_engine.list_folders()["data"] == []
    assert len(documents(kb_engine)) == 4
    with pytest.raises(EngineError, match="not a synced folder"):
        kb_engine.forget_folder(str(notes))


def test_folders_of_another_machine_are_left_out(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    here.sync(notes)
    kb_engine.remember_folder(str(notes), host="another machine")

    assert here.sync_all() == []
    assert here.sync(notes) == {"unchanged": 4}
    assert len(here.sync_all()) == 1


def test_an_imported_base_goes_on_syncing_the_same_folder(
    kb_home: Path, kb_move: Move, notes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (notes / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing more")
    with connect() as engine:
        Here(engine, capsys).sync(notes, tags=["mine"])
        before, archive = documents(engine), exported(engine)
    kb_move(tmp_path / "other-home")
    (notes / "one.md").write_text("# one\n\nCorrected.", encoding="utf-8")
    (notes / "two.md").unlink()
    (notes / "three.md").rename(notes / "drei.md")
    with connect() as engine:
        here = Here(engine, capsys)
        imported(engine, archive)
        assert imported(engine, archive)["rows"] == {}

        (report,) = here.sync_all()

        assert {
            name: report[name] for name in ("added", "updated", "failed", "moved", "missing")
        } == {
            "added": 0,
            "updated": 1,
            "failed": 1,
            "moved": 1,
            "missing": 1,
        }
        after = documents(engine)
        assert {path: item["id"] for path, item in after.items()} == {
            "notes/one.md": before["notes/one.md"]["id"],
            "notes/drei.md": before["notes/three.md"]["id"],
            "notes/four.md": before["notes/four.md"]["id"],
        }
        (broken,) = [file for file in report["files"] if file["state"] == "failed"]
        assert broken["read"] is False


# Files that look the same


def test_a_file_that_became_a_folder_is_missing(here: Here, kb_engine: Engine, notes: Path) -> None:
    here.sync(notes)
    (notes / "one.md").unlink()
    (notes / "one.md").mkdir()
    (notes / "one.md" / "x.txt").write_text("x", encoding="utf-8")

    assert here.sync(notes) == {"added": 1, "unchanged": 3, "missing": 1}
    assert set(documents(kb_engine)) == {
        "notes/one.md/x.txt",
        "notes/two.md",
        "notes/three.md",
        "notes/four.md",
    }


def test_two_files_of_equal_size_and_time_that_were_swapped_both_follow(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    for name in ("aaa", "bbb"):
        (notes / f"{name}.md").write_text(name, encoding="utf-8")
        os.utime(notes / f"{name}.md", ns=(10**18, 10**18))
    here.sync(notes)

    (notes / "aaa.md").rename(notes / "aside")
    (notes / "bbb.md").rename(notes / "aaa.md")
    (notes / "aside").rename(notes / "bbb.md")
    here.sync(notes)

    for path, text in (("notes/aaa.md", b"bbb"), ("notes/bbb.md", b"aaa")):
        assert kb_engine.get_file(documents(kb_engine)[path]["id"]) == text


def test_checksum_reads_everything_again(here: Here, kb_engine: Engine, notes: Path) -> None:
    here.sync(notes)
    jobs = kb_engine.list_jobs()["meta"]["total"]

    assert here.sync(notes, checksum=True) == {"unchanged": 4}
    assert kb_engine.list_jobs()["meta"]["total"] == jobs + 4


def test_copies_are_counted_and_found_by_their_own_names(
    here: Here, kb_engine: Engine, kb_run: Run, notes: Path
) -> None:
    for number in range(2):
        shutil.copy(notes / "one.md", notes / f"copy{number}.md")

    assert here.sync(notes) == {"added": 4, "copies": 2}

    (found,) = kb_engine.list_documents(q="copy1")["data"]
    paths = {"notes/one.md", "notes/copy0.md", "notes/copy1.md"}
    assert {source["path"] for source in kb_engine.get_sources(found["id"])["data"]} == paths
    shown = kb_run("show", str(found["id"])).stdout
    assert all(path in shown for path in paths)


# Watching


def listed(kb_run: Run) -> dict[str, Any]:
    return {item["path"]: item for item in json.loads(kb_run("list", "--json").stdout)["data"]}


def test_watch_survives_a_slow_save_a_folder_that_goes_away_and_too_much_at_once(
    kb_run: Run, notes: Path, watching: Callable[[Path], Watch]
) -> None:
    watch = watching(notes)
    watch.until("watching")
    number = listed(kb_run)["notes/one.md"]["id"]
    kb_run("tag", str(number), "--add", "legal")

    text = (notes / "one.md").read_text(encoding="utf-8")
    (notes / "one.md").unlink()
    line = watch.until("missing notes/one.md")
    assert time.strptime(line.partition(" ")[0], "%H:%M:%S")
    (notes / "one.md").write_text(text, encoding="utf-8")
    watch.until("returned notes/one.md")

    away = notes.rename(notes.with_name("away"))
    watch.until("is away")
    away.rename(notes)
    watch.until("is back")
    (notes / "new.md").write_text("new", encoding="utf-8")
    watch.until("added notes/new.md")

    shutil.copytree(notes, away)
    for file in notes.iterdir():
        file.unlink()
    assert f"kb sync {notes} --force" in watch.until("would become missing")
    for file in away.iterdir():
        file.rename(notes / file.name)
    (notes / "last.md").write_text("last", encoding="utf-8")
    watch.until("added notes/last.md")

    odd = os.fsencode(notes) + b"/odd\xff.md"
    with open(odd, "w", encoding="utf-8") as file:  # noqa: PTH123 - its name is no text
        file.write("odd")
    watch.until("added notes/odd\\xff.md")
    os.unlink(odd)  # noqa: PTH108 - as above
    watch.until("missing notes/odd\\xff.md")

    after = listed(kb_run)
    assert len(after) == 6
    assert (after["notes/one.md"]["id"], after["notes/one.md"]["tags"]) == (number, ["legal"])
