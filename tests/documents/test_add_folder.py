"""Adding a folder as people have them: odd names, links, keys, junk, pictures."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb_testing.fixtures import Install, Run, kb_line

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notes"
    made.mkdir()
    (made / "plain.md").write_text("# Plain\n\nThe walrus sleeps.\n", encoding="utf-8")
    return made


def answer(kb_run: Run, *arguments: str, code: int = 0, **environment: str) -> Any:
    done = kb_run(*arguments, "--json", **environment)
    assert done.returncode == code, (done.stdout, done.stderr)
    return json.loads(done.stdout)


def counts(report: dict[str, Any]) -> dict[str, int]:
    return {name: value for name, value in report.items() if isinstance(value, int) and value}


def shown(kb_run: Run) -> dict[str, dict[str, Any]]:
    return {item["path"]: item for item in answer(kb_run, "list", "--per-page", "100")["data"]}


def test_one_name_that_is_not_utf8_costs_nothing(kb_run: Run, folder: Path, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff\xfe.md"))
    odd.write_text("# Odd\n\nThe narwhal sings.\n", encoding="utf-8")
    (folder / "two\nlines.md").write_text("# Two\n\nThe seal barks.\n", encoding="utf-8")
    path = r"notes/bad\xff\xfe.md"

    assert counts(answer(kb_run, "add", str(folder))) == {"added": 3}
    assert counts(answer(kb_run, "sync", str(folder))) == {"unchanged": 3}
    assert set(shown(kb_run)) == {"notes/plain.md", path, r"notes/two\x0alines.md"}

    odd.write_text("# Odd\n\nThe narwhal dives.\n", encoding="utf-8")
    before = shown(kb_run)[path]["id"]
    assert counts(answer(kb_run, "sync", str(folder))) == {"updated": 1, "unchanged": 2}
    assert shown(kb_run)[path]["id"] == before
    assert "dives" in kb_run("show", str(before), "--file").stdout
    assert answer(kb_run, "open", f"doc:{before}")["path"].endswith(r"bad\xff\xfe.md")

    assert kb_run("export", str(tmp_path / "all.zip")).returncode == 0
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        documents = archive.read("documents.ndjson").decode()
    assert path in [json.loads(line).get("path") for line in documents.splitlines()]

    assert counts(answer(kb_run, "add", str(odd))) == {"unchanged": 1}
    odd.unlink()
    assert counts(answer(kb_run, "sync", str(folder)))["unchanged"] == 2


@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}], ids=["C"]
)
def test_names_are_the_same_in_every_locale(
    kb_start: Run, folder: Path, locale: dict[str, str]
) -> None:
    (folder / "Überraschung.md").write_text("# A surprise\n", encoding="utf-8")

    assert counts(answer(kb_start, "sync", str(folder))) == {"added": 2}
    assert counts(answer(kb_start, "sync", str(folder), **locale)) == {"unchanged": 2}


def test_a_folder_whose_name_ends_in_an_exclamation_mark_is_a_folder(
    kb_run: Run, folder: Path
) -> None:
    """It is not taken for a file with others inside."""
    inner = folder / "Wow!"
    inner.mkdir()
    for number in range(3):
        (inner / f"{number}.md").write_text(f"# Note {number}\n", encoding="utf-8")

    assert counts(answer(kb_run, "sync", str(folder))) == {"added": 4}
    assert counts(answer(kb_run, "sync", str(folder))) == {"unchanged": 4}
    assert counts(answer(kb_run, "sync", str(inner))) == {"unchanged": 3}


def test_nothing_outside_the_folder_is_read(kb_run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("# Outside\n", encoding="utf-8")
    (folder / "link.md").symlink_to(tmp_path / "outside.md")

    report = answer(kb_run, "add", str(folder))

    assert counts(report) == {"added": 1}
    assert report["left_out"] == {"link": ["notes/link.md"]}
    assert "left out: 1 link\n" in kb_run("add", str(folder)).stderr
    # A link that was named leads to what the person meant.
    assert counts(answer(kb_run, "add", str(folder / "link.md"))) == {"added": 1}


def test_the_data_folder_is_never_content(kb_run: Run, folder: Path, tmp_path: Path) -> None:
    data, files = folder / "data", folder / "stored"
    settings = {"KB_DATA_DIR": str(data), "KB_FILES_URL": files.as_uri()}
    report = answer(kb_run, "add", str(folder), **settings)
    assert counts(report) == {"added": 1}
    report = answer(kb_run, "sync", str(folder), "--all", **settings)
    assert counts(report) == {"unchanged": 1}
    assert report["left_out"] == {"data": ["notes/data/", "notes/stored/"]}

    (tmp_path / "alias").symlink_to(data)
    (data / "notes.md").write_text("text", encoding="utf-8")
    for place in (data, files, tmp_path / "alias", data / "notes.md", next(files.iterdir())):
        for command in ("add", "sync"):
            refused = kb_run(command, str(place), **settings)
            assert refused.returncode == 2, place
            assert "data folder" in refused.stderr or "is not a folder" in refused.stderr
    assert len(answer(kb_run, "list", **settings)["data"]) == 1


def test_keys_and_credentials_are_left_out_with_a_warning_that_names_them(
    kb_run: Run, folder: Path
) -> None:
    (folder / "id_rsa").write_text(KEY, encoding="utf-8")
    (folder / "backup-of-key").write_text(KEY, encoding="utf-8")

    done = kb_run("add", str(folder))

    assert done.returncode == 0
    assert done.stdout == "1 added, 0 updated, 0 unchanged, 0 failed\n"
    assert (
        "warning: private keys or credentials left out: notes/backup-of-key, notes/id_rsa; --all adds them"
        in done.stderr
    )
    for name in ("id_rsa", "backup-of-key"):
        alone = kb_run("add", str(folder / name))
        assert alone.returncode == 1
        assert "private key" in alone.stderr and "--all" in alone.stderr
    assert counts(answer(kb_run, "add", str(folder), "--all")) == {
        "added": 1,
        "unchanged": 1,
        "copies": 1,
    }


def test_an_address_is_not_downloaded_and_the_next_step_is_said(kb_run: Run) -> None:
    done = kb_run("add", "https://example.org/page")

    assert done.returncode == 2
    assert "there is no file or folder 'https://example.org/page'" in done.stderr
    assert "save the page, then add its file" in done.stderr


def test_what_was_left_out_is_said_by_reason_and_named_when_asked(
    kb_run: Run, folder: Path
) -> None:
    (folder / ".gitignore").write_text("*.log\n", encoding="utf-8")
    for name in ("a.log", "b.log", "node_modules/x/README.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x", encoding="utf-8")
    os.mkfifo(folder / "pipe")

    brief, long = kb_run("add", str(folder)).stderr, kb_run("add", str(folder), "--verbose").stderr

    assert brief.splitlines() == [
        "left out: 1 hidden, 2 ignored (.gitignore, .kbignore), 1 pipe or device, 1 cache, dependency or temporary item"
    ]
    for place in ("notes/a.log", "notes/node_modules/", "notes/pipe", "notes/.gitignore"):
        assert place in long
    report = answer(kb_run, "add", str(folder))
    assert report["left_out"]["ignored"] == ["notes/a.log", "notes/b.log"]


# Files without text

READER = """
from kb_framework import api, hookimpl

@hookimpl
def kb_extractors():
    return [api.Extractor("ocr", __name__ + ":read", media="image", suffixes=(".jpg",))]

def read(data, name):
    return api.Extracted(f"The picture {name} shows a heron.", media="image")
"""
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(40)


def jobs(kb_run: Run) -> int:
    return answer(kb_run, "jobs")["meta"]["total"]


def test_what_is_not_text_is_left_out_by_kind_and_nothing_failed(kb_run: Run, folder: Path) -> None:
    for number in range(3):
        (folder / f"{number}.jpg").write_bytes(b"\xff\xd8\xff" + bytes([number]) * 40)
    (folder / "picture-without-suffix").write_bytes(PNG)
    (folder / "tool").write_bytes(b"\x7fELF" + bytes(range(256)))
    (folder / "unknown.dat").write_bytes(bytes(range(256)) * 4)
    (folder / "empty.md").write_bytes(b"")
    (folder / "blank.md").write_bytes(b" \n\n")
    # A folder's video is not too large: it is a video.
    with (folder / "film.mp4").open("wb") as film:
        film.truncate(200_000_000)
    expected = {"image": 4, "program": 1, "binary": 1, "empty": 2, "video": 1}

    done = kb_run("sync", str(folder))

    assert done.returncode == 0
    assert done.stdout.startswith("1 added, 0 updated, 0 unchanged, 0 failed")
    assert done.stderr == "left out: 4 images, 1 video, 1 program, 1 binary file, 2 empty files\n"
    assert jobs(kb_run) == 1
    for command in (("sync", str(folder)), ("add", str(folder)), ("add", str(folder), "--retry")):
        report = answer(kb_run, *command)
        assert counts(report) == {"unchanged": 1}
        assert {kind: len(places) for kind, places in report["left_out"].items()} == expected
    assert jobs(kb_run) == 1


def test_files_without_text_are_not_read_again(kb_run: Run, folder: Path) -> None:
    binary = folder / "unknown.dat"
    binary.write_bytes(bytes(range(256)) * 4)
    answer(kb_run, "add", str(folder))
    when = binary.stat().st_mtime_ns
    # Were it opened again, what it is now would be seen.
    binary.write_text("x" * 1024, encoding="utf-8")
    os.utime(binary, ns=(when, when))

    assert counts(answer(kb_run, "add", str(folder))) == {"unchanged": 1}
    assert counts(answer(kb_run, "add", str(folder), "--retry")) == {"added": 1, "unchanged": 1}
    assert counts(answer(kb_run, "add", str(folder))) == {"unchanged": 2}


def test_the_only_file_that_was_named_fails_if_it_has_no_text(kb_run: Run, folder: Path) -> None:
    (folder / "photo.png").write_bytes(PNG)
    (folder / "really-text.jpg").write_text("This is text under a wrong name.", encoding="utf-8")

    for _ in range(2):
        done = kb_run("add", str(folder / "photo.png"))
        assert done.returncode == 1
        assert "photo.png: nothing here reads" in done.stderr and "image" in done.stderr
    assert kb_run("add", str(folder / "photo.png"), str(folder / "plain.md")).returncode == 0
    assert counts(answer(kb_run, "add", str(folder / "really-text.jpg"))) == {"added": 1}


def test_keys_and_junk_inside_an_archive_are_left_out_with_a_warning(
    kb_run: Run, folder: Path
) -> None:
    members = {
        "id_rsa": "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
        "conf/.env": "TOKEN=abc",
        "conf/deploy": "-----BEGIN PRIVATE KEY-----\nabc",
        "node_modules/x/README.md": "a dependency",
        "ok.md": "a river in an archive",
    }
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)

    for arguments in (("add", str(folder)), ("add", str(folder), "--all")):
        done = kb_run(*arguments)
        assert done.returncode == 0, done.stderr
    paths = [item["path"] for item in answer(kb_run, "list")["data"]]

    assert "notes/a.zip/ok.md" in paths
    assert [
        path for path in paths if path.startswith("notes/a.zip/") and not path.endswith("ok.md")
    ] == []


def test_a_warning_names_keys_inside_an_archive(kb_run: Run, folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("id_rsa", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc")
        archive.writestr("ok.md", "a river in an archive")

    said = kb_run("add", str(folder)).stderr

    assert (
        "private keys or credentials left out: notes/a.zip/id_rsa; --all adds them, but none from inside another file"
        in said
    )


def test_images_inside_an_archive_are_left_out_too(kb_run: Run, folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("note.md", "# Inside\n\nA text.\n")
        archive.writestr("logo.png", PNG)

    report = answer(kb_run, "add", str(folder))

    assert counts(report) == {"added": 2}
    assert report["left_out"] == {"image": ["notes/a.zip/logo.png"]}
    assert kb_run("jobs", "--status", "failed", "--json").stdout.count('"failed"') == 0
    assert counts(answer(kb_run, "add", str(folder))) == {"unchanged": 2}


def test_what_should_be_text_and_cannot_be_read_fails_by_name(kb_run: Run, folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing more")
    (folder / "garbage.md").write_bytes(bytes(range(256)))

    done = kb_run("add", str(folder))

    assert done.returncode == 1
    assert (
        "failed: notes/broken.pdf: " in done.stderr and "failed: notes/garbage.md: " in done.stderr
    )
    assert done.stdout == "1 added, 0 updated, 0 unchanged, 2 failed\n"


def test_a_plugin_that_reads_images_is_given_them(
    kb_run: Run, kb_home: Path, kb_plugin: Install, folder: Path
) -> None:
    kb_plugin(
        "reader",
        READER,
    )
    (folder / "photo.jpg").write_bytes(PNG)

    assert counts(answer(kb_run, "add", str(folder))) == {"added": 2}


# Long texts


def test_a_text_that_is_too_long_is_read_up_to_the_limit_and_that_is_said(
    kb_run: Run, folder: Path
) -> None:
    log = folder / "big.log"
    log.write_text(
        "".join(f"line {number} of the log\n" for number in range(2000)), encoding="utf-8"
    )
    table = folder / "big.csv"
    table.write_text(
        "name,value\n" + "".join(f"row {number},{number}\n" for number in range(2000)),
        encoding="utf-8",
    )
    limit = {"KB_MAX_TEXT_CHARS": "20000"}

    done = kb_run("add", str(folder), **limit)

    assert done.returncode == 0
    assert done.stdout == "3 added, 0 updated, 0 unchanged, 0 failed\n"
    assert (
        "shortened: notes/big.log: the first " in done.stderr
        and "shortened: notes/big.csv: the first " in done.stderr
    )
    document = shown(kb_run)["notes/big.log"]
    cut = document["metadata"]["truncated"]
    assert 10_000 < cut["kept"] <= 20_000 and cut["characters"] == len(
        log.read_text(encoding="utf-8")
    )
    text = kb_run("show", str(document["id"]), "--file", **limit).stdout
    assert text == log.read_text(encoding="utf-8")
    assert answer(kb_run, "search", "line 12 of the log", "--mode", "lexical", **limit)["hits"]

    log.write_text("a short log now\n", encoding="utf-8")
    answer(kb_run, "add", str(folder), **limit)
    assert "truncated" not in shown(kb_run)["notes/big.log"]["metadata"]


# Ctrl-C


def interrupted(command: list[str], ready: Callable[[], bool]) -> tuple[int, str]:
    """Run kb, press Ctrl-C as soon as it is ready, and return its exit code and messages."""
    process = subprocess.Popen(kb_line(*command), stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not ready():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate()
    return process.returncode, messages


def test_an_interrupted_add_says_what_was_done_and_how_to_continue(
    kb_home: Path, kb_run: Run, tmp_path: Path
) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for number in range(600):
        (many / f"{number}.md").write_text(
            f"# {number}\n\n" + f"word{number} " * 300, encoding="utf-8"
        )

    code, messages = interrupted(
        ["add", str(many)], lambda: len(list((kb_home / "files").glob("??/*"))) > 20
    )

    assert code == 130
    found = re.search(r"kb: interrupted: (\d+) added.*; the same command continues", messages)
    assert found, messages
    assert int(found[1]) == len(shown_ids(kb_run))
    assert counts(answer(kb_run, "add", str(many))) == {
        "added": 600 - int(found[1]),
        "unchanged": int(found[1]),
    }


def shown_ids(kb_run: Run) -> set[int]:
    pages = answer(kb_run, "list", "--per-page", "100")["meta"]["total_pages"]
    listed = (
        answer(kb_run, "list", "--per-page", "100", "--page", str(page + 1))["data"]
        for page in range(pages)
    )
    return {item["id"] for page in listed for item in page}
