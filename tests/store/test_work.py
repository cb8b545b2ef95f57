"""How much the database does for a list, in steps of its machine: they are the same on a busy one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from kb_framework.client import Engine, connect

pytestmark = pytest.mark.sqlite_only("steps of SQLite's machine are counted")

DOCUMENTS = 400
# SQLite calls back after so many steps.
TICK = 200


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    home = tmp_path_factory.mktemp("work")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("KB_DATA_DIR", str(home / "kb"))
        patched.setenv("XDG_CONFIG_HOME", str(home / "config"))
        with connect() as engine:
            texts = (f"Pump {number} was inspected.".encode() for number in range(DOCUMENTS))
            engine.add_files([(f"{number}.md", text, {}) for number, text in enumerate(texts)])
            engine.bulk_tags(from_id=0, add=["pump", "seen"], force=True)
            yield engine


def work_of(engine: Engine, name: str, **fields: Any) -> int:
    """Return how often SQLite called back during an operation on all documents or chunks."""
    ticks = itertools.count()

    def watched(connection: Any, *_: Any) -> None:
        raw = connection.connection.dbapi_connection
        raw.set_progress_handler(lambda: next(ticks) * 0, TICK)

    event.listen(sa.Engine, "before_cursor_execute", watched)
    try:
        answer = getattr(engine, name)(**fields)
    finally:
        event.remove(sa.Engine, "before_cursor_execute", watched)
    found = answer["meta"]["total"] if "meta" in answer else answer["documents"]
    assert found == DOCUMENTS
    return next(ticks)


@pytest.mark.parametrize(
    ("name", "filters"),
    [
        ("list_chunks", {"kind": "fact", "policy": "normal"}),
        ("list_chunks", {"kind": "fact", "query": "pump"}),
        ("list_chunks", {"tags": ["pump"], "any_tags": ["seen"], "query": "inspected"}),
        ("document_facets", {"tags": ["pump"], "any_tags": ["seen"], "query": "inspected"}),
    ],
)
def test_several_filters_read_each_row_some_times_and_not_every_pair_of_rows(
    filled: Engine, name: str, filters: dict[str, Any]
) -> None:
    assert work_of(filled, name, **filters) * TICK < 1000 * DOCUMENTS


def test_a_list_of_all_chunks_counts_them_in_an_index(filled: Engine) -> None:
    # Some steps for each that is counted; the twenty that are shown cost about as much.
    assert work_of(filled, "list_chunks") * TICK < 15 * DOCUMENTS
