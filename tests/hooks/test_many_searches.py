"""Several searches at once: whoever can answer them together does, whoever cannot is asked one by one, and all find the same."""

from __future__ import annotations

from typing import Any

import pytest

from kb_framework.client import Engine, connect
from kb_testing.fixtures import Install

TEXTS = ("apple pie", "apple", "apple and pear and plum", "pear", "plum pie")
QUERIES = [{"query": query, "k": 3} for query in ("apple", "pear", "plum pie")]

FUSER = """
from kb_framework import api, hookimpl

asked = []

@hookimpl
def kb_fuse_hits(queries, lists):
    asked.append(tuple(query.text for query in queries))
    if "pear" in asked[-1]:
        raise RuntimeError("no pears")
    return [[api.Hit(item.chunk, item.score, {}, {}) for item in list(found["lexical"])[::-1]] for found in lists]
"""
COLUMNS = """
from kb_framework import hookimpl
from kb_framework.api.retrieval import Hits

asked = []

@hookimpl
def kb_fuse_hits(queries, lists):
    asked.append(tuple(query.text for query in queries))
    return [Hits(found["lexical"].chunks[::-1], found["lexical"].scores[::-1], {}) for found in lists]
"""
RETRIEVER = """
from kb_framework import api, hookimpl
from kb_framework.api.chunks import allowed_chunks

asked = []

@hookimpl
def kb_retrievers():
    return [api.Retriever("every", f"{__name__}:Every")]

class Every:
    def retrieve(self, query, tx):
        asked.append(query.text)
        if query.text == "pear":
            raise RuntimeError("no pears")
        return [api.Candidate(number, 1.0) for number in tx.connection.scalars(allowed_chunks(query, tx))]
"""
ALL = """
    def retrieve_all(self, queries, tx):
        asked.append(tuple(query.text for query in queries))
        if any(query.text == "pear" for query in queries):
            raise RuntimeError("no pears")
        return [[api.Candidate(number, 1.0) for number in tx.connection.scalars(allowed_chunks(query, tx))] for query in queries]
"""


def filled(engine: Engine) -> None:
    for text in TEXTS:
        engine.add_note(text, title=text)


def shown(items: list[Any]) -> list[Any]:
    return [
        item["error"]["code"]
        if item["error"]
        else [hit["title"] for hit in item["response"]["hits"]]
        for item in items
    ]


def test_a_fuser_that_fails_for_one_of_several_fails_for_that_one_alone(
    kb_home, kb_plugin: Install
) -> None:
    import sys

    kb_plugin("fuser", FUSER, module="kb_one_fuser")
    with connect() as engine:
        filled(engine)
        results = engine.bulk_search(QUERIES)["results"]
        found = shown(results)

    assert sys.modules["kb_one_fuser"].asked == [
        ("apple", "pear", "plum pie"),
        ("apple",),
        ("pear",),
        ("plum pie",),
    ]
    assert found[1][0] == "pear"
    assert "plugin 'fuser' failed in kb_fuse_hits" in results[1]["response"]["hint"]
    assert results[0]["response"]["hint"] is None
    assert found[0][-1] == "apple" and found[2][-1] == "plum pie"


def test_a_fuser_is_called_once_for_several_searches_and_for_a_single_one_too(
    kb_home, kb_plugin: Install
) -> None:
    import sys

    kb_plugin("fuser", COLUMNS, module="kb_many_fuser")
    with connect() as engine:
        filled(engine)
        found = shown(engine.bulk_search(QUERIES)["results"])
        alone = [[hit["title"] for hit in engine.search(**query)["hits"]] for query in QUERIES]

    assert sys.modules["kb_many_fuser"].asked == [
        ("apple", "pear", "plum pie"),
        ("apple",),
        ("pear",),
        ("plum pie",),
    ]
    assert found == alone
    assert found[0][-1] == "apple"


def test_a_fuser_that_passes_leaves_the_searches_to_the_next_one(
    kb_home, kb_plugin: Install
) -> None:
    with connect() as engine:
        filled(engine)
        before = shown(engine.bulk_search(QUERIES)["results"])
    kb_plugin("fuser", COLUMNS.replace("return [", "return None and ["), module="kb_passing_fuser")
    with connect() as engine:
        after = engine.bulk_search(QUERIES)["results"]

    assert shown(after) == before
    assert [item["response"]["hint"] for item in after] == [None] * 3


@pytest.mark.parametrize(
    ("more", "module"), [("", "kb_one_retriever"), (ALL, "kb_many_retriever")], ids=["one", "many"]
)
def test_a_retriever_that_fails_for_one_query_fails_for_that_one_alone(
    kb_home, kb_plugin: Install, more, module
) -> None:
    import sys

    from kb_framework.api import Actor, RetrievalQuery
    from kb_framework.app import open_kb

    kb_plugin("retriever", RETRIEVER + more, module=module)
    with connect() as engine:
        filled(engine)
    kb = open_kb()
    texts = ("apple", "pear", "plum pie")
    with kb.store.read() as tx:
        queries = [RetrievalQuery(text, Actor(), 10, ("every",)) for text in texts]
        found = kb.retrieval.search_all(queries, tx)
        both = kb.retrieval.search_all(
            [query._replace(retrievers=("lexical", "every")) for query in queries], tx
        )
    kb.close()

    asked = sys.modules[module].asked
    assert [text for text in asked if isinstance(text, str)] == [*texts, *texts]
    assert asked.count(texts) == (2 if more else 0)
    assert [isinstance(one, Exception) for one in found] == [False, True, False]
    assert [len(one.hits) for one in (found[0], found[2])] == [5, 5]
    assert [list(one.degraded) for one in both] == [[], ["every"], []]
    assert [len(one.hits) for one in both] == [5, 2, 5]


def test_a_narrowing_that_looks_at_the_query_is_asked_for_each(kb_home, kb_plugin: Install) -> None:
    narrowing = """
from kb_framework import hookimpl
from kb_framework.api.tables import documents

@hookimpl
def kb_narrow_retrieval(query):
    return documents.c.title != query.text
"""
    kb_plugin("narrow", narrowing)
    with connect() as engine:
        filled(engine)
        found = shown(
            engine.bulk_search([{**query, "mode": "lexical"} for query in QUERIES])["results"]
        )

    for query, titles in zip(QUERIES, found, strict=True):
        assert titles and query["query"] not in titles
