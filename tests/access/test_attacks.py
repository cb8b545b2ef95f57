"""A2, H2: what somebody with bad intentions tries over HTTP."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from kb_access.keys import make_key
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from kb_framework.client import Engine
from kb_framework.edges.http.login_throttle import Failures
from kb_framework.errors import TooManyRequests
from kb_testing.fixtures import RunningServer, StoreOf, start_server, stop_server

CLIENTS = 200
OCTETS = {"Content-Type": "application/octet-stream"}

PATHS = [
    "../../etc/passwd",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "....//....//etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    "..\\..\\windows\\win.ini",
    "C:\\windows\\win.ini",
    "a/../../../kb.sqlite",
    "kb.sqlite%00.md",
    "file:///etc/passwd",
    "~/.ssh/id_rsa",
]
INJECTIONS = [
    "' OR '1'='1",
    "'; DROP TABLE documents; --",
    '" OR ""="',
    "1) UNION SELECT id, key, secret_hash FROM api_keys --",
    "%' ESCAPE '",
    "\\",
    'title:* OR "x" NEAR("a" "b", 10)',
    '"unbalanced',
    "NEAR(",
    "col : {a b} : x",
    "a AND NOT b OR (",
    "*",
    "^a",
    "-a",
    "{{7*7}}",
    "${jndi:ldap://x}",
    "; rm -rf /",
    "$(id)",
    "<script>alert(1)</script>",
]
LEAKS = re.compile(
    r"sqlite|SELECT |INSERT |Traceback|/tmp/|/home/|/root/|fts5:|no such column|syntax error|root:x:0",
    re.IGNORECASE,
)


def without(shown: str, *sent: str) -> str:
    """An answer without the texts that were sent, which a message may repeat, whole or cut off."""
    for text in sent:
        for form in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
            shown = shown.replace(form, "")
            for end in range(len(form) - 1, 9, -1):
                shown = shown.replace(form[:end] + "…", "")
    return shown


@pytest.fixture(scope="module")
def engine(shared: Any) -> Engine:
    engine = shared.engine(shared.key("admin"))
    for number in range(5):
        engine.add_note(f"# Note {number}\n\nof words", tags=["a"])
    return engine


@pytest.fixture(scope="module")
def key(shared: Any) -> str:
    return shared.key("admin")


# Paths


def file_routes(base: Any) -> list[Any]:
    """Routes that take a file, a name or a path, or that give a file."""
    words = re.compile(r"file|path|source|upload|import|export|backup")
    return [
        item
        for item in base.operations()
        if words.search(item.path + json.dumps(item.described.get("requestBody", {})))
    ]


@pytest.mark.parametrize("place", PATHS)
def test_no_path_leads_out_of_the_data_folder(
    shared: Any, engine: Engine, key: str, place: str
) -> None:
    home: Path = shared.kb.settings.host.data_dir
    outside = {path for path in home.parent.rglob("*") if not path.is_relative_to(home)}
    for operation in file_routes(shared):
        target = re.sub(r"\{[^}]*\}", quote(place, safe="%"), operation.path)
        reply = shared.ask(
            key, operation.method, target, b"" if operation.method != "GET" else None, OCTETS
        )
        shown = "" if reply.body[:2] == b"PK" else reply.body[:2000].decode("utf-8", "replace")
        assert not LEAKS.search(without(shown, quote(place, safe="%"), place)), (target, shown)
        assert reply.status < 500

    added = engine.add_file(place, b"# Named badly\n\n" + place.encode(), path=place, source=place)
    started = engine.start_upload(place)
    engine.append_upload(started["upload_id"], 0, b"# Uploaded\n\n" + place.encode())
    engine.finish_upload(started["upload_id"])
    answer = shared.ask(key, "GET", f"/api/v1/documents/{added['document']['id']}/file")
    assert answer.body.startswith(b"# Named badly")

    assert {path for path in home.parent.rglob("*") if not path.is_relative_to(home)} == outside


def test_a_link_in_the_storage_is_not_followed_out_of_it(
    shared: Any, engine: Engine, tmp_path: Path
) -> None:
    secret = tmp_path / "outside" / "precious.txt"
    secret.parent.mkdir()
    secret.write_text("precious")
    document = engine.add_file("linked.md", b"# Linked\n\nto be replaced\n")["document"]
    digest = document["content_hash"]
    stored: Path = shared.kb.files.root / digest[:2] / digest
    stored.unlink()
    stored.symlink_to(secret)

    reply = shared.ask(shared.key("admin"), "GET", f"/api/v1/documents/{document['id']}/file")
    engine.delete_document(document["id"])

    assert b"precious" not in reply.body
    assert secret.read_text() == "precious"


# Text that is code elsewhere


def text_fields(base: Any) -> Iterator[tuple[Any, str, dict[str, Any]]]:
    """Every field of every body that takes text, with the body's schema."""
    document = base.openapi
    for operation in base.operations():
        content = operation.described.get("requestBody", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema", {})
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
        for name, field in schema.get("properties", {}).items():
            if "string" in json.dumps(field):
                yield operation, name, schema


def filled(schema: dict[str, Any], name: str, value: str) -> dict[str, Any]:
    described = schema["properties"][name]
    is_list = '"array"' in json.dumps(described)
    body: dict[str, Any] = {}
    for required in schema.get("required", ()):
        kind = json.dumps(schema["properties"][required])
        body[required] = (
            ["a"]
            if '"array"' in kind
            else 1
            if '"integer"' in kind
            else {}
            if '"object"' in kind
            else "a"
        )
    return {**body, name: [value] if is_list else value}


@pytest.mark.both_stores
@pytest.mark.parametrize("text", INJECTIONS)
def test_text_is_never_code(shared: Any, engine: Engine, key: str, text: str) -> None:
    before = engine.get("/health")["counts"]["documents"]
    tried = 0
    for operation, name, schema in text_fields(shared):
        if operation.permission.endswith("delete") or "/keys" in operation.path:
            continue
        path = re.sub(r"\{[^}]*_id\}", "1", operation.path).replace("{name}", "injected")
        reply = shared.ask(key, operation.method, path, filled(schema, name, text))
        tried += 1
        assert reply.status < 500, (str(operation), name, reply.body)
        if reply.status >= 400:
            assert not LEAKS.search(without(reply.body.decode(), text)), reply.body
    for operation in shared.operations():
        for parameter in operation.described.get("parameters", []):
            if parameter["in"] == "query" and operation.method == "GET":
                reply = shared.ask(
                    key,
                    "GET",
                    f"{operation.path.replace('{document_id}', '1')}?{parameter['name']}={quote(text)}",
                )
                assert reply.status < 500, (str(operation), parameter["name"])
    for mode in ("lexical", "vector", "hybrid"):
        assert (
            shared.ask(key, "POST", "/api/v1/search", {"query": text, "mode": mode}).status == 200
        )

    assert tried > 20
    assert engine.get("/health")["counts"]["documents"] >= before
    assert engine.get("/doctor")["status"] in {"ok", "warning"}


# Guessing keys


def test_an_address_that_fails_too_often_must_wait_and_others_need_not() -> None:
    now = [0.0]
    failures = Failures(3, clock=lambda: now[0])
    for _ in range(3):
        failures.check("192.0.2.1")
        failures.add("192.0.2.1")

    with pytest.raises(TooManyRequests) as caught:
        failures.check("192.0.2.1")
    assert caught.value.details["retry_after"] == 60
    failures.check("192.0.2.2")
    now[0] = 59.5
    with pytest.raises(TooManyRequests) as caught:
        failures.check("192.0.2.1")
    assert caught.value.details["retry_after"] == 1
    now[0] = 60.0
    failures.check("192.0.2.1")


def test_a_neighbourhood_of_version_6_counts_as_one_and_memory_is_bounded() -> None:
    failures = Failures(2)
    failures.add("2001:db8::1")
    failures.add("2001:db8::2")
    with pytest.raises(TooManyRequests):
        failures.check("2001:db8::3")
    failures.check("2001:db8:0:1::1")
    for number in range(20_000):
        failures.add(f"10.0.{number // 256}.{number % 256}")
    assert len(failures._counted) == 10_000


def test_wrong_keys_are_limited_and_never_lock_out_a_right_one(base: Any) -> None:
    good = base.key("viewer")
    limit = base.kb.settings.host.unauthorized_per_minute
    for _ in range(limit):
        assert base.ask(make_key().text, "GET", "/api/v1/documents").status == 401

    refused = base.ask(make_key().text, "GET", "/api/v1/documents")

    assert base.ask(good, "GET", "/api/v1/documents").status == 200
    assert refused.status == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert json.loads(refused.body)["error"] == "rate_limited"
    # The owner of the folder, and what needs no key, go on.
    assert base.owner.get("/documents")["data"] == []
    assert base.ask(None, "GET", "/api/v1/health/live").status == 200


# A real server


@contextlib.contextmanager
def serving(home: Path, **settings: str) -> Iterator[tuple[RunningServer, str]]:
    """A server with three notes, and a key to it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.upper().startswith("KB_")]:
            patch.delenv(name)
        server = start_server(KB_DATA_DIR=str(home), **settings)
    with server.engine as engine:
        for number in range(3):
            engine.post("/notes", {"text": f"# Note {number}\n\nof words"})
        key = engine.post("/keys", {"user": "a", "role": "editor"})["key"]
    yield server, key
    stop_server(server)


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory, kb_store_of: StoreOf
) -> Iterator[tuple[RunningServer, str]]:
    home = tmp_path_factory.mktemp("served") / "kb-home"
    with serving(home, KB_UNAUTHORIZED_PER_MINUTE="10000", **kb_store_of()) as server:
        yield server


@pytest.fixture
def impatient(tmp_path: Path, kb_store_of: StoreOf) -> Iterator[tuple[RunningServer, str]]:
    """A server that waits a second for more of a body."""
    with serving(tmp_path / "impatient", KB_BODY_TIMEOUT="1", **kb_store_of()) as server:
        yield server


@pytest.fixture(scope="module")
def guessed(tmp_path_factory: pytest.TempPathFactory, kb_store_of: StoreOf) -> Iterator[str]:
    """The address of a server where keys are guessed: whoever asks there has soon to wait."""
    home = tmp_path_factory.mktemp("guessed") / "kb-home"
    with serving(home, KB_UNAUTHORIZED_PER_MINUTE="50", **kb_store_of()) as (server, _):
        yield server.url


def many(call: Callable[[int], int]) -> list[int]:
    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(call, range(CLIENTS)))


def raw(
    url: str, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
    try:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return (
            answer.status,
            {name.lower(): value for name, value in answer.getheaders()},
            answer.read(),
        )
    finally:
        connection.close()


def test_two_hundred_clients_at_once_are_all_answered(served: tuple[RunningServer, str]) -> None:
    server, key = served
    shown = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    barrier = threading.Barrier(CLIENTS)

    def search(number: int) -> int:
        barrier.wait()
        return raw(
            server.url, "POST", "/api/v1/search", b'{"query": "words", "mode": "lexical"}', **shown
        )[0]

    assert many(search) == [200] * CLIENTS


def test_of_two_hundred_who_write_at_once_each_is_told_the_truth(
    served: tuple[RunningServer, str],
) -> None:
    """Whoever is answered 201 finds the note; whoever is sent away, with 429 or 503, has left nothing."""
    server, key = served
    shown = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    barrier = threading.Barrier(CLIENTS)

    def write(number: int) -> int:
        barrier.wait()
        note = json.dumps({"text": f"written by {number}"}).encode()
        return raw(server.url, "POST", "/api/v1/notes", note, **shown)[0]

    def count() -> int:
        return json.loads(raw(server.url, "GET", "/api/v1/documents", None, **shown)[2])["meta"][
            "total"
        ]

    before = count()
    statuses = many(write)

    assert set(statuses) <= {201, 429, 503}
    assert count() - before == statuses.count(201) > 0


def test_a_body_that_never_comes_is_given_up(impatient: tuple[RunningServer, str]) -> None:
    server, key = impatient
    parts = urlsplit(server.url)
    with socket.create_connection(
        (parts.hostname or "", parts.port or 0), timeout=600
    ) as connection:
        head = f"POST /api/v1/notes HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {key}\r\n"
        connection.sendall(
            f'{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"text"'.encode()
        )
        answer = ""
        while "request_timeout" not in answer and (part := connection.recv(65536)):
            answer += part.decode()

    assert answer.startswith("HTTP/1.1 408"), answer
    assert "request_timeout" in answer


def answer_to(url: str, head: str, seconds: float = 600) -> str:
    parts = urlsplit(url)
    with socket.create_connection(
        (parts.hostname or "", parts.port or 0), timeout=seconds
    ) as connection:
        connection.sendall(head.replace("HOST", parts.netloc).encode())
        return connection.recv(65536).decode()


def test_a_head_that_is_too_long_is_not_read_on(served: tuple[RunningServer, str]) -> None:
    endless = f"GET /api/v1/health/live HTTP/1.1\r\nHost: HOST\r\nX-Long: {'a' * 200_000}"
    assert answer_to(served[0].url, endless).startswith("HTTP/1.1 400")
    at_once = f"GET /api/v1/health/live HTTP/1.1\r\nHost: HOST\r\nX-Long: {'a' * 66_000}\r\n\r\n"
    assert answer_to(served[0].url, at_once).startswith("HTTP/1.1 400")
    many = "".join(f"X-{number}: a\r\n" for number in range(12_000))
    assert answer_to(
        served[0].url, f"GET /api/v1/health/live HTTP/1.1\r\nHost: HOST\r\n{many}\r\n"
    ).startswith("HTTP/1.1 400")
    fine = f"GET /api/v1/health/live HTTP/1.1\r\nHost: HOST\r\nX-Long: {'a' * 60_000}\r\n\r\n"
    assert answer_to(served[0].url, fine).startswith("HTTP/1.1 200")


@pytest.mark.parametrize(
    "extra",
    ["Host: HOST", "Origin: http://HOST\r\nOrigin: http://evil.example", "Host: evil.example"],
)
def test_what_decides_who_is_let_in_is_not_said_twice(
    served: tuple[RunningServer, str], extra: str
) -> None:
    head = f"GET /api/v1/health/live HTTP/1.1\r\nHost: HOST\r\n{extra}\r\n\r\n"
    assert answer_to(served[0].url, head).startswith("HTTP/1.1 400")


def test_a_host_with_a_users_name_is_no_host(served: tuple[RunningServer, str]) -> None:
    head = "GET /api/v1/health/live HTTP/1.1\r\nHost: evil.example@HOST\r\n\r\n"
    assert answer_to(served[0].url, head).startswith("HTTP/1.1 403")


def test_pages_may_not_be_framed_and_nothing_is_sniffed(served: tuple[RunningServer, str]) -> None:
    server, _ = served
    status, page, _ = raw(server.url, "GET", "/schema/swagger")
    assert status == 200
    assert "frame-ancestors 'none'" in page["content-security-policy"]
    assert (page["x-frame-options"], page["referrer-policy"]) == ("DENY", "no-referrer")
    for path in (
        "/schema/swagger",
        "/schema/openapi.json",
        "/api/v1/health/live",
        "/api/v1/documents",
    ):
        _, headers, _ = raw(server.url, "GET", path)
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
        assert not [name for name in headers if name.startswith("access-control-")]


def statuses_of(operation: Any) -> set[int]:
    """What generated requests are answered with."""
    checks = CHECKS.get_by_names(
        ["not_a_server_error", "status_code_conformance", "response_schema_conformance"]
    )
    found: set[int] = set()

    @settings(
        max_examples=3,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
    def request(case: Any) -> None:
        answer = case.call()
        case.validate_response(answer, checks=checks)
        found.add(answer.status_code)

    request()
    return found


@pytest.mark.above_the_store("refused before the store is asked")
def test_generated_requests_without_a_key_are_refused_as_documented(
    served: tuple[RunningServer, str],
) -> None:
    load_all_checks()
    schema = schemathesis.openapi.from_url(f"{served[0].url}/schema/openapi.json")

    found = {
        operation.ok().label: statuses_of(operation.ok())
        for operation in schema.get_all_operations()
    }

    assert found.pop("GET /api/v1/health/live") == {200}
    assert len(found) > 30
    assert {label: statuses for label, statuses in found.items() if statuses != {401}} == {}


def test_a_claimed_address_is_not_believed(guessed: str) -> None:
    """Else who guesses keys could be somebody new each time."""
    statuses = [
        raw(
            guessed,
            "GET",
            "/api/v1/documents",
            None,
            Authorization="Bearer kb_x",
            **{"X-Forwarded-For": f"192.0.2.{number}"},
        )[0]
        for number in range(60)
    ]

    assert set(statuses) == {401, 429}
    assert statuses[-1] == 429


def test_two_hundred_clients_with_wrong_keys_meet_the_limit(guessed: str) -> None:
    def guess(_: int) -> int:
        return raw(
            guessed, "GET", "/api/v1/documents", None, Authorization=f"Bearer {make_key().text}"
        )[0]

    statuses = many(guess)

    assert set(statuses) <= {401, 429}
    # Those that are under way when the limit is reached are still answered.
    assert statuses.count(429) >= CLIENTS / 2
    assert raw(guessed, "GET", "/api/v1/health/live")[0] == 200
