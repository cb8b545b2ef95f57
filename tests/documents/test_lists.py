"""Lists and counts of documents: what they answer, and what they read for it, by the store's own plans."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event

from kb_framework.api import Actor
from kb_framework.app import KB, open_kb
from kb_framework.client import Engine
from kb_framework.errors import EngineError
from kb_framework.in_process import BorrowedTransport

Statements = list[tuple[str, Any]]


@pytest.fixture
def kb(kb_home: None) -> Iterator[KB]:
    opened = open_kb()
    yield opened
    opened.close()


@pytest.fixture
def engine(kb: KB) -> Engine:
    """Notes 1 to 6; odd ones are memos, and every third has the tag `third`."""
    engine = Engine(BorrowedTransport(kb, actor=Actor()), kb.plugins)
    for number in range(1, 7):
        engine.add_note(
            f"river {number}",
            title=f"{'bcadfe'[number - 1]} {number}",
            doc_type="memo" if number % 2 else "note",
            tags=["all", *(["third"] if number % 3 == 0 else [])],
            metadata={"long": "x" * 1000},
        )
    return engine


def read_by(kb: KB, ask: Any) -> Statements:
    """Return the statements that a question reads documents with."""
    seen: Statements = []
    listener = lambda *a: seen.append((a[2], a[3]))  # noqa: E731 - it is taken away again
    event.listen(kb.store.engine.reader, "before_cursor_execute", listener)
    ask()
    event.remove(kb.store.engine.reader, "before_cursor_execute", listener)
    return [item for item in seen if re.search(r"FROM (documents|document_tags)\b", item[0])]


def steps(kb: KB, statement: str, values: Any) -> list[str]:
    """Return the steps of SQLite's plan."""
    with kb.store.read() as tx:
        plan = tx.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        return [row[3] for row in plan]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the nodes of PostgreSQL's plan."""
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


# Lists


@pytest.mark.parametrize("sort", ["id", "title", "created_at", "updated_at", "bytes", "doc_type"])
def test_a_list_is_in_the_order_that_was_asked_for(sort: str, engine: Engine) -> None:
    rows = engine.list_documents(per_page=100)["data"]
    expected = [row["id"] for row in sorted(rows, key=lambda row: (row[sort], row["id"]))]
    backwards = sorted(rows, key=lambda row: row["id"])
    backwards.sort(key=lambda row: row[sort], reverse=True)

    assert [row["id"] for row in engine.list_documents(sort=sort)["data"]] == expected
    assert [row["id"] for row in engine.list_documents(sort=f"-{sort}")["data"]] == [
        row["id"] for row in backwards
    ]
    pages = [engine.list_documents(sort=sort, per_page=4, page=page)["data"] for page in (1, 2, 3)]
    assert [[row["id"] for row in page] for page in pages] == [expected[:4], expected[4:], []]


def test_an_order_that_there_is_not_is_refused_by_name(engine: Engine) -> None:
    with pytest.raises(EngineError) as refused:
        engine.list_documents(sort="size")

    assert refused.value.http_status == 400
    assert "sort: must be id, title" in str(refused.value)


def test_words_of_the_title_and_filters_must_all_match(engine: Engine) -> None:
    found = engine.list_documents(q="F ", tags=["all"])
    nothing = engine.list_documents(q="d 4", tags=["third"])

    assert [row["title"] for row in found["data"]] == ["f 5"]
    assert nothing["data"] == []
    assert nothing["hint"] == "no document matches all of q, tags"
    assert "hint" not in engine.list_documents(q="nosuch")


@pytest.mark.parametrize("sort", ["id", "-updated_at", "title"])
def test_a_page_is_chosen_by_ids_and_read_by_them(sort: str, engine: Engine, kb: KB) -> None:
    read = read_by(kb, lambda: engine.list_documents(sort=sort, tags=["all"], page=2, per_page=2))
    rows = [statement for statement, _ in read if "documents.metadata" in statement]
    sorted_ones = [statement for statement, _ in read if "FROM documents " in statement + " "]
    sorted_ones = [statement for statement in sorted_ones if "ORDER BY" in statement]

    assert len(rows) == 1
    assert "ORDER BY" not in rows[0]
    assert [statement.partition("FROM")[0].split() for statement in sorted_ones] == [
        ["SELECT", "documents.id"]
    ]


@pytest.mark.postgres_only("reads PostgreSQL's plans")
def test_postgres_sorts_no_rows_of_documents(engine: Engine, kb: KB) -> None:
    read = read_by(kb, lambda: engine.list_documents(sort="title", page=2, per_page=2))
    with kb.store.read() as tx:
        for statement, values in read:
            explained = tx.connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", values)
            found = explained.scalar()
            plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
            widths = [node["Plan Width"] for node in nodes(plan) if node["Node Type"] == "Sort"]
            assert all(width < 100 for width in widths), statement


COUNTED_BY_INDEX: list[dict[str, Any]] = [
    {},
    {"tags": ["all"]},
    {"tags": ["all", "third"]},
    {"any_tags": ["all", "third"]},
    {"not_tags": ["third"]},
    {"untagged": True},
    {"doc_type": "memo"},
    {"lang": "en"},
    {"media": ["md"]},
    {"trust_min": "secondary"},
    {"created_after": "2026-01-01"},
    {"created_before": "2099-01-01"},
    {"from_id": 2, "to_id": 5},
]


@pytest.mark.sqlite_only("reads SQLite's plans, which do not depend on how much there is")
@pytest.mark.parametrize("filters", COUNTED_BY_INDEX, ids=str)
def test_counting_reads_an_index_and_no_rows(
    filters: dict[str, Any], engine: Engine, kb: KB
) -> None:
    read = read_by(kb, lambda: engine.list_documents(**filters))
    (counting,) = [item for item in read if item[0].startswith("SELECT count(*)")]
    of_documents = [step for step in steps(kb, *counting) if " documents " in f"{step} "]

    assert of_documents
    assert all("USING COVERING INDEX" in step for step in of_documents), of_documents


# Facets, growth, completions


FILTERS: list[tuple[dict[str, Any], set[int]]] = [
    ({}, {1, 2, 3, 4, 5, 6}),
    ({"doc_type": "memo"}, {1, 3, 5}),
    ({"tags": ["third"], "doc_type": "memo"}, {3}),
    ({"not_tags": ["third"], "from_id": 2}, {2, 4, 5}),
    ({"query": "river 4"}, {4}),
    ({"untagged": True}, set()),
]


@pytest.mark.parametrize(("filters", "documents"), FILTERS, ids=str)
def test_facets_count_what_a_list_with_the_same_filters_has(
    filters: dict[str, Any], documents: set[int], engine: Engine
) -> None:
    listed = engine.list_documents(**filters, per_page=100)["data"]
    assert {row["id"] for row in listed} == documents

    found = engine.document_facets(**filters)

    assert found["documents"] == len(documents)
    assert found["tag"] == counts([tag for row in listed for tag in row["tags"]])
    for name in ("doc_type", "lang", "media", "trust"):
        assert found[name] == counts([row[name] for row in listed]), name
    assert found["month"] == counts([row["created_at"][:7] for row in listed])


def counts(values: list[Any]) -> list[dict[str, Any]]:
    found = [{"value": value, "count": values.count(value)} for value in set(values)]
    return sorted(found, key=lambda item: (-item["count"], item["value"] or ""))


def test_facets_have_the_most_frequent_values_and_only_those_asked_for(engine: Engine) -> None:
    found = engine.document_facets(by=["doc_type", "tag"], top=1)

    assert found == {
        "documents": 6,
        "doc_type": [{"value": "memo", "count": 3}],
        "tag": [{"value": "all", "count": 6}],
    }


@pytest.mark.sqlite_only("reads SQLite's plans, which do not depend on how much there is")
def test_facets_read_documents_once_and_by_an_index(engine: Engine, kb: KB) -> None:
    read = read_by(kb, lambda: engine.document_facets(doc_type="memo"))
    (counting,) = [item for item in read if "combinations" in item[0]]
    plan = steps(kb, *counting)
    selecting = [step for step in plan if re.match(r"S\w+ documents ", step)]

    # Once to select, once to count all values of what is selected.
    assert len(selecting) == 2
    assert all("USING COVERING INDEX" in step for step in selecting), selecting
    (tags,) = [step for step in plan if re.match(r"S\w+ document_tags ", step)]
    assert "USING COVERING INDEX document_tags_by_tag" in tags


@pytest.mark.parametrize(("filters", "documents"), FILTERS, ids=str)
def test_growth_counts_what_was_added_on_each_day_and_before(
    filters: dict[str, Any], documents: set[int], engine: Engine, kb: KB
) -> None:
    today = datetime.now(UTC).date()
    long_ago = (today - timedelta(days=400)).isoformat()
    with kb.store.write() as tx:
        tx.connection.exec_driver_sql(
            f"UPDATE documents SET created_at = '{long_ago}T12:00:00.000000Z' WHERE id IN (1, 4)"
        )

    found = engine.document_growth(since=(today - timedelta(days=2)).isoformat(), **filters)

    assert [day["day"] for day in found["days"]][-1] == today.isoformat()
    assert len(found["days"]) == 3
    assert found["before"] == len(documents & {1, 4})
    assert found["added"] == sum(day["count"] for day in found["days"]) == len(documents - {1, 4})


@pytest.mark.parametrize(
    ("period", "field"),
    [
        ({"since": "2026-02-01", "until": "2026-01-01"}, "since"),
        ({"since": "1900-01-01"}, "since"),
        ({"until": "2026-02-30"}, "until"),
        ({"until": "9999-12-31"}, "until"),
    ],
    ids=str,
)
def test_a_period_that_is_none_is_refused(
    period: dict[str, str], field: str, engine: Engine
) -> None:
    with pytest.raises(EngineError) as refused:
        engine.document_growth(**period)

    assert (refused.value.http_status, refused.value.details["field"]) == (400, field)


def test_tags_are_completed_in_any_case_most_used_first(engine: Engine) -> None:
    engine.add_note("x", tags=["Thing", "th_ng", "élan"])
    engine.add_note("y", tags=["Thing"])

    def completed(prefix: str, **more: Any) -> list[tuple[str, int]]:
        found = engine.complete_tag(prefix=prefix, **more)["data"]
        return [(item["tag"], item["count"]) for item in found]

    assert completed("th") == [("Thing", 2), ("third", 2), ("th_ng", 1)]
    assert completed("TH", limit=1) == [("Thing", 2)]
    # Neither a wildcard nor a pattern.
    assert completed("th_") == [("th_ng", 1)]
    assert completed("%") == []
    assert completed("é") == [("élan", 1)]
    assert completed("") == [("all", 6), ("Thing", 2), ("third", 2), ("th_ng", 1), ("élan", 1)]
