"""S3: the corpus revision moves with whatever changes what a search finds, and with nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from kb_framework.api.tables import chunks, organizations
from kb_framework.api.times import now
from kb_framework.app import KB, open_kb
from kb_framework.client import Engine
from kb_framework.edges.http.app import create_app
from kb_testing.application import AsgiTransport

OTHER = "00000000-0000-4000-8000-00000000000f"


@pytest.fixture
def kb(kb_home: Any) -> Iterator[KB]:
    kb = open_kb()
    with kb.store.write() as tx:
        tx.execute(sa.insert(organizations).values(id=OTHER, name="other", created_at=now()))
    yield kb
    kb.close()


@pytest.fixture
def engine(kb: KB) -> Iterator[Engine]:
    with Engine(AsgiTransport(create_app(kb)), kb.plugins) as engine:
        yield engine


def revision(kb: KB, organization: str | None = None) -> int:
    with kb.store.read(*([organization] if organization else [])) as tx:
        return tx.corpus_revision()


CHANGES: dict[str, Callable[[Engine, int], Any]] = {
    "add a note": lambda engine, number: engine.add_note("another"),
    "add a file": lambda engine, number: engine.add_file("a.md", b"# A file"),
    "add the file's next version": lambda engine, number: engine.add_file(
        "n.md", b"# New", path="n.md", source="/n.md"
    ),
    "retitle": lambda engine, number: engine.update_document(number, title="Other"),
    "retag": lambda engine, number: engine.set_document_tags(number, ["b"]),
    "rename a tag": lambda engine, number: engine.rename_tag("a", "c"),
    "tag in bulk": lambda engine, number: engine.bulk_tags(
        document_ids=[number], add=["x"], force=True
    ),
    "delete": lambda engine, number: engine.delete_document(number),
    "delete in bulk": lambda engine, number: engine.bulk_delete(document_ids=[number], force=True),
    "embed anew": lambda engine, number: engine.post("/reindex", {}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_s3_every_change_moves_the_revision(kb: KB, engine: Engine, change: str) -> None:
    number = engine.add_note("first", tags=["a"])["document"]["id"]
    engine.add_file("n.md", b"# Old", path="n.md", source="/n.md")
    before = revision(kb)

    CHANGES[change](engine, number)

    assert revision(kb) > before


def test_s3_reading_does_not_move_the_revision(kb: KB, engine: Engine) -> None:
    number = engine.add_note("first", tags=["a"])["document"]["id"]
    before = revision(kb)

    engine.search("first")
    engine.get_document(number)
    engine.list_documents()
    engine.get("/health")

    assert revision(kb) == before


def test_s3_a_change_that_is_rolled_back_does_not_move_the_revision(kb: KB, engine: Engine) -> None:
    engine.add_note("first")
    before = revision(kb)

    with pytest.raises(RuntimeError), kb.store.write() as tx:
        tx.execute(sa.delete(chunks))
        raise RuntimeError("no")

    assert revision(kb) == before


def test_s3_one_transaction_moves_the_revision_once_however_its_statements_were_made(
    kb: KB, engine: Engine
) -> None:
    engine.add_note("first")
    before = revision(kb)

    with kb.store.write() as tx:
        tx.connection.exec_driver_sql("UPDATE chunks SET chunk_index = chunk_index")
        tx.connection.execute(sa.text("UPDATE documents SET title = 'x'"))

    assert revision(kb) == before + 1


def test_s3_each_organization_has_a_revision_of_its_own(kb: KB, engine: Engine) -> None:
    before = revision(kb, OTHER)
    engine.add_note("of the default organization")
    assert revision(kb, OTHER) == before

    engine.post("/reindex", {})
    assert revision(kb, OTHER) > before


def test_s3_a_repair_moves_the_revision_of_everyone_it_may_concern(kb: KB, engine: Engine) -> None:
    engine.add_note("first")
    with kb.store.write() as tx:
        tx.text.remove(sa.select(chunks.c.seq))
    before = revision(kb), revision(kb, OTHER)

    engine.post("/doctor/repair")

    assert revision(kb) > before[0]
    assert revision(kb, OTHER) > before[1]
