"""Stored bytes that change on disk: found, named, healed, and never worth more than themselves."""

from __future__ import annotations

import io
import json
import os
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError
from kb_testing.fixtures import Move, Run, kb_line

from .conftest import doctor, fill

Sql = Callable[..., list[tuple]]
Damage = Callable[[Path], object]


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    """Change one byte, and neither size nor time."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


every_damage = pytest.mark.parametrize(
    "damage", [emptied, flip, Path.unlink], ids=["emptied", "one bit", "gone"]
)


def stored_file(home: Path, sql: Sql, document_id: int) -> Path:
    ((key,),) = sql("SELECT file FROM documents WHERE id = ?", document_id)
    return home / "files" / key


def problems(engine: Engine) -> str:
    return "\n".join(doctor(engine)["problems"])


@every_damage
def test_doctor_names_a_damaged_file_until_it_is_whole_again(
    kb_engine: Engine, kb_home: Path, sql: Sql, damage: Damage
) -> None:
    number = fill(kb_engine)[2]
    path = stored_file(kb_home, sql, number)
    whole = path.read_bytes()
    damage(path)

    for _ in range(2):
        report = doctor(kb_engine)
        assert report["status"] == "error"
        (message,) = report["problems"]
        assert f"document {number} (Topic 2, folder/f2.md)" in message
        assert path.name in message
        assert "kb add" in message
    path.write_bytes(whole)

    assert doctor(kb_engine)["status"] == "ok"


@pytest.mark.parametrize("damage", [emptied, flip], ids=["emptied", "one bit"])
def test_a_damaged_file_is_not_served(
    kb_engine: Engine, kb_home: Path, kb_run: Run, sql: Sql, damage: Damage
) -> None:
    numbers = fill(kb_engine)
    damage(stored_file(kb_home, sql, numbers[0]))

    with pytest.raises(
        EngineError, match=r"document 1 \(Topic 0, folder/f0.md\) is damaged"
    ) as refused:
        kb_engine.get_file(numbers[0])
    shown = kb_run("show", str(numbers[0]), "--file")

    assert refused.value.code == "file_damaged"
    assert (shown.returncode, shown.stdout) == (3, "")
    assert "kb add" in shown.stderr
    assert kb_engine.get_file(numbers[2])


@every_damage
def test_adding_the_original_again_heals_its_file(
    kb_engine: Engine, kb_home: Path, sql: Sql, damage: Damage
) -> None:
    data = b"# Heat pumps\n\nA heat pump moves heat."
    number = kb_engine.add_file("heat.md", data)["document"]["id"]
    damage(stored_file(kb_home, sql, number))

    again = kb_engine.add_file("heat.md", data)

    assert (again["document"]["id"], again["duplicate"]) == (number, True)
    assert kb_engine.get_file(number) == data
    assert doctor(kb_engine)["status"] == "ok"


@every_damage
def test_adding_a_folder_again_heals_a_file_that_doctor_found(
    kb_home: Path, tmp_path: Path, kb_run: Run, sql: Sql, damage: Damage
) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.md").write_text(f"# About {name}\n\nText of {name}.")
    assert kb_run("sync", str(folder)).returncode == 0
    damage(stored_file(kb_home, sql, 1))
    assert kb_run("doctor").returncode == 3

    assert kb_run("sync", str(folder)).returncode == 0

    assert kb_run("doctor").returncode == 0
    assert sql("SELECT count(*) FROM documents") == [(2,)]


def test_a_repair_forgets_no_file_that_comes_back(
    kb_engine: Engine, kb_home: Path, sql: Sql
) -> None:
    data = b"# Heat pumps"
    number = kb_engine.add_file("heat.md", data)["document"]["id"]
    stored_file(kb_home, sql, number).unlink()
    kb_engine.post("/doctor/repair")

    kb_engine.add_file("heat.md", data)

    assert kb_engine.get_file(number) == data


@pytest.mark.parametrize(
    "text",
    ["A heat pump m\u00f6ves heat.", "A heat pump \udcff heat"],
    ids=["other text", "no text"],
)
def test_a_changed_chunk_is_named_and_healed_by_adding_its_original_again(
    kb_engine: Engine, sql: Sql, text: str
) -> None:
    if os.environ.get("KB_DATABASE_URL") and "\udcff" in text:
        pytest.skip("PostgreSQL stores no text that is none")
    data = b"# Heat pumps\n\nA heat pump moves heat."
    added = kb_engine.add_file("heat.md", data)["document"]
    (chunk,) = kb_engine.get_document_chunks(added["id"])["data"]
    raw = text.encode("utf-8", "surrogateescape")
    changed = "?" if os.environ.get("KB_DATABASE_URL") else "CAST(? AS TEXT)"
    sql(f"UPDATE chunks SET content = {changed}", raw.decode() if changed == "?" else raw)

    assert f"chunk {chunk['id']} of document 1 (Heat pumps, heat.md) is damaged" in problems(
        kb_engine
    )
    kb_engine.add_file("heat.md", data)

    assert doctor(kb_engine)["status"] == "ok"
    assert kb_engine.get_document_chunks(added["id"])["data"] == [chunk]


def test_a_deep_check_reads_everything_and_others_take_turns(
    kb_engine: Engine, kb_home: Path, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb_files.integrity._BYTES_PER_CHECK", 1)
    monkeypatch.setattr("kb_files.integrity._CHUNKS_PER_CHECK", 1)
    monkeypatch.setattr("kb_files.integrity._CHUNKS_AT_ONCE", 1)
    numbers = fill(kb_engine, 4)
    flip(stored_file(kb_home, sql, numbers[3]))
    sql("UPDATE chunks SET content = ? WHERE document_id = ?", "other", numbers[1])

    found = set()
    for _ in range(9):
        found |= set(doctor(kb_engine)["problems"])
    deep = kb_engine.post("/doctor/deep")

    assert deep["finished"]
    assert found == {check["message"] for check in deep["checks"] if check["state"] == "error"}
    assert len(found) == 2


@every_damage
@pytest.mark.parametrize(
    "command",
    [
        "export",
        pytest.param("backup", marks=pytest.mark.sqlite_only("a backup is a copy of the file")),
    ],
)
def test_a_damaged_file_costs_an_archive_that_one_file(
    kb_home: Path,
    tmp_path: Path,
    kb_run: Run,
    kb_move: Move,
    sql: Sql,
    command: str,
    damage: Damage,
) -> None:
    with connect() as engine:
        numbers = fill(engine)
    damage(stored_file(kb_home, sql, numbers[0]))
    archive = tmp_path / "archive"

    saved = kb_run(command, str(archive))
    kb_move(tmp_path / "other-home")
    taken = (
        kb_run("restore", str(archive))
        if command == "backup"
        else kb_run("import", str(archive), "--yes")
    )

    assert (saved.returncode, taken.returncode) == (1, 1)
    for said in (saved.stderr, taken.stderr):
        assert "document 1 (Topic 0, folder/f0.md)" in said
        assert "kb add" in said
    with connect() as engine:
        assert engine.list_documents()["meta"]["total"] == 6
        assert [bool(engine.get_file(number)) for number in numbers[1:]] == [True] * 5


@pytest.mark.parametrize("what", ["file", "text"])
def test_adding_an_archive_again_heals_what_came_from_inside_it(
    kb_home: Path, tmp_path: Path, kb_run: Run, sql: Sql, what: str
) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    with zipfile.ZipFile(folder / "a.zip", "w") as made:
        made.writestr("in.md", "Words from inside.")
    assert kb_run("sync", str(folder)).returncode == 0
    ((number,),) = sql("SELECT id FROM documents WHERE title = ?", "in.md")
    if what == "file":
        emptied(stored_file(kb_home, sql, number))
    else:
        sql("UPDATE chunks SET content = ? WHERE document_id = ?", "other", number)
    assert kb_run("doctor").returncode == 3

    assert kb_run("sync", str(folder)).returncode == 0

    assert kb_run("doctor").returncode == 0
    assert kb_run("show", str(number), "--file").stdout == "Words from inside."


def damage_member(archive: Path, name: str) -> None:
    """Change a byte in the packed content of one member."""
    with zipfile.ZipFile(archive) as opened:
        info = next(info for info in opened.infolist() if info.filename.startswith(name))
    data = bytearray(archive.read_bytes())
    data[info.header_offset + 30 + len(info.filename.encode()) + 20 + info.compress_size // 2] ^= (
        0xFF
    )
    archive.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "command",
    [
        "export",
        pytest.param("backup", marks=pytest.mark.sqlite_only("a backup is a copy of the file")),
    ],
)
def test_a_damaged_file_in_an_archive_costs_that_one_file(
    kb_home: Path, tmp_path: Path, kb_run: Run, kb_move: Move, command: str
) -> None:
    with connect() as engine:
        fill(engine)
    archive = tmp_path / "archive"
    assert kb_run(command, str(archive)).returncode == 0
    damage_member(archive, "files/")
    kb_move(tmp_path / "other-home")

    taken = (
        kb_run("restore", str(archive))
        if command == "backup"
        else kb_run("import", str(archive), "--yes")
    )

    assert taken.returncode == 1
    assert taken.stderr.count("is damaged in the") == 1
    with connect() as engine:
        numbers = [document["id"] for document in engine.list_documents()["data"]]
        assert len(numbers) == 6
        assert problems(engine).count("the stored file of") == (0 if command == "export" else 1)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "command",
    [
        "export",
        pytest.param("backup", marks=pytest.mark.sqlite_only("a backup is a copy of the file")),
    ],
)
def test_adding_a_folder_again_brings_back_a_file_that_an_archive_lacked(
    kb_home: Path, tmp_path: Path, kb_run: Run, kb_move: Move, sql: Sql, command: str, when: str
) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "a.md").write_text("# About pumps\n\nA heat pump moves heat.")
    assert kb_run("sync", str(folder)).returncode == 0
    archive = tmp_path / "archive"
    if when == "before":
        flip(stored_file(kb_home, sql, 1))
    kb_run(command, str(archive))
    if when == "after":
        damage_member(archive, "files/")
    kb_move(tmp_path / "other-home")
    taken = (
        kb_run("restore", str(archive))
        if command == "backup"
        else kb_run("import", str(archive), "--yes")
    )
    assert "a.md) " in taken.stderr

    assert kb_run("sync", str(folder)).returncode == 0

    with connect() as engine:
        assert engine.get_file(1) == (folder / "a.md").read_bytes()
        assert doctor(engine)["status"] == "ok"


def test_a_changed_chunk_costs_an_archive_nothing_but_a_warning(
    kb_home: Path, tmp_path: Path, kb_run: Run, kb_move: Move, sql: Sql
) -> None:
    with connect() as engine:
        numbers = fill(engine)
    sql("UPDATE chunks SET content = ? WHERE document_id = ?", "other words", numbers[0])
    archive = tmp_path / "archive"

    saved = kb_run("export", str(archive), "--json")
    kb_move(tmp_path / "other-home")
    taken = kb_run("import", str(archive), "--yes", "--json")

    assert (saved.returncode, taken.returncode) == (1, 1)
    assert "chunk" in json.loads(saved.stdout)["damaged"][0]
    assert "document 1 (Topic 0, folder/f0.md)" in json.loads(taken.stdout)["preview"]["damaged"][0]
    with connect() as engine:
        assert engine.list_documents()["meta"]["total"] == 6
        assert "chunk" in problems(engine)


def test_an_archive_on_standard_output_warns_too(kb_home: Path, tmp_path: Path, sql: Sql) -> None:
    with connect() as engine:
        numbers = fill(engine)
    emptied(stored_file(kb_home, sql, numbers[0]))

    saved = subprocess.run(kb_line("export", "-"), capture_output=True, timeout=600)

    assert saved.returncode == 1
    assert b"Topic 0" in saved.stderr
    with zipfile.ZipFile(io.BytesIO(saved.stdout)) as archive:
        assert archive.testzip() is None
