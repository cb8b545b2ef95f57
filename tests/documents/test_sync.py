"""D6, D9: staying in step with a folder, without losing what was curated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb_framework.client import Engine
from kb_framework.errors import InvalidInput
from kb_testing.fixtures import Run, kb_line

from .conftest import Here, Watch, documents


def long_text(changed: int = -1) -> str:
    sections = (
        f"## Section {n}\n\n"
        + f"This is what section {n} {'now says' if n == changed else 'says'} about its subject. "
        * 12
        for n in range(20)
    )
    return "# Long\n\n" + "\n\n".join(sections)


def test_an_unchanged_folder_is_not_sent_again(here: Here, kb_engine: Engine, notes: Path) -> None:
    assert here.sync(notes) == {"added": 4}
    jobs = kb_engine.list_jobs()["meta"]["total"]

    assert here.sync(notes) == {"unchanged": 4}
    assert here.add(notes) == {"unchanged": 4}
    assert kb_engine.list_jobs()["meta"]["total"] == jobs


def test_a_touched_file_with_the_same_content_is_unchanged(here: Here, notes: Path) -> None:
    here.sync(notes)
    os.utime(notes / "one.md", ns=(1, 1))

    assert here.sync(notes) == {"unchanged": 4}
    assert here.sync(notes) == {"unchanged": 4}


def test_what_could_not_be_read_is_told_again_and_not_read_again(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    broken = notes / "broken.pdf"
    broken.write_bytes(b"%PDF-1.4 and nothing more")
    assert here.sync(notes) == {"added": 4, "failed": 1}
    jobs = kb_engine.list_jobs()["meta"]["total"]

    for again in (here.sync, here.add):
        assert again(notes) == {"unchanged": 4, "failed": 1}
        (told,) = [file for file in here.files if file["state"] == "failed"]
        assert told["path"] == "notes/broken.pdf" and told["reason"] and told["read"] is False
        assert kb_engine.get_job(told["job_id"])["error"] == told["reason"]
    assert kb_engine.list_jobs()["meta"]["total"] == jobs

    assert here.sync(notes, retry=True) == {"unchanged": 4, "failed": 1}
    assert kb_engine.list_jobs()["meta"]["total"] == jobs + 1
    assert here.sync(notes) == {"unchanged": 4, "failed": 1}

    broken.write_text("It is a text now.", encoding="utf-8")
    assert here.sync(notes) == {"added": 1, "unchanged": 4}
    assert here.sync(notes) == {"unchanged": 5}


def test_a_changed_file_that_cannot_be_read_is_not_read_again_and_its_document_stays(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    here.sync(notes)
    (notes / "one.md").write_bytes(b"%PDF-1.4 and nothing more")
    assert here.sync(notes) == {"unchanged": 3, "failed": 1}

    assert here.sync(notes) == {"unchanged": 3, "failed": 1}
    (notes / "one.md").write_bytes(b"")
    assert here.sync(notes) == {"unchanged": 3}
    assert "notes/one.md" in documents(kb_engine)


@pytest.mark.parametrize(
    "change", [{"KB_EXTRACT_TIMEOUT": "61"}, {"KB_DISABLED_PLUGINS": "research"}], ids=str
)
def test_other_plugins_or_limits_may_read_what_could_not_be_read(
    kb_home: Path, kb_run: Run, notes: Path, change: dict[str, str]
) -> None:
    (notes / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing more")

    def added(**environment: str) -> dict[str, Any]:
        files = json.loads(kb_run("add", str(notes), "--json", **environment).stdout)["files"]
        (told,) = [file for file in files if file["state"] == "failed"]
        return told

    assert "read" not in added()
    assert added()["read"] is False
    assert "read" not in added(**change)
    assert "--retry" in kb_run("add", str(notes), **change).stderr


def test_a_changed_file_updates_its_document_and_keeps_what_did_not_change(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    (notes / "long.md").write_text(long_text(), encoding="utf-8")
    here.sync(notes)
    before = documents(kb_engine)["notes/long.md"]
    old = {chunk["content"]: chunk for chunk in kb_engine.get_document_chunks(before["id"])["data"]}
    kb_engine.set_document_tags(before["id"], ["curated"])
    kb_engine.update_document(before["id"], metadata={"reviewed": True})

    (notes / "long.md").write_text(long_text(changed=7), encoding="utf-8")

    assert here.sync(notes) == {"updated": 1, "unchanged": 4}
    after = documents(kb_engine)["notes/long.md"]
    new = {chunk["content"]: chunk for chunk in kb_engine.get_document_chunks(after["id"])["data"]}
    kept = set(old) & set(new)
    assert (after["id"], after["tags"], after["metadata"]) == (
        before["id"],
        ["curated"],
        {"reviewed": True},
    )
    assert len(kept) >= len(old) - 2
    assert all(old[text]["id"] == new[text]["id"] for text in kept)
    assert kb_engine.search("now says", mode="lexical", doc_id=after["id"])["hits"]
    assert sum("now says" in text for text in new) >= 1
    assert kb_engine.get("/doctor")["status"] != "error"
    assert kb_engine.get_file(after["id"]).decode() == long_text(changed=7)


def test_a_title_that_a_person_chose_stays(here: Here, kb_engine: Engine, notes: Path) -> None:
    here.sync(notes)
    mine, theirs = (documents(kb_engine)[f"notes/{name}.md"]["id"] for name in ("one", "two"))
    kb_engine.update_document(mine, title="Mine")

    (notes / "one.md").write_text("# Other\n\ntext one", encoding="utf-8")
    (notes / "two.md").write_text("# Another\n\ntext two", encoding="utf-8")
    here.sync(notes)

    assert kb_engine.get_document(mine)["title"] == "Mine"
    assert kb_engine.get_document(theirs)["title"] == "Another"


def test_a_moved_file_keeps_its_document(here: Here, kb_engine: Engine, notes: Path) -> None:
    here.sync(notes)
    before = documents(kb_engine)["notes/one.md"]

    (notes / "deep").mkdir()
    (notes / "one.md").rename(notes / "deep" / "uno.md")

    assert here.sync(notes) == {"unchanged": 3, "moved": 1}
    assert documents(kb_engine)["notes/deep/uno.md"]["id"] == before["id"]
    assert here.sync(notes) == {"unchanged": 4}


def test_what_vanished_is_not_listed(here: Here, kb_engine: Engine, notes: Path) -> None:
    here.sync(notes)
    (notes / "one.md").unlink()

    assert here.sync(notes, keep=True) == {"unchanged": 3}
    assert here.sync(notes) == {"unchanged": 3, "missing": 1}
    assert "notes/one.md" not in documents(kb_engine)
    assert kb_engine.list_jobs(job_type="bulk_missing")["data"][0]["succeeded"] == 1


def test_a_missing_folder_is_not_an_empty_one(here: Here, kb_engine: Engine, notes: Path) -> None:
    here.sync(notes)
    notes.rename(notes.with_name("elsewhere"))

    with pytest.raises(InvalidInput, match="nothing was changed"):
        here.sync(notes)
    assert len(documents(kb_engine)) == 4


def test_a_folder_that_is_suddenly_empty_is_not_believed(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    here.sync(notes)
    for number in range(20):
        kb_engine.add_note(f"filler {number}")
    for file in notes.iterdir():
        file.unlink()

    assert here.sync(notes) == {}
    assert "nothing was marked" in here.answer["refused"]
    assert here.sync(notes, force=True) == {"missing": 4}


def test_a_file_that_is_merely_left_out_is_kept(here: Here, kb_engine: Engine, notes: Path) -> None:
    here.sync(notes)

    here.sync(notes, include=["one.md"])
    (notes / ".kbignore").write_text("two.md\n", encoding="utf-8")
    here.sync(notes)

    assert len(documents(kb_engine)) == 4


def test_two_files_with_the_same_content_are_one_document_until_one_changes(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    (notes / "copy.md").write_bytes((notes / "one.md").read_bytes())
    assert here.sync(notes) == {"added": 4, "copies": 1}

    (notes / "copy.md").write_text("# Copy\n\nNow different.\n", encoding="utf-8")
    assert here.sync(notes) == {"added": 1, "unchanged": 4}

    texts = {kb_engine.get_file(item["id"]).decode() for item in documents(kb_engine).values()}
    assert {"# one\n\nThe text of one.\n", "# Copy\n\nNow different.\n"} <= texts
    (notes / "one.md").unlink()
    here.sync(notes)
    assert "# one\n\nThe text of one.\n" not in {
        kb_engine.get_file(d["id"]).decode() for d in documents(kb_engine).values()
    }


def test_two_files_that_swap_their_content_both_follow(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    here.sync(notes)
    one, two = (notes / "one.md").read_bytes(), (notes / "two.md").read_bytes()
    (notes / "one.md").write_bytes(two + b"!")
    (notes / "two.md").write_bytes(one + b"!")

    assert here.sync(notes) == {"updated": 2, "unchanged": 2}
    found = documents(kb_engine)
    assert kb_engine.get_file(found["notes/one.md"]["id"]) == two + b"!"
    assert kb_engine.get_file(found["notes/two.md"]["id"]) == one + b"!"


def test_a_file_that_became_unreadable_as_a_document_keeps_what_was_there(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    here.sync(notes)
    (notes / "one.md").write_bytes(bytes(range(256)))

    assert here.sync(notes) == {"failed": 1, "unchanged": 3}
    assert (
        kb_engine.get_file(documents(kb_engine)["notes/one.md"]["id"])
        == b"# one\n\nThe text of one.\n"
    )


def test_an_interrupted_add_goes_on_where_it_was(kb_run, kb_home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(300):
        (folder / f"{number}.md").write_text(
            f"# {number}\n\n" + f"word{number} " * 200, encoding="utf-8"
        )
    process = subprocess.Popen(
        kb_line("add", str(folder)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None and len(list((kb_home / "files").glob("??/*"))) <= 20:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.wait()

    second = json.loads(kb_run("add", str(folder), "--json").stdout)

    assert second["failed"] == 0
    assert second["added"] + second["unchanged"] == 300
    assert second["unchanged"] > 0
    assert json.loads(kb_run("list", "--json").stdout)["meta"]["total"] == 300
    assert json.loads(kb_run("doctor", "--json").stdout)["status"] != "error"


def test_watching_follows_an_editors_save_and_does_not_read_what_failed_again(
    notes: Path, watching: Callable[[Path], Watch]
) -> None:
    (notes / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing more")
    watch = watching(notes)
    watch.until("watching")
    assert sorted(watch.lines)[0] == "4 added, 0 updated, 0 unchanged, 1 failed"
    assert watch.until("failed: notes/broken.pdf")
    before = len(watch.lines)
    beside = notes / "one.md~"
    beside.write_text("# one\n\nSaved by an editor.\n", encoding="utf-8")
    (notes / "one.md").unlink()
    beside.rename(notes / "one.md")

    watch.until("updated notes/one.md")

    assert not [line for line in watch.lines[before:] if "missing" in line or "failed" in line]


# Files inside files


def packed(place: Path, **members: str) -> None:
    with zipfile.ZipFile(place, "w") as archive:
        for name, text in members.items():
            archive.writestr(f"{name}.md", text)


def inside(engine: Engine) -> set[str]:
    return {path.rpartition("/")[2] for path in documents(engine) if ".zip/" in path}


def test_d6_what_an_archive_no_longer_holds_is_removed_with_the_next_sync(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    packed(notes / "a.zip", kept="the text that stays", lost="the text that goes")
    here.sync(notes)
    assert inside(kb_engine) == {"kept.md", "lost.md"}

    packed(notes / "a.zip", kept="the text that stays")

    assert here.sync(notes) == {"updated": 1, "unchanged": 4, "missing": 1}
    assert inside(kb_engine) == {"kept.md"}
    assert here.sync(notes) == {"unchanged": 5}


def test_d6_a_file_that_was_renamed_inside_an_archive_is_the_same_document(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    packed(notes / "a.zip", first="the text that stays")
    here.sync(notes)
    before = {item["id"] for item in documents(kb_engine).values()}

    packed(notes / "a.zip", second="the text that stays")
    here.sync(notes)

    assert inside(kb_engine) == {"second.md"}
    assert {item["id"] for item in documents(kb_engine).values()} == before


def test_d6_what_cannot_be_read_in_an_archive_any_more_has_not_left_it(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    packed(notes / "a.zip", kept="the text that stays", broken="good text so far")
    here.sync(notes)

    packed(notes / "a.zip", kept="the text that stays", broken="")
    here.sync(notes)
    assert inside(kb_engine) == {"kept.md", "broken.md"}

    (notes / "a.zip").write_bytes(b"PK\x03\x04 this is no archive any more")
    here.sync(notes)
    assert inside(kb_engine) == {"kept.md", "broken.md"}


def test_d6_adding_removes_nothing_that_an_archive_no_longer_holds(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    packed(notes / "a.zip", kept="the text that stays", lost="the text that goes")
    here.add(notes)

    packed(notes / "a.zip", kept="the text that stays")
    here.add(notes)

    assert inside(kb_engine) == {"kept.md", "lost.md"}


def test_d6_files_in_an_archive_that_moved_know_where_they_are(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    packed(notes / "a.zip", kept="the text that stays", other="the other text")
    here.sync(notes)
    before = documents(kb_engine)
    (notes / "a.zip").rename(notes / "b.zip")

    assert here.sync(notes) == {"unchanged": 4, "moved": 1}
    after = documents(kb_engine)
    assert {document["id"] for document in after.values()} == {
        document["id"] for document in before.values()
    }
    archive = after["notes/b.zip"]
    assert archive["title"] == "b.zip"
    assert (
        after["notes/b.zip/kept.md"]["metadata"].items()
        >= {"parent_id": archive["id"], "parent_path": "notes/b.zip"}.items()
    )

    # Moved and changed at once, it is another archive with some of the same files in it.
    (notes / "b.zip").unlink()
    packed(notes / "c.zip", kept="the text that stays", other="changed")

    assert here.sync(notes) == {"added": 1, "unchanged": 4, "missing": 2}
    after = documents(kb_engine)
    kept = after["notes/c.zip/kept.md"]
    assert kept["id"] == before["notes/a.zip/kept.md"]["id"]
    assert kept["metadata"]["parent_id"] == after["notes/c.zip"]["id"]


def test_d6_a_file_without_a_title_is_known_by_its_new_name(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    (notes / "plain.txt").write_text("a text about herons", encoding="utf-8")
    here.sync(notes)
    (notes / "plain.txt").rename(notes / "storks.txt")
    here.sync(notes)

    assert documents(kb_engine)["notes/storks.txt"]["title"] == "storks.txt"
    assert kb_engine.search("storks", mode="lexical")["hits"][0]["title"] == "storks.txt"
