"""Listing a folder."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest
from kb_documents.folders import list_folder, open_file, within
from kb_documents.skip_rules import counted, is_private_key, kind_by_name


def write(root: Path, *names: str, text: str = "x") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def names(root: Path, **patterns) -> list[str]:
    return [
        file.shown.removeprefix(f"{root.name}/") for file in list_folder(root, **patterns).files
    ]


def test_files_of_all_levels_are_listed_by_their_way_from_the_folder(tmp_path: Path) -> None:
    root = tmp_path / "notes"
    write(root, "b.md", "a/c.md", "a/b/d.txt")

    assert [file.shown for file in list_folder(root).files] == [
        "notes/a/b/d.txt",
        "notes/a/c.md",
        "notes/b.md",
    ]


def test_hidden_files_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.md", ".hidden.md", ".git/config", "b/.x/c.md")

    assert names(tmp_path) == ["a.md"]


def test_ignore_files_work_as_with_git(tmp_path: Path) -> None:
    write(
        tmp_path,
        "a.md",
        "a.log",
        "keep.log",
        "build/x.md",
        "sub/b.log",
        "sub/c.md",
        "sub/deep/only.md",
    )
    write(tmp_path, ".gitignore", text="*.log\nbuild/\n!keep.log\n")
    write(tmp_path, "sub/.kbignore", text="c.md\n!b.log\n/deep/\n")

    assert names(tmp_path) == ["a.md", "keep.log", "sub/b.log"]


def test_patterns_include_and_exclude(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b.txt", "docs/c.md", "docs/d.txt", "old/e.md")

    assert names(tmp_path, include=["*.md"]) == ["a.md", "docs/c.md", "old/e.md"]
    assert names(tmp_path, include=["*.md"], exclude=["old/"]) == ["a.md", "docs/c.md"]


def left_out(root: Path, **options) -> dict[str, list[str]]:
    found = list_folder(root, **options).left_out
    return {
        reason: [place.removeprefix(f"{root.name}/") for place in places]
        for reason, places in found.items()
    }


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


# Names


def test_names_that_are_not_utf8_are_listed_and_lead_back_to_their_files(tmp_path: Path) -> None:
    raw = [
        b"bad\xff\xfe.md",
        b"two\nlines.md",
        b"esc\x1b[31m.md",
        "NFD \u0041\u0308.md".encode(),
        rb"literal\xff.md",
        b"Wow!/a.md",
    ]
    for number, name in enumerate(raw):
        place = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"text {number}", encoding="utf-8")

    files = list_folder(tmp_path).files

    assert len(files) == len(raw)
    assert {file.place.read_text(encoding="utf-8") for file in files if file.place} == {
        f"text {n}" for n in range(len(raw))
    }
    assert len({file.source for file in files}) == len(raw)
    for file in files:
        assert file.shown.isprintable() and unicodedata.is_normalized("NFC", file.shown)
    assert [file.shown.partition("/")[2] for file in files if "bad" in file.shown] == [
        r"bad\xff\xfe.md"
    ]


# What is left out


def test_links_are_never_followed_and_are_counted(tmp_path: Path) -> None:
    write(tmp_path, "in/a.md", "out/secret.md")
    for name, target in {
        "to-file.md": "../out/secret.md",
        "to-self.md": "a.md",
        "to-folder": "../out",
        "broken.md": "gone",
    }.items():
        (tmp_path / "in" / name).symlink_to(target)

    assert names(tmp_path / "in") == ["a.md"]
    assert names(tmp_path / "in", everything=True) == ["a.md"]
    assert left_out(tmp_path / "in") == {
        "link": ["broken.md", "to-file.md", "to-folder", "to-self.md"]
    }


def test_what_is_not_a_regular_file_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    os.mkfifo(tmp_path / "pipe.md")
    os.mkfifo(tmp_path / ".gitignore")

    assert names(tmp_path) == ["a.md"]
    assert left_out(tmp_path) == {"special": ["pipe.md"], "hidden": [".gitignore"]}


def test_keys_junk_and_caches_are_left_out_unless_everything_is_wanted(tmp_path: Path) -> None:
    keys = ["id_rsa", "keys/id_ed25519", "vault.kdbx", "prod.env", "store.p12"]
    junk = [
        "web/node_modules/x/README.md",
        "venv/lib/a.md",
        "src/__pycache__/m.txt",
        "rust/target/doc/a.md",
        "~$draft.docx",
    ]
    write(
        tmp_path,
        "a.md",
        "id_rsa.pub",
        "target/kept.md",
        *keys,
        *junk,
        "venv/pyvenv.cfg",
        ".hidden.md",
    )
    write(
        tmp_path, "rust/target/CACHEDIR.TAG", text="Signature: 8a477f597d28d172789f06886806bc55\n"
    )
    write(tmp_path, "target/CACHEDIR.TAG", text="a text about caches")

    assert names(tmp_path) == ["a.md", "id_rsa.pub", "target/CACHEDIR.TAG", "target/kept.md"]
    found = left_out(tmp_path)
    assert sorted(found.pop("secret")) == sorted(keys)
    assert sorted(found.pop("junk")) == [
        "rust/target/",
        "src/__pycache__/",
        "venv/",
        "web/node_modules/",
        "~$draft.docx",
    ]
    assert found == {"hidden": [".hidden.md"]}
    everything = names(tmp_path, everything=True)
    assert set(everything) >= {*keys, *junk, ".hidden.md"}
    assert left_out(tmp_path, everything=True) == {}


def test_credentials_are_known_by_their_folder_too(tmp_path: Path) -> None:
    write(tmp_path, ".aws/credentials", ".aws/notes.md", "credentials")

    assert left_out(tmp_path / ".aws") == {"secret": ["credentials"]}
    assert names(tmp_path) == ["credentials"]


def test_the_folder_that_was_asked_for_is_read_whatever_it_is_called(tmp_path: Path) -> None:
    write(tmp_path, "node_modules/README.md", "venv/pyvenv.cfg", "venv/a.md")

    assert names(tmp_path / "node_modules") == ["README.md"]
    assert names(tmp_path / "venv") == ["a.md", "pyvenv.cfg"]


def test_a_forbidden_folder_is_never_looked_into(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "data/engine.json", "data/files/ab/x")
    (tmp_path / "alias").symlink_to("data")

    for never in (tmp_path / "data", tmp_path / "alias"):
        assert names(tmp_path, never=[never]) == ["a.md"]
        assert names(tmp_path, never=[never], everything=True) == ["a.md"]
        assert within(tmp_path / "data" / "files" / "ab", [never]) == never
        assert within(tmp_path / "alias", [never]) == never
    assert within(tmp_path / "a.md", [tmp_path / "data"]) is None


def test_an_ignore_file_that_cannot_be_used_ignores_nothing(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "sub/b.md", "sub/c.md")
    (tmp_path / ".gitignore").mkdir()
    (tmp_path / "sub" / ".gitignore").write_bytes(b"b.md\n[\n!\n\xff\xfe\n/\n\\\n[z-a]\n")

    assert names(tmp_path) == ["a.md", "sub/c.md"]


@pytest.mark.parametrize(
    ("data", "name", "is_key"),
    [
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n", "backup", True),
        (b"\n-----BEGIN PRIVATE KEY-----\nMIIE\n", "server.txt", True),
        (b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n", "me.asc", True),
        (b"PuTTY-User-Key-File-2: ssh-rsa\n", "putty", True),
        (
            b"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n-----BEGIN RSA PRIVATE KEY-----\nMII\n",
            "all.pem",
            True,
        ),
        (b"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n", "ca.pem", False),
        (b"-----BEGIN PUBLIC KEY-----\nMII\n", "public.pem", False),
        (b"\xef\xbb\xbf-----BEGIN RSA PRIVATE KEY-----\nMII\n", "a.txt", True),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n".encode("utf-16"), "a.txt", True),
        (b"Bag Attributes\n    friendlyName: a\n-----BEGIN PRIVATE KEY-----\nMII\n", "a.txt", True),
        (b"# created: 2024-01-01\n# public key: age1q\nAGE-SECRET-KEY-1QQQ\n", "a.txt", True),
        (
            b'{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\nMII"}',
            "a.json",
            True,
        ),
        (b"MII\n" * 20_000 + b"-----BEGIN PRIVATE KEY-----\n", "chain.pem", True),
        (b'{"public_key": "-----BEGIN PUBLIC KEY-----"}', "a.json", False),
        (b"# How to make keys\n\n-----BEGIN RSA PRIVATE KEY-----\n", "keys.md", False),
    ],
)
def test_a_private_key_is_known_by_its_content(data: bytes, name: str, is_key: bool) -> None:
    assert is_private_key(data, name) is is_key


def test_files_without_text_are_known_by_their_names_unless_something_reads_them() -> None:
    assert [kind_by_name(name) for name in ("a.JPG", "b.mp4", "c.exe", "d.md", "e.ts", "f", ".png", "g.dat")] == [
        "image", "video", "program", None, None, None, None, None,
    ]  # fmt: skip
    assert kind_by_name("a.jpg", {".jpg"}) is None
    assert kind_by_name("a.jpg", {"image"}) is None


def test_what_was_left_out_is_counted_in_words() -> None:
    assert (
        counted({"hidden": ["a", "b"], "image": ["c"], "odd": ["d", "e"], "link": []})
        == "1 image, 2 hidden, 2 odd files"
    )


# Reading


def test_a_link_that_takes_a_files_place_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "in/sub/a.md", "out/a.md", text="secret")
    (file,) = list_folder(tmp_path / "in").files
    assert file.place
    with open_file(file.place) as content:
        assert content.read() == b"secret"

    (tmp_path / "in" / "sub" / "a.md").unlink()
    (tmp_path / "in" / "sub" / "a.md").symlink_to(tmp_path / "out" / "a.md")
    with pytest.raises(OSError):
        open_file(file.place)

    (tmp_path / "in" / "sub" / "a.md").unlink()
    (tmp_path / "in" / "sub").rmdir()
    (tmp_path / "in" / "sub").symlink_to(tmp_path / "out")
    with pytest.raises(OSError):
        open_file(file.place)


def test_a_pipe_that_takes_a_files_place_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.md")

    with pytest.raises(OSError, match="not a regular file"):
        open_file(tmp_path / "a.md")
