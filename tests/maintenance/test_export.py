"""`kb export` and `kb import`: there and back, twice, interrupted, and with archives that lie."""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kb_framework.api import Upload
from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError
from kb_testing.fixtures import Install, Move, Run, RunningServer, StoreOf, stored

from .conftest import doctor, everything, fill
from .test_reindex import killed

Sql = Callable[..., list[tuple]]


def exported(engine: Engine) -> bytes:
    return engine.export_archive()


def imported(engine: Engine, archive: bytes) -> dict:
    preview = engine.upload_import(Upload([archive], len(archive)))
    while not (done := engine.apply_import(preview["import_id"]))["finished"]:
        pass
    return done


@pytest.fixture
def archive(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kb_move: Move
) -> tuple[dict, bytes]:
    """What one knowledge base holds, and its export; the current one is another, and empty."""
    with connect() as engine:
        fill(engine)
        engine.bulk_tags(tags=["file"], add=["bulk"])
        before, data = everything(engine), exported(engine)
    kb_move(tmp_path / "other-home")
    return before, data


def test_there_and_back_everything_is_the_same(archive: tuple[dict, bytes]) -> None:
    with connect() as engine:
        done = imported(engine, archive[1])

        assert (done["documents"], done["renumbered"]) == (6, {})
        assert everything(engine) == archive[0]
        assert doctor(engine)["status"] == "ok"


def test_importing_twice_changes_nothing(archive: tuple[dict, bytes]) -> None:
    with connect() as engine:
        imported(engine, archive[1])

        preview = engine.upload_import(Upload([archive[1]], len(archive[1])))

        assert preview["documents"] == {"new": 0, "identical": 6, "different": 0}
        assert preview["tables"]["jobs"]["new"] == 0
        done = imported(engine, archive[1])
        assert (done["documents"], done["chunks"], done["rows"]) == (0, 0, {})
        assert everything(engine) == archive[0]


def test_a_preview_changes_nothing(
    archive: tuple[dict, bytes], tmp_path: Path, kb_run: Run
) -> None:
    file = tmp_path / "x.kbz"
    file.write_bytes(archive[1])

    done = kb_run("import", str(file), "--dry-run", "--json")

    preview = json.loads(done.stdout)["preview"]
    assert preview["documents"]["new"] == 6
    assert {item["state"] for item in preview["sample"]} == {"new"}
    assert json.loads(kb_run("list", "--json").stdout)["meta"]["total"] == 0
    assert kb_run("import", str(file)).returncode == 2
    assert not list((tmp_path / "other-home" / "imports").glob("*"))


def test_ids_that_are_taken_are_given_anew_and_reported(archive: tuple[dict, bytes]) -> None:
    with connect() as engine:
        first = engine.add_note("was here first", title="first")["document"]["id"]

        done = imported(engine, archive[1])

        number = done["renumbered"][str(first)]
        assert engine.get_document(first)["title"] == "first"
        ingest = next(
            job
            for job in engine.list_jobs(per_page=100)["data"]
            if job["filename"] == "folder/f0.md"
        )
        assert ingest["document_id"] == number
        kept = {item["title"] for item in archive[0]["documents"]} | {"first"}
        assert {item["title"] for item in engine.list_documents()["data"]} == kept
        again = imported(engine, archive[1])
        assert (again["documents"], again["renumbered"]) == (0, done["renumbered"])


def test_what_differs_here_is_reported_and_left_alone(archive: tuple[dict, bytes]) -> None:
    with connect() as engine:
        imported(engine, archive[1])
        number = engine.list_documents(q="f0.md")["data"][0]["id"]
        engine.set_document_tags(number, ["mine"])

        preview = engine.upload_import(Upload([archive[1]], len(archive[1])))

        assert preview["documents"] == {"new": 0, "identical": 5, "different": 1}
        assert preview["sample"][0]["state"] == "different"
        imported(engine, archive[1])
        assert engine.get_document(number)["tags"] == ["mine"]


def test_the_command_line_writes_and_reads_the_same(
    archive: tuple[dict, bytes], tmp_path: Path, kb_run: Run
) -> None:
    file, back = tmp_path / "x.kbz", tmp_path / "y.kbz"
    file.write_bytes(archive[1])

    done = kb_run("import", str(file), "--yes")

    assert done.returncode == 0, done.stderr
    assert "6 documents" in done.stdout
    assert kb_run("export", str(back)).returncode == 0
    members = [zipfile.ZipFile(io.BytesIO(data)) for data in (archive[1], back.read_bytes())]
    for name in ("documents.ndjson", "chunks.ndjson", "tables/jobs.ndjson"):
        assert members[0].read(name) == members[1].read(name)
    assert "nothing is new" in kb_run("import", str(back), "--yes").stdout


def test_a_running_engine_streams_too(
    kb_server: RunningServer, tmp_path: Path, kb_run: Run, kb_store_of: StoreOf
) -> None:
    kb_run("note", "over the wire")
    file = tmp_path / "x.kbz"

    assert kb_run("export", str(file)).returncode == 0
    done = kb_run(
        "import", str(file), "--yes", KB_DATA_DIR=str(tmp_path / "third"), **kb_store_of()
    )

    assert "1 documents" in done.stdout
    assert "nothing is new" in kb_run("import", str(file), "--yes").stdout


def test_an_archive_may_be_larger_than_a_file_but_not_than_its_own_limit(
    kb_home: Path, kb_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kb_move: Move
) -> None:
    with connect() as engine:
        engine.add_file("random.txt", secrets.token_hex(2_500_000).encode())
        data = exported(engine)
    file = tmp_path / "x.kbz"
    file.write_bytes(data)
    kb_move(tmp_path / "other-home")

    refused = kb_run("import", str(file), "--yes", KB_MAINTENANCE_MAX_IMPORT_BYTES="1000000")
    assert "KB_MAINTENANCE_MAX_IMPORT_BYTES" in refused.stderr
    done = kb_run("import", str(file), "--yes", KB_MAX_FILE_BYTES="1000")

    assert "1 documents" in done.stdout, done.stderr


def test_killed_half_way_nothing_is_half_done_and_the_next_one_completes_it(
    kb_home: Path,
    letters: None,
    kb_run: Run,
    sql: Sql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kb_move: Move,
) -> None:
    monkeypatch.setenv("KB_EMBEDDER", "letters")
    with connect() as engine:
        fill(engine, 250)
        before, data = everything(engine), exported(engine)
    file = tmp_path / "x.kbz"
    file.write_bytes(data)
    kb_move(tmp_path / "other-home")
    with connect() as engine:
        engine.list_documents()

    def documents() -> int:
        return stored("SELECT count(*) FROM documents")[0][0]

    killed(kb_home, lambda: documents() > 0, "import", str(file), "--yes", LETTERS_SECONDS="2")
    assert 0 < documents() < 250
    with connect() as engine:
        assert doctor(engine)["status"] == "ok"

    assert kb_run("import", str(file), "--yes").returncode == 0
    with connect() as engine:
        assert everything(engine) == before
        assert doctor(engine)["status"] == "ok"


def test_an_export_of_a_busy_knowledge_base_is_one_moment(
    kb_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kb_move: Move
) -> None:
    stop = threading.Event()
    with connect() as engine:
        fill(engine, 10)

        def write() -> None:
            number = 0
            while not stop.is_set():
                added = engine.add_note(f"note {number} " + "x" * 500)["document"]["id"]
                number += 1
                if number % 2:
                    engine.delete_document(added)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            archives = [exported(engine) for _ in range(3)]
        finally:
            stop.set()
            writer.join()
    for number, data in enumerate(archives):
        kb_move(tmp_path / f"home-{number}")
        with connect() as engine:
            done = imported(engine, data)
            assert done["documents"] >= 10
            report = doctor(engine)
            assert report["status"] == "ok", report
            assert all(
                engine.get_file(item["id"]) for item in engine.list_documents(per_page=100)["data"]
            )
    assert not list((kb_home / "files").glob(".pinned-*"))


READINGS = """
import sqlalchemy as sa
from kb_framework import api, hookimpl

@hookimpl
def kb_migrations():
    return [api.Migration(1, "readings", __name__ + ":create")]

def create(tx):
    columns = {"uuid": sa.String(), "organization_id": sa.String(), "document_id": sa.Integer(), "value": sa.LargeBinary()}
    tx.execute(sa.schema.CreateTable(sa.Table("readings", sa.MetaData(), *(sa.Column(*each) for each in columns.items()))))
    tx.execute(sa.text("ALTER TABLE chunks ADD COLUMN mood TEXT NOT NULL DEFAULT 'fine'"))

@hookimpl
def kb_export_tables():
    return [api.ExportTable("readings", table="readings", key="uuid")]
"""


def test_tables_and_columns_of_other_plugins_are_carried(
    kb_home: Path,
    kb_plugin: Install,
    sql: Sql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kb_move: Move,
) -> None:
    kb_plugin("readings", READINGS, module="readings_plugin")
    with connect() as engine:
        number = engine.add_note("a note about rain")["document"]["id"]
        sql("UPDATE chunks SET mood = 'gloomy'")
        sql("INSERT INTO readings SELECT 'r1', organization_id, id, ? FROM documents", b"\x00\xff")
        data = exported(engine)
    kb_move(tmp_path / "other-home")
    with connect() as engine:
        engine.add_note("takes the id")

        done = imported(engine, data)

        new = done["renumbered"][str(number)]
        assert done["rows"] == {"jobs": 1, "readings": 1}
        assert stored("SELECT uuid, document_id, value FROM readings") == [("r1", new, b"\x00\xff")]
        assert stored("SELECT mood FROM chunks WHERE document_id = ?", new) == [("gloomy",)]
        assert imported(engine, data)["rows"] == {}
    kb_move(tmp_path / "without")
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "readings")
    with connect() as engine:
        preview = engine.upload_import(Upload([data], len(data)))
        assert preview["ignored"] == ["chunks.mood", "table readings"]
        assert imported(engine, data)["documents"] == 1


def rebuilt(data: bytes, change: Callable[[dict[str, bytes]], None], *, sums: bool = True) -> bytes:
    """An archive with changed members, and (to get past the first line of defence) with check sums to match."""
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        members = {name: old.read(name) for name in old.namelist()}
    change(members)
    if sums:
        manifest = json.loads(members["manifest.json"])
        for name in manifest["members"]:
            content = members.get(name, b"")
            manifest["members"][name] = {
                "sha256": hashlib.sha256(content).hexdigest(),
                "bytes": len(content),
            }
        members["manifest.json"] = json.dumps(manifest).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in members.items():
            new.writestr(name, content)
    return out.getvalue()


def edited(name: str, old: bytes, new: bytes) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        assert old in members[name]
        members[name] = members[name].replace(old, new, 1)

    return change


def with_member(name: str, content: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda members: members.update({name: content})


@pytest.mark.parametrize(
    ("change", "sums", "reason"),
    [
        (edited("documents.ndjson", b"Topic", b"Tropic"), False, "check sum"),
        (edited("manifest.json", b'"version": 1', b'"version": 2'), False, "version 2"),
        (edited("manifest.json", b"kb-export", b"kb-backup"), False, "not a 'kb-export'"),
        (edited("manifest.json", b"{", b"["), False, "manifest"),
        (edited("documents.ndjson", b'"trust":"primary"', b'"trust":"absolute"'), True, "trust"),
        (edited("documents.ndjson", b'"id":1', b'"id":-1'), True, "id"),
        (edited("documents.ndjson", b"}\n", b"}"), True, "not JSON"),
        (
            edited("chunks.ndjson", b'"document_id":1', b'"document_id":9'),
            True,
            "belongs to no document",
        ),
        (with_member("../../outside.txt", b"x"), True, "no place"),
        (with_member("/etc/passwd", b"x"), True, "no place"),
        (with_member("files/../../x", b"x"), True, "no place"),
        (with_member("files/aa/" + "a" * 64, b"x"), True, "files"),
        (with_member("tables/bomb.ndjson", b"0" * 60_000_000), True, "honest"),
        (lambda members: members.pop("chunks.ndjson"), True, "manifest says"),
        (
            lambda members: (
                members.pop("manifest.json") and members.update({"manifest.json": b"{}"})
            ),
            False,
            "manifest",
        ),
    ],
)
def test_an_archive_that_lies_is_refused_and_nothing_is_done(
    archive: tuple[dict, bytes], tmp_path: Path, change: Callable, sums: bool, reason: str
) -> None:
    data = rebuilt(archive[1], change, sums=sums)
    with connect() as engine:
        with pytest.raises(EngineError) as refused:
            engine.upload_import(Upload([data], len(data)))

        assert refused.value.http_status == 400
        assert reason in refused.value.message
        assert engine.list_documents()["meta"]["total"] == 0
    assert not list((tmp_path / "other-home" / "imports").glob("*"))
    assert not (tmp_path / "outside.txt").exists()


def test_an_archive_that_is_cut_off_or_damaged_is_refused(archive: tuple[dict, bytes]) -> None:
    data = archive[1]
    middle = len(data) // 3
    with connect() as engine:
        for damaged in (
            b"",
            b"PK",
            data[:-30],
            data[: len(data) // 2],
            data[:middle] + b"\0" * 50 + data[middle + 50 :],
        ):
            with pytest.raises(EngineError, match="refused"):
                engine.upload_import(Upload([damaged], len(damaged)))

        assert engine.list_documents()["meta"]["total"] == 0
        with pytest.raises(EngineError) as unknown:
            engine.apply_import("00000000-0000-4000-8000-000000000000")
        assert unknown.value.http_status == 404
