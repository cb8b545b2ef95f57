"""H2, H3: bad input over HTTP is always 4xx, says what is wrong, and never hurts the server."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from kb_framework.client import Engine
from kb_framework.remote import HttpTransport
from kb_testing.fixtures import Install, RunningServer, StoreOf

JSON = {"Content-Type": "application/json"}
BIG = 2**63

# Every route that takes a JSON body, with one that is right.
ROUTES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/notes"): {"text": "a note"},
    ("PUT", "/documents/{document_id}/tags"): {"tags": ["a"]},
    ("PATCH", "/documents/{document_id}"): {"title": "a title"},
    ("POST", "/tags/rename"): {"old": "a", "new": "b"},
    ("POST", "/tags/merge"): {"tags": ["a"], "into": "b"},
    ("POST", "/uploads"): {"filename": "a.md"},
    ("POST", "/sources/compare"): {"files": [{"source": "/a.md", "size": 1, "modified_ns": 1}]},
    ("POST", "/sources/forget"): {"root": "/", "sources": [{"source": "/nowhere.md"}]},
    ("POST", "/sources/move"): {"root": "/a", "old": "/a/b", "new": "/a/c"},
    ("POST", "/folders/recall"): {"root": "/a"},
    ("PUT", "/folders"): {"root": "/a"},
    ("PUT", "/views/{name}"): {"filters": {"tags": ["a"]}},
    ("PUT", "/plugins/{name}"): {"enabled": True},
    ("POST", "/reindex"): {},
    ("POST", "/chunks/bulk"): {"chunk_ids": ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"]},
    ("POST", "/bulk/preview"): {"operation": "delete", "document_ids": [999]},
    ("POST", "/bulk/delete"): {"document_ids": [999]},
    ("POST", "/bulk/tags"): {"document_ids": [999], "add": ["a"]},
    ("POST", "/bulk/set-tags"): {"document_ids": [999], "new_tags": ["a"]},
    ("POST", "/search"): {"query": "a"},
    ("POST", "/keys"): {"user": "somebody", "role": "viewer"},
    ("POST", "/organizations"): {"name": "another"},
    ("PUT", "/roles/{name}"): {"permissions": ["documents.read"]},
    ("POST", "/search/bulk"): {"queries": [{"query": "a"}]},
    ("POST", "/knowledge/chunks/{chunk_id}/deactivate"): {"reason": "a"},
    ("POST", "/knowledge/chunks/{chunk_id}/activate"): {"reason": "a"},
    ("POST", "/knowledge/chunks/{chunk_id}/reclassify"): {"chunk_kind": "fact"},
    ("POST", "/knowledge/chunks/{chunk_id}/set-policy"): {"usage_policy": "normal"},
    ("POST", "/knowledge/bulk/deactivate"): {"document_ids": [999]},
    ("POST", "/knowledge/bulk/activate"): {"document_ids": [999]},
    ("POST", "/knowledge/bulk/reclassify"): {"document_ids": [999], "chunk_kind": "fact"},
    ("POST", "/knowledge/bulk/set-policy"): {"document_ids": [999], "usage_policy": "normal"},
    ("POST", "/knowledge/context"): {"query": "a"},
    ("POST", "/knowledge/ask"): {"query": "a"},
    ("POST", "/knowledge/ask/stream"): {"query": "a"},
    ("PUT", "/knowledge/snapshots/{snapshot_id}/answer"): {"text": "a", "model": "a"},
    ("POST", "/research/search"): {"query": "a"},
    ("POST", "/research/add-to-knowledge"): {"snippet_text": "a", "chunk_kind": "fact"},
}
# Where there is nothing that must be said.
BODY_IS_OPTIONAL = {
    route for route in ROUTES if route[1].endswith(("}/deactivate", "}/activate", "/reindex"))
}
NAMES = [f"{method} {path}" for method, path in ROUTES]

# What a field of each kind must not be.
NOT_TEXT: list[Any] = [1, True, 1.5, ["a"], {"a": "b"}, "\ud800", "a\x00b"]
NOT_TEXTS: list[Any] = [
    "a",
    1,
    True,
    {"a": "b"},
    [1],
    [True],
    [None],
    ["\udfff"],
    ["a\x00"],
    [["a"]],
]
NOT_NUMBER: list[Any] = ["1", True, False, 1.5, [1], {}, BIG, -BIG - 1, 10**40]
NOT_NUMBERS: list[Any] = [1, "1", True, ["1"], [True], [1.5], [None], [BIG], [-BIG - 1], [[1]]]
NOT_BOOL: list[Any] = [1, 0, "true", "yes", [True]]
NOT_OBJECT: list[Any] = [
    "a",
    1,
    True,
    [],
    [["a", 1]],
    {"a": "\ud800"},
    {"a\x00": 1},
    {"a": {"b": ["\x00"]}},
]
SELECTION = {
    "document_ids": NOT_NUMBERS,
    "tags": NOT_TEXTS,
    "doc_type": NOT_TEXT,
    "from_id": NOT_NUMBER,
    "to_id": NOT_NUMBER,
    "force": [*NOT_BOOL, None],
}
PLAN = [*NOT_TEXT, "", "nonsense"]
TRUST = [*NOT_TEXT, "best", ""]
WRONG: dict[tuple[str, str], dict[str, list[Any]]] = {
    ("POST", "/notes"): {
        "text": [*NOT_TEXT, None, "", "  "],
        "title": [*NOT_TEXT, ""],
        "tags": [*NOT_TEXTS, None],
        "doc_type": [*NOT_TEXT, None, ""],
        "metadata": [*NOT_OBJECT, None],
        "lang": [*NOT_TEXT, ""],
        "trust": [*TRUST, None],
    },
    ("PUT", "/documents/{document_id}/tags"): {"tags": [*NOT_TEXTS, None]},
    ("PATCH", "/documents/{document_id}"): {
        "title": [*NOT_TEXT, ""],
        "doc_type": [*NOT_TEXT, ""],
        "metadata": NOT_OBJECT,
        "trust": TRUST,
    },
    ("POST", "/tags/rename"): {"old": [*NOT_TEXT, None, ""], "new": [*NOT_TEXT, None, "a,b"]},
    ("POST", "/tags/merge"): {"tags": [*NOT_TEXTS, None, []], "into": [*NOT_TEXT, None]},
    ("POST", "/uploads"): {
        "filename": [*NOT_TEXT, None, ""],
        "tags": [*NOT_TEXTS, None],
        "title": NOT_TEXT,
        "path": NOT_TEXT,
    },
    ("POST", "/sources/compare"): {
        "files": [None, "a", 1, [1], [{}], [{"source": "/a", "size": "1", "modified_ns": 1}]],
        "root": NOT_TEXT,
    },
    ("POST", "/sources/forget"): {
        "root": [*NOT_TEXT, None, ""],
        "sources": [
            *NOT_TEXTS,
            None,
            [],
            ["/a"],
            [{}],
            [{"source": ""}],
            [{"source": 1}],
            [{"source": "/a", "reading": 1}],
        ],
        "force": [*NOT_BOOL, None],
        "preview": [*NOT_BOOL, None],
    },
    ("POST", "/sources/move"): {
        "root": [*NOT_TEXT, None, ""],
        "old": [*NOT_TEXT, None, ""],
        "new": [*NOT_TEXT, None, "", "/elsewhere"],
    },
    ("POST", "/folders/recall"): {"root": [*NOT_TEXT, None, ""]},
    ("PUT", "/plugins/{name}"): {"enabled": [*NOT_BOOL, None]},
    ("PUT", "/views/{name}"): {
        "description": NOT_TEXT,
        "filters": [*NOT_OBJECT, None, {"tags": []}, {"nosuch": 1}, {"view": "other"}],
    },
    ("PUT", "/folders"): {
        "root": [*NOT_TEXT, None, ""],
        "tags": [*NOT_TEXTS, ["a,b"]],
        "doc_type": [*NOT_TEXT, ""],
        "include": NOT_TEXTS,
        "exclude": NOT_TEXTS,
        "host": [*NOT_TEXT, "a" * 256],
    },
    ("POST", "/reindex"): {"embedder": NOT_TEXT},
    ("POST", "/chunks/bulk"): {
        # What is wrong with one of the ids is said in the route's own words: tests/bulk/test_chunks.py.
        "chunk_ids": [None, [], "6ba7b810-9dad-11d1-80b4-00c04fd430c8", 1, True, {"a": "b"}],
        "include_embeddings": [*NOT_BOOL, None],
        "include_source": [*NOT_BOOL, None],
    },
    ("POST", "/bulk/preview"): {**SELECTION, "operation": [*NOT_TEXT, None, "nope"]},
    ("POST", "/bulk/delete"): {**SELECTION, "plan": PLAN},
    ("POST", "/bulk/tags"): {**SELECTION, "plan": PLAN, "add": NOT_TEXTS, "remove": NOT_TEXTS},
    ("POST", "/bulk/set-tags"): {**SELECTION, "plan": PLAN, "new_tags": [*NOT_TEXTS, None]},
    ("POST", "/search"): {
        "query": [*NOT_TEXT, None, ""],
        "mode": [*NOT_TEXT, None, "nope"],
        "k": [*NOT_NUMBER, None, 0, 101],
        "max_tokens": [*NOT_NUMBER, 0],
        "snippet_chars": [*NOT_NUMBER, None, 0],
        "cursor": [*NOT_TEXT, "x"],
        "syntax": [*NOT_BOOL, None],
        "facets": [*NOT_BOOL, None],
        "tag": NOT_TEXTS,
        "tags": NOT_TEXTS,
        "tags_match": [*NOT_TEXT, None, "some"],
        "path_glob": NOT_TEXT,
        "trust_min": TRUST,
        "media": NOT_TEXTS,
        "ingested_after": [*NOT_TEXT, "soon"],
        "doc_id": NOT_NUMBER,
        "doc_type": NOT_TEXT,
        "lang": NOT_TEXT,
        "trace": [*NOT_BOOL, None],
    },
    ("POST", "/keys"): {
        "user": [*NOT_TEXT, None, "", " "],
        "role": [*NOT_TEXT, None, "", "nobody", "Admin"],
        "organization": [*NOT_TEXT, ""],
        "permissions": [*NOT_TEXTS, [], ["documents.write"], ["nothing"]],
        "expires": [*NOT_TEXT, "", "soon", "0d", "99999999d", "2001-01-01", "9999-99-99"],
    },
    ("POST", "/organizations"): {"name": [*NOT_TEXT, None, "", "a\tb"]},
    ("PUT", "/roles/{name}"): {"permissions": [*NOT_TEXTS, None, [], ["nothing"]]},
    ("POST", "/search/bulk"): {
        "queries": [None, "a", 1, True, {}, [{"query": "a"}] * 101],
        "max_tokens": [*NOT_NUMBER, 0],
    },
}
CURATED = {
    **SELECTION,
    "kind": [*NOT_TEXT, "x"],
    "policy": [*NOT_TEXT, "x"],
    "status": [*NOT_TEXT, "x"],
    "query": NOT_TEXT,
}
CONTEXT: dict[str, list[Any]] = {
    "query": [*NOT_TEXT, None, " "],
    "top_k": [*NOT_NUMBER, None, 0, 101],
    "max_tokens": [*NOT_NUMBER, None, 0],
    "caps": [None, 1, "a", [], {"max_angles": -1}, {"max_angles": "1"}, {"nosuch": 1}],
    "pin": [*NOT_TEXTS, None, ["a"]],
    "exclude": [*NOT_TEXTS, None, ["a"]],
    "filters": [1, "a", [], {"nosuch": 1}, {"kind": "x"}],
}
CHUNK = "/knowledge/chunks/{chunk_id}"
WRONG |= {
    ("POST", f"{CHUNK}/deactivate"): {"reason": NOT_TEXT},
    ("POST", f"{CHUNK}/activate"): {"reason": NOT_TEXT},
    ("POST", f"{CHUNK}/reclassify"): {"chunk_kind": [*NOT_TEXT, None, "", "x"], "reason": NOT_TEXT},
    ("POST", f"{CHUNK}/set-policy"): {
        "usage_policy": [*NOT_TEXT, None, "", "x"],
        "reason": NOT_TEXT,
    },
    ("POST", "/knowledge/bulk/deactivate"): CURATED,
    ("POST", "/knowledge/bulk/activate"): CURATED,
    ("POST", "/knowledge/bulk/reclassify"): {**CURATED, "chunk_kind": [*NOT_TEXT, None, "x"]},
    ("POST", "/knowledge/bulk/set-policy"): {**CURATED, "usage_policy": [*NOT_TEXT, None, "x"]},
    ("POST", "/knowledge/context"): CONTEXT,
    ("POST", "/knowledge/ask"): CONTEXT,
    ("POST", "/knowledge/ask/stream"): CONTEXT,
    ("PUT", "/knowledge/snapshots/{snapshot_id}/answer"): {
        "text": [*NOT_TEXT, None, ""],
        "model": [*NOT_TEXT, None, ""],
    },
    ("POST", "/research/search"): {
        "query": [*NOT_TEXT, None, " ", "a" * 5001],
        "limit": [*NOT_NUMBER, None, 0, 101],
        "filters": [1, "a", [], {"nosuch": 1}, {"tags": [""]}, {"created_after": "soon"}],
    },
    ("POST", "/research/add-to-knowledge"): {
        "snippet_text": [*NOT_TEXT, None, " ", "a" * 10_001],
        "chunk_kind": [*NOT_TEXT, None, "x"],
        "usage_policy": [*NOT_TEXT, None, "x"],
        "source_type": [*NOT_TEXT, "a" * 33],
        "source_ref": [*NOT_TEXT, "a" * 2049],
        "source_title": [*NOT_TEXT, "a" * 256],
        "reason": [*NOT_TEXT, "a" * 256],
    },
}

# Bodies that no route takes, whatever its fields.
NO_BODY = {
    "empty": b"",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"text"',
    "a number": b"1",
    "cut short": b'{"text": "a',
    "a trailing comma": b'{"text": "a",}',
    "two documents": b"{}{}",
    "single quotes": b"{'text': 'a'}",
    "not a number": b'{"text": NaN}',
    "invalid UTF-8 in a text": b'{"text": "\xff\xfe"}',
    "invalid UTF-8 outside": b"\xff\xfe{}",
    "UTF-16": '{"text": "a"}'.encode("utf-16"),
    "a number of 5000 digits": b'{"text": ' + b"9" * 5000 + b"}",
    "a raw NUL": b'{"text": "a\x00"}',
    "an unknown field": b'{"nosuchfield": 1}',
    "an unknown field with a lone surrogate": b'{"nosuch\\ud800": 1}',
    "deep lists": b'{"text": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "deep objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "deep lists without an end": b"[" * 10_000,
}


def has_surrogate(value: Any) -> bool:
    return "\\ud" in json.dumps(value)


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.fixture(scope="module")
def url(server: RunningServer) -> str:
    with server.engine as engine:
        for number in range(3):
            engine.post("/notes", {"text": f"# Note {number}\n\nof many words", "tags": ["seed"]})
    return server.url


@pytest.fixture(scope="module")
def key(url: str) -> dict[str, str]:
    """The header of an admin: some of what is tried here makes keys, and then nobody is served without one."""
    with Engine(HttpTransport(url)) as engine:
        return {
            "Authorization": f"Bearer {engine.post('/keys', {'user': 'tester', 'role': 'admin'})['key']}"
        }


@pytest.fixture(scope="module")
def send(url: str, ask: Any, key: dict[str, str]) -> Callable[..., Any]:
    asking = {**JSON, **key}
    chunk = ask(url, "GET", "/api/v1/knowledge/chunks", None, key).json["data"][0]["id"]
    snapshot = ask(url, "POST", "/api/v1/knowledge/context", dumped({"query": "a"}), asking).json[
        "snapshot_id"
    ]
    named = {
        "{document_id}": "1",
        "{chunk_id}": chunk,
        "{snapshot_id}": snapshot,
        "{name}": "a-role",
    }

    def call(method: str, path: str, body: Any = None, headers: Any = JSON) -> Any:
        for name, value in named.items():
            path = path.replace(name, value)
        return ask(url, method, "/api/v1" + path, body, {**key, **headers})

    return call


def require_refused(answer: Any, *, status: int = 400, names: str = "") -> None:
    assert answer.status == status, answer.body[:500]
    assert answer.headers["content-type"].startswith("application/json")
    body = answer.json
    if body.get("schema_version") == "error.v1":
        assert set(body) == {"schema_version", "code", "message", "details", "hint"}
    elif "success" in body:
        assert (body["success"], set(body), set(body["error"])) == (
            False,
            {"success", "error"},
            {"code", "message", "details"},
        )
        body = body["error"]
    else:
        assert isinstance(body["error"], str)
    assert body["message"].strip()
    assert names in body["message"], f"{names!r} is not named: {body['message']!r}"
    assert "Traceback" not in body["message"]
    assert "pydantic" not in body["message"]


# The OpenAPI document decides what is tried


GROUPS = (
    "documents",
    "notes",
    "tags",
    "jobs",
    "uploads",
    "bulk",
    "search",
    "knowledge",
    "research",
    "others",
)


def group_of(path: str) -> str:
    first = path.removeprefix("/api/v1/").split("/")[0]
    return first if first in GROUPS else "others"


@pytest.fixture(scope="module")
def documented(url: str, key: dict[str, str]) -> Any:
    load_all_checks()
    return schemathesis.openapi.from_url(f"{url}/schema/openapi.json")


def _try_out(operation: Any, mode: GenerationMode, key: dict[str, str]) -> None:
    names = [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
    ]
    # A form and a query are text on the wire: a number where a text belongs cannot be told from one, and an empty one was not
    # given, in a question too. Of many searches, each that cannot be read fails alone.
    typed = operation.method.upper() != "GET" and operation.label not in {
        "POST /api/v1/documents",
        "POST /api/v1/search/bulk",
        "POST /api/v1/research/search",
    }
    checks = CHECKS.get_by_names([*names, *(["negative_data_rejection"] if typed else [])])

    @settings(
        max_examples=25,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def request(case: Any) -> None:
        answer = case.call(headers=key)
        # What is no HTTP for the server (a line of more than 64 KiB) never reaches the application.
        if answer.status_code != 400 or answer.content != b"Invalid HTTP request received.":
            case.validate_response(answer, checks=checks)

    request()


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(GenerationMode.POSITIVE, marks=pytest.mark.both_stores),
        GenerationMode.NEGATIVE,
    ],
    ids=["fitting", "unfitting"],
)
@pytest.mark.parametrize("group", GROUPS)
def test_generated_requests_are_answered_as_documented(
    documented: Any, key: dict[str, str], group: str, mode: GenerationMode
) -> None:
    operations = [
        result.ok()
        for result in documented.get_all_operations()
        if group_of(result.ok().path) == group
    ]
    assert operations
    failures: list[str] = []
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and not _can_be_wrong(operation):
            continue
        try:
            _try_out(operation, mode, key)
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - every operation is tried, then all findings are told
            failures.append(f"{operation.label}: {error}")
    assert not failures, "\n\n".join(failures)


def _can_be_wrong(operation: Any) -> bool:
    """Any text at all fits a path that ends in a name, and any bytes a body that is no JSON and no form."""
    anything = {"type": "string"}
    structured = any(
        "json" in body.media_type or "form" in body.media_type for body in operation.body
    )
    parameters = [parameter.definition for parameter in operation.iter_parameters()]
    return structured or any(
        item["in"] != "path" or _rules(item["schema"]) != anything for item in parameters
    )


def _rules(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in schema.items()
        if name not in ("title", "description", "examples")
    }


def test_every_operation_belongs_to_a_group_that_is_tried(documented: Any) -> None:
    groups = {group_of(result.ok().path) for result in documented.get_all_operations()}

    assert groups == set(GROUPS)


def test_every_route_with_a_json_body_is_in_the_tables(url: str, ask: Any) -> None:
    paths = ask(url, "GET", "/schema/openapi.json").json["paths"]

    found = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, operations in paths.items()
        for method, operation in operations.items()
        if "application/json" in operation.get("requestBody", {}).get("content", {})
        # Of the sample of an outside plugin, if it is installed; its own tests are its own.
        and not path.startswith("/api/v1/legal-holds")
    }
    assert found == set(ROUTES) == set(WRONG)


# Bodies


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
def test_the_right_body_is_taken(send: Any, route: tuple[str, str]) -> None:
    method, path = route
    document = send("POST", "/notes", dumped({"text": "a note"})).json["document"]["id"]
    chunk = send("GET", f"/documents/{document}/chunks").json["data"][0]["id"]
    path = path.replace("{document_id}", str(document)).replace("{chunk_id}", chunk)

    answer = send(method, path, dumped(ROUTES[route]))

    # Whether somebody uses the tags that are renamed and merged, or has answered, depends on the tests before this one; no
    # plugin has the name of a role.
    known = path.startswith(("/tags/", "/organizations", "/plugins/")) or path.endswith("/answer")
    assert answer.status in ({200, 201, 404, 409} if known else {200, 201}), answer.body


@pytest.mark.parametrize("body", NO_BODY)
@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
def test_a_body_that_is_no_object_of_known_fields_is_refused(
    send: Any, route: tuple[str, str], body: str
) -> None:
    if route not in BODY_IS_OPTIONAL or body not in {"empty", "null"}:
        require_refused(send(*route, NO_BODY[body]))


@pytest.mark.parametrize("route", sorted(set(ROUTES) - BODY_IS_OPTIONAL))
def test_no_body_at_all_is_refused(send: Any, route: tuple[str, str]) -> None:
    require_refused(send(*route, None, {}))


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
def test_an_unknown_field_beside_the_right_ones_is_refused_by_name(
    send: Any, route: tuple[str, str]
) -> None:
    # The last two are names of what handlers are given, which is nobody else's business.
    for unknown in ("docment_ids", "actor", "source_files"):
        require_refused(send(*route, dumped({**ROUTES[route], unknown: [1]})), names=unknown)


FIELDS = [(route, field) for route, fields in WRONG.items() for field in fields]


@pytest.mark.parametrize(("route", "field"), FIELDS, ids=[f"{r[0]} {r[1]} {f}" for r, f in FIELDS])
def test_a_value_of_the_wrong_type_or_range_is_refused_by_name(
    send: Any, route: tuple[str, str], field: str
) -> None:
    for value in [value for value in WRONG[route][field] if not has_surrogate(value)]:
        answer = send(*route, dumped({**ROUTES[route], field: value}))

        assert answer.status == 400, f"{value!r}: {answer.status} {answer.body[:300]!r}"
        require_refused(answer, names=field)


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
def test_a_lone_surrogate_is_refused_by_field_or_as_bad_json(
    send: Any, route: tuple[str, str]
) -> None:
    for field, values in WRONG[route].items():
        for value in [value for value in values if has_surrogate(value)]:
            answer = send(*route, dumped({**ROUTES[route], field: value}))

            require_refused(answer)
            # It may be found before there are fields; then the message must at least be true.
            assert any(word in answer.json["message"] for word in (field, "body", "JSON")), (
                field,
                answer.json,
            )


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None]
)
@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
def test_a_body_that_is_not_called_json_is_refused(
    send: Any, route: tuple[str, str], content_type: str | None
) -> None:
    answer = send(*route, dumped(ROUTES[route]), {"Content-Type": content_type})

    require_refused(answer, status=415, names="content-type")


def test_json_with_a_charset_is_json(send: Any) -> None:
    assert (
        send(
            "POST",
            "/search",
            dumped({"query": "a"}),
            {"Content-Type": "application/json; charset=utf-8"},
        ).status
        == 200
    )


def test_wrong_bodies_have_added_nothing(url: str, send: Any) -> None:
    before = send("GET", "/health").json["counts"]
    for route, fields in WRONG.items():
        for field, values in fields.items():
            send(*route, dumped({**ROUTES[route], field: values[0]}))

    assert send("GET", "/health").json["counts"] == before


# Multipart


def multipart(*parts: tuple[str, bytes]) -> tuple[bytes, dict[str, str]]:
    head_of_all = b"--limit\r\nContent-Disposition: form-data; "
    body = b"".join(
        head_of_all + head.encode() + b"\r\n\r\n" + data + b"\r\n" for head, data in parts
    )
    return body + b"--limit--\r\n", {"Content-Type": "multipart/form-data; boundary=limit"}


FILE = ('name="file"; filename="upload.md"', b"# Upload\n\nwith words")
UPLOADS = {
    "no file": ([('name="title"', b"t")], "file"),
    "a file that is a text": ([('name="file"', b"text")], "file"),
    "an unknown field": ([FILE, ('name="titel"', b"t")], "titel"),
    "an empty title": ([FILE, ('name="title"', b"")], "title"),
    "a tag that is too long": ([FILE, ('name="tags"', b"x" * 129)], "tags"),
    "a NUL in the title": ([FILE, ('name="title"', b"a\x00b")], "title"),
    "metadata that is no JSON": ([FILE, ('name="metadata"', b"{")], "metadata"),
    "metadata that is a list": ([FILE, ('name="metadata"', b"[]")], "metadata"),
    "metadata with a lone surrogate": (
        [FILE, ('name="metadata"', b'{"a": "\\ud800"}')],
        "metadata",
    ),
    "metadata that is nested too deeply": (
        [FILE, ('name="metadata"', b"[" * 10_000 + b"]" * 10_000)],
        "metadata",
    ),
    "a trust that does not exist": ([FILE, ('name="trust"', b"best")], "trust"),
    "a file without a name": ([('name="file"; filename=""', b"x")], "file"),
    "two files": ([FILE, FILE], "file"),
}


@pytest.mark.parametrize("case", UPLOADS)
def test_a_bad_upload_is_refused_by_name(send: Any, case: str) -> None:
    parts, field = UPLOADS[case]

    require_refused(send("POST", "/documents", *multipart(*parts)), names=field)


def test_invalid_utf8_in_a_form_field_is_refused(send: Any) -> None:
    require_refused(send("POST", "/documents", *multipart(FILE, ('name="title"', b"\xff\xfe"))))


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", "multipart/form-data; boundary=limit"),
        (b"--limit", "multipart/form-data; boundary=limit"),
        (b"--limit\r\n\r\n", "multipart/form-data; boundary=limit"),
        (b"nothing of the kind", "multipart/form-data; boundary=limit"),
        (b"--limit--\r\n", "multipart/form-data"),
        (b"--limit--\r\n", "multipart/form-data; boundary="),
    ],
)
def test_a_form_that_cannot_be_read_is_refused(send: Any, body: bytes, content_type: str) -> None:
    require_refused(send("POST", "/documents", body, {"Content-Type": content_type}))


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", None])
def test_a_file_that_does_not_come_as_a_form_is_refused(
    send: Any, content_type: str | None
) -> None:
    require_refused(
        send("POST", "/documents", b"{}", {"Content-Type": content_type}),
        status=415,
        names="content-type",
    )


def test_a_file_name_cannot_lead_out_of_the_store(send: Any, server_home: Path) -> None:
    head = 'name="file"; filename="../../../../outside.md"'
    answer = send("POST", "/documents", *multipart((head, b"# Outside\n\nwords")))

    assert answer.status in {201, 400}
    assert not list(server_home.parent.parent.rglob("outside.md"))


# Paths and queries


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/documents?q=%ff", "q"),
        ("/documents?q=%00", "q"),
        ("/documents?tags=a%00b", ""),
        pytest.param("/documents?tags=" + "x" * 129, "tags", id="a tag that is too long"),
        ("/documents?%ff=1", ""),
        ("/documents?page=0", "page"),
        ("/documents?page=-1", "page"),
        ("/documents?page=x", "page"),
        ("/documents?page=", "page"),
        ("/documents?page=1.5", "page"),
        ("/documents?page=true", "page"),
        (f"/documents?page={BIG}", "page"),
        pytest.param("/documents?page=" + "9" * 5000, "page", id="a page of 5000 digits"),
        ("/documents?per_page=0", "per_page"),
        ("/documents?per_page=101", "per_page"),
        ("/documents?per_page=x", "per_page"),
        ("/documents?sort=nope", "sort"),
        ("/documents?sort=--id", "sort"),
        ("/documents?sort=id;drop", "sort"),
        ("/tags?page=0", "page"),
        ("/tags?per_page=101", "per_page"),
        ("/jobs?page=0", "page"),
        ("/jobs?per_page=101", "per_page"),
        ("/jobs?status=%ff", ""),
        ("/jobs?job_type=%00", ""),
        (f"/documents/{BIG}", "document_id"),
        (f"/documents/{-BIG - 1}", "document_id"),
        (f"/jobs/{BIG}", "job_id"),
    ],
)
def test_a_bad_parameter_is_refused_by_name(send: Any, path: str, field: str) -> None:
    require_refused(send("GET", path, None, {}), names=field)


def test_a_parameter_that_a_route_does_not_have_is_refused_by_name_on_every_route(
    url: str, send: Any, ask: Any
) -> None:
    """H2: a filter whose name is misspelt would be no filter, and the list of everything."""
    taken = []
    for path, operations in ask(url, "GET", "/schema/openapi.json").json["paths"].items():
        wanted = re.sub(
            r"\{\w+\}", lambda found: "1" if found[0] in NUMBERS else NOBODYS, path
        ).removeprefix("/api/v1")
        for method in operations:
            answer = send(method.upper(), f"{wanted}?nosuchname=1", None, {})
            if answer.status != 400 or b"nosuchname" not in answer.body:
                taken.append((method, path, answer.status, answer.body[:100]))

    assert taken == []
    require_refused(
        send("GET", "/documents?tags=a&tag=b", None, {}), names="tag: is not a parameter"
    )
    require_refused(send("GET", "/documents?Page=1", None, {}), names="Page")


NUMBERS = {"{document_id}", "{job_id}"}
NOBODYS = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    "path", ["/?a=1", "/docs?a=1", "/schema/swagger?a=1", "/schema/openapi.json?a=1"]
)
def test_a_page_may_be_asked_for_with_any_parameter(url: str, ask: Any, path: str) -> None:
    assert ask(url, "GET", path).status in {200, 302}


@pytest.mark.parametrize("query", ["?offset=-1", "?offset=x", f"?offset={BIG}", "?offset=%ff"])
def test_a_bad_offset_is_refused(send: Any, query: str) -> None:
    upload = send("POST", "/uploads", dumped({"filename": "a.md"})).json["upload_id"]

    require_refused(
        send(
            "PUT",
            f"/uploads/{upload}{query}",
            b"part",
            {"Content-Type": "application/octet-stream"},
        )
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/documents/999999"),
        ("GET", "/documents/999999/chunks"),
        ("GET", "/documents/999999/file"),
        ("DELETE", "/documents/999999"),
        ("GET", "/documents/-1"),
        ("GET", "/documents/x"),
        ("GET", "/documents/1.5"),
        ("GET", "/documents/true"),
        ("GET", "/documents/%00"),
        ("GET", "/documents/%ff"),
        pytest.param("GET", "/documents/" + "9" * 5000, id="an id of 5000 digits"),
        ("GET", "/jobs/999999"),
        ("GET", "/nope"),
        ("GET", "/nope/../documents/999999"),
        ("PUT", "/uploads/not-a-uuid"),
        ("POST", "/uploads/00000000-0000-4000-8000-000000000000/finish"),
    ],
)
def test_what_does_not_exist_is_404_in_the_shape_of_every_error(
    send: Any, method: str, path: str
) -> None:
    answer = send(method, path, None, {})

    assert answer.status in {404, 400} if "9999" in path and len(path) > 1000 else {404}, (
        answer.body
    )
    require_refused(answer, status=answer.status)
    assert answer.json["error"] in {"not_found", "invalid_input"}


def test_a_document_that_does_not_exist_cannot_be_changed(send: Any) -> None:
    for method, path, body in (
        ("PUT", "/documents/999999/tags", {"tags": []}),
        ("PATCH", "/documents/999999", {"title": "t"}),
    ):
        require_refused(send(method, path, dumped(body)), status=404)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/documents"),
        ("POST", "/documents/1"),
        ("PUT", "/search"),
        ("GET", "/search"),
        ("PATCH", "/health"),
        ("OPTIONS", "/nope"),
    ],
)
def test_a_wrong_method_is_405_in_the_shape_of_every_error(
    send: Any, method: str, path: str
) -> None:
    answer = send(method, path, None, {})

    assert answer.status == (404 if path == "/nope" else 405)
    body = answer.json
    assert body.get("error", body.get("code")) in {"method_not_allowed", "not_found"}
    assert body["message"]


# Size


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, stop: Any, kb_store_of: StoreOf) -> Any:
    """A server that takes bodies of 10,000 and files of 50,000 bytes."""
    from kb_testing.fixtures import start_server

    home = tmp_path_factory.mktemp("small") / "kb-home"
    running = start_server(
        KB_DATA_DIR=str(home), KB_MAX_BODY_BYTES="10000", KB_MAX_FILE_BYTES="50000", **kb_store_of()
    )
    yield running
    stop(running)


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
def test_an_oversized_json_body_is_413(
    small: RunningServer, ask: Any, route: tuple[str, str]
) -> None:
    method, path = route
    # Chunks by id have a limit of their own, whatever the setting.
    body = dumped({**ROUTES[route], "padding": "x" * (2**20 if path == "/chunks/bulk" else 20_000)})

    known = {"{document_id}": "1", "{name}": "a-role"}
    somewhere = re.sub(r"\{\w+\}", lambda name: known.get(name[0]) or str(uuid.uuid4()), path)
    answer = ask(small.url, method, "/api/v1" + somewhere, body, JSON)

    require_refused(answer, status=413)


def test_an_oversized_json_body_in_chunks_is_413(small: RunningServer, ask: Any) -> None:
    body = [b'{"text": "', *[b"x" * 1000] * 20, b'"}']

    require_refused(ask(small.url, "POST", "/api/v1/notes", body, JSON), status=413)


def test_a_body_that_lies_about_its_length_is_measured(small: RunningServer, ask: Any) -> None:
    answer = ask(
        small.url, "POST", "/api/v1/notes", b"{}", {**JSON, "Content-Length": "99999999999"}
    )

    require_refused(answer, status=413)


def test_a_file_may_be_larger_than_a_json_body(small: RunningServer, ask: Any) -> None:
    body, headers = multipart(('name="file"; filename="large.md"', b"word " * 6000))

    assert ask(small.url, "POST", "/api/v1/documents", body, headers).status == 201


def test_an_oversized_file_is_413_and_says_the_limit(small: RunningServer, ask: Any) -> None:
    body, headers = multipart(('name="file"; filename="larger.md"', b"word " * 12_000))

    require_refused(
        ask(small.url, "POST", "/api/v1/documents", body, headers),
        status=413,
        names="KB_MAX_FILE_BYTES",
    )


def test_an_upload_in_parts_cannot_exceed_the_limit_of_a_file(
    small: RunningServer, ask: Any
) -> None:
    path = "/api/v1/uploads"
    upload = ask(small.url, "POST", path, dumped({"filename": "a.md"}), JSON).json["upload_id"]
    octets = {"Content-Type": "application/octet-stream"}

    assert ask(small.url, "PUT", f"{path}/{upload}", b"x" * 40_000, octets).status == 200
    require_refused(
        ask(small.url, "PUT", f"{path}/{upload}?offset=40000", b"x" * 40_000, octets), status=413
    )


# Failures of the server itself


LEAKY = """
from litestar import get
from kb_framework import api, hookimpl

@get("/leaky", sync_to_thread=True)
def leaky() -> dict:
    raise RuntimeError("no such table: secrets [SQL: SELECT token FROM secrets] in /home/somebody/kb.sqlite")

@get("/leaky/v1", sync_to_thread=True, opt={"errors": "v1"})
def leaky_v1() -> dict:
    raise LookupError("SELECT token FROM secrets in /home/somebody/kb.sqlite")

@get("/leaky/envelope", sync_to_thread=True, opt={"errors": "envelope"})
def leaky_envelope() -> dict:
    raise LookupError("SELECT token FROM secrets in /home/somebody/kb.sqlite")

handlers = [leaky, leaky_v1, leaky_envelope]

@hookimpl
def kb_routes():
    return [api.Routes("leaky", "leaky_routes:handlers")]
"""


def test_an_unexpected_failure_leaks_nothing_and_is_found_in_the_log(
    kb_plugin: Install, serve: Callable[..., RunningServer], stop: Any, ask: Any
) -> None:
    kb_plugin("leaky", LEAKY, module="leaky_routes")
    server = serve()

    answers = {
        path: ask(server.url, "GET", f"/api/v1/leaky{path}") for path in ("", "/v1", "/envelope")
    }
    stop(server)

    for path, answer in answers.items():
        assert answer.status == 500
        text = answer.body.decode()
        for secret in (
            "SELECT",
            "secrets",
            "/home",
            "sqlite",
            "Traceback",
            "RuntimeError",
            "LookupError",
            ".py",
        ):
            assert secret not in text
        body = answer.json
        given = (
            body["error"]["details"]
            if path == "/envelope"
            else body["details"]
            if path == "/v1"
            else body
        )
        assert given["id"] == answer.headers["x-request-id"]
        lines = [
            json.loads(line) for line in server.log if line.startswith("{") and given["id"] in line
        ]
        failure = next(line for line in lines if line["level"] == "error")
        assert "/home/somebody/kb.sqlite" in failure["exception"]
        assert any(
            line.get("status") == 500 and line.get("path") == f"/api/v1/leaky{path}"
            for line in lines
        )


def test_the_server_is_well_after_all_this(send: Any) -> None:
    answer = send("GET", "/health", None, {})

    assert (answer.status, answer.json["status"]) == (200, "ok")
    assert send("GET", "/doctor", None, {}).json["status"] == "ok"
