"""Where files are stored: a folder or a bucket, the same promises."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from kb_files.api import LocalFiles
from kb_files.plugin import kb_file_stores

from kb_framework.api.files import Files, open_files
from kb_framework.errors import ConfigInvalid, FilesUnreachable

DATA = b"zebras" * 1000
KEY = (digest := hashlib.sha256(DATA).hexdigest())[:2] + "/" + digest


@pytest.fixture(params=["folder", "bucket"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return open_files(
        kb_file_stores(),
        None if request.param == "folder" else request.getfixturevalue("s3_url"),
        tmp_path,
    )


def content(files: Files, key: str) -> bytes:
    return b"".join(files.parts(key))


def test_a_file_is_in_its_place_only_when_it_was_published(files: Files) -> None:
    staged = files.stage(DATA)
    assert staged.key == KEY
    assert files.keys() == set()
    assert files.size(KEY) is None

    files.publish(staged)
    files.discard(staged)

    assert files.keys() == {KEY}
    assert files.size(KEY) == len(DATA)
    assert content(files, KEY) == DATA


def test_data_in_parts_is_the_same_file_and_what_breaks_off_leaves_nothing(files: Files) -> None:
    def broken() -> Iterator[bytes]:
        yield DATA
        raise ValueError("the sender went away")

    with pytest.raises(ValueError, match="went away"):
        files.stage_parts(broken())
    files.publish(files.stage_parts([DATA[:7], DATA[7:]]))

    assert files.keys() == {KEY}
    assert content(files, KEY) == DATA


def test_what_was_staged_for_nothing_is_thrown_away(files: Files) -> None:
    files.discard(files.stage(DATA))

    assert files.keys() == set()
    with pytest.raises(FileNotFoundError):
        content(files, KEY)


def test_publishing_the_same_content_twice_and_removing_it_twice_is_fine(files: Files) -> None:
    files.publish(files.stage(DATA))
    files.publish(files.stage(DATA))
    assert files.keys() == {KEY}

    files.remove(KEY)
    files.remove(KEY)
    assert files.keys() == set()

    files.publish(files.stage(DATA))
    other = files.stage(b"other")
    files.publish(other)
    files.remove_all([KEY, other.key])
    files.remove_all([])

    assert files.keys() == set()


@pytest.mark.parametrize(
    "key", ["../../etc/passwd", "ab/../../x", "ab/" + "c" * 63, "", "ab/" + "A" * 64]
)
def test_only_keys_are_keys(files: Files, key: str) -> None:
    for ask in (files.size, files.parts, files.remove):
        with pytest.raises(ValueError, match="not a file key"):
            ask(key)


def test_files_that_belong_to_nobody_are_set_aside_where_a_person_finds_them(files: Files) -> None:
    files.publish(files.stage(DATA))

    where = files.set_aside([KEY])

    assert where.endswith("lost-files")
    assert files.keys() == set()


def test_whoever_reads_the_files_of_a_moment_is_seen_by_all(files: Files) -> None:
    assert not files.is_pinned()
    with files.pinned():
        assert files.is_pinned()
        with files.pinned():
            assert files.is_pinned()
        assert files.is_pinned()
    assert not files.is_pinned()


def test_parts_of_an_upload_come_back_in_order(files: Files) -> None:
    upload = str(uuid.uuid4())
    files.put_part(upload, 0, b"first ")
    files.put_part(upload, 6, b"second ")
    files.put_part(upload, 13, b"third")
    files.put_part(upload, 6, b"second ")

    assert files.uploaded(upload) == [(0, 6), (6, 7), (13, 5)]
    assert b"".join(files.upload_parts(upload)) == b"first second third"
    assert files.uploaded(str(uuid.uuid4())) == []

    files.remove_upload(upload)
    assert files.uploaded(upload) == []
    assert files.keys() == set()
    with pytest.raises(ValueError, match="not an upload"):
        files.put_part("../outside", 0, b"x")


def test_what_is_fresh_is_not_abandoned_and_what_is_old_goes(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path / "files")
    upload = str(uuid.uuid4())
    staged = files.stage(DATA)
    files.put_part(upload, 0, b"part")
    of_before = tmp_path / "files" / ".staged-abcdefgh"
    of_before.write_bytes(DATA)
    files.remove_abandoned()
    assert of_before.exists()

    old = time.time() - 2 * 24 * 3600
    for path in (Path(staged.place), of_before, tmp_path / "files" / ".uploads" / upload):
        os.utime(path, (old, old))
    files.remove_abandoned()

    assert not of_before.exists()
    assert files.uploaded(upload) == []
    # However old it is, its process is alive.
    assert Path(staged.place).exists()
    files.close()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_what_a_killed_process_staged_is_removed_at_once(tmp_path: Path) -> None:
    source = (
        "import os, signal, sys; from pathlib import Path; from kb_files.api import LocalFiles\n"
        "LocalFiles(Path(sys.argv[1])).stage(b'zebras'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    files = LocalFiles(tmp_path)
    mine = files.stage(DATA)
    subprocess.run([sys.executable, "-c", source, str(tmp_path)], timeout=600)
    assert len(files.staged()) == 1

    assert files.remove_staged() == 1

    assert files.staged() == []
    assert Path(mine.place).exists()
    files.close()


def test_fresh_objects_of_a_bucket_are_not_abandoned(s3_url: str, tmp_path: Path) -> None:
    files = open_files(kb_file_stores(), s3_url, tmp_path)
    staged = files.stage(DATA)
    files.remove_abandoned()
    files.publish(staged)
    assert files.keys() == {KEY}


def test_two_prefixes_of_a_bucket_do_not_see_each_other(s3_url: str, tmp_path: Path) -> None:
    here = open_files(kb_file_stores(), s3_url, tmp_path)
    there = open_files(kb_file_stores(), s3_url.replace("some/prefix", "some/prefix2"), tmp_path)
    here.publish(here.stage(DATA))

    assert here.keys() == {KEY}
    assert there.keys() == set()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3://", "names no bucket"),
        ("s3://me:hush@bucket", "credentials do not belong in it"),
        ("s3://bucket?secret_access_key=hush", "secret_access_key is none of"),
        ("ftp://bucket", "not known"),
    ],
)
def test_an_address_that_cannot_be_used_says_why_and_repeats_no_secret(
    url: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigInvalid, match=reason) as refused:
        open_files(kb_file_stores(), url, tmp_path)
    assert "hush" not in f"{refused.value.message}{refused.value.hint}"


def test_a_bucket_that_does_not_exist_is_told(s3_url: str, tmp_path: Path) -> None:
    files = open_files(kb_file_stores(), s3_url.replace("s3://b", "s3://nothing"), tmp_path)
    with pytest.raises(FilesUnreachable, match="no such bucket"):
        files.stage(DATA)
