"""H3a, H9, A2: `kb serve` – who may reach it, how it is found, how it stops, what it says of itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import schemathesis

from kb_framework.app import open_kb
from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine
from kb_framework.edges.http.app import create_app
from kb_framework.errors import EngineUnreachable
from kb_framework.plugins import Plugins
from kb_framework.remote import HttpTransport
from kb_framework.running import ADDRESS_FILE, PATIENT_SECONDS, ProvenTransport, running_engine
from kb_testing.fixtures import Install, Run, RunningServer

LIVE = "/api/v1/health/live"
Serve = Callable[..., RunningServer]


def lines(server: RunningServer) -> list[dict[str, Any]]:
    return [json.loads(line) for line in list(server.log) if line.startswith("{")]


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 600) -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"in vain: {what}")


# Who may reach it


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8420",
        "127.8.9.10",
        "localhost",
        "LOCALHOST:1",
        "[::1]",
        "[::1]:8420",
    ],
)
def test_a_name_of_this_machine_is_served(server: RunningServer, ask: Any, host: str) -> None:
    assert ask(server.url, "GET", LIVE, None, {"Host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "evil.com:8420",
        "localhost.evil.com",
        "127.0.0.1.evil.com",
        "0.0.0.0",
        "192.168.1.1",
        "[fe80::1]",
        "[::1",
        "",
        None,
    ],
)
@pytest.mark.parametrize("path", [LIVE, "/schema/openapi.json", "/mcp"])
def test_another_name_is_refused_everywhere(
    server: RunningServer, ask: Any, host: str | None, path: str
) -> None:
    answer = ask(server.url, "GET", path, None, {"Host": host})

    assert answer.status in {400, 403}
    assert "instance" not in answer.body.decode()
    if answer.status == 403:
        assert answer.json["error"] == "forbidden"


def test_a_host_may_be_allowed_by_name(serve: Serve, ask: Any) -> None:
    server = serve(KB_ALLOWED_HOSTS="kb.example.org")

    assert (
        ask(
            server.url,
            "GET",
            LIVE,
            None,
            {"Host": "KB.example.org:443", "Origin": "https://kb.example.org"},
        ).status
        == 200
    )
    assert ask(server.url, "GET", LIVE, None, {"Host": "example.org"}).status == 403


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.com",
        "https://evil.com:8420",
        "http://localhost.evil.com",
        "http://localhost@evil.com",
        "file://",
        "chrome-extension://abcdef",
        "nonsense",
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", LIVE), ("POST", "/api/v1/notes"), ("POST", "/mcp"), ("OPTIONS", LIVE)],
)
def test_a_page_from_elsewhere_is_refused(
    server: RunningServer, ask: Any, origin: str, method: str, path: str
) -> None:
    headers = {
        "Origin": origin,
        "Content-Type": "application/json",
        "Access-Control-Request-Method": "POST",
    }
    answer = ask(
        server.url,
        method,
        path,
        b'{"text": "from elsewhere"}' if method == "POST" else None,
        headers,
    )

    assert answer.status == 403
    assert answer.json["error"] == "forbidden"
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_a_page_of_its_own_is_served_without_cors_headers(server: RunningServer, ask: Any) -> None:
    for origin in (server.url, server.url.replace("127.0.0.1", "localhost")):
        answer = ask(
            server.url,
            "POST",
            "/api/v1/search",
            b'{"query": "a"}',
            {"Origin": origin, "Content-Type": "application/json"},
        )

        assert answer.status == 200
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_a_stored_page_is_never_shown_in_this_origin(server: RunningServer, ask: Any) -> None:
    page = b"<p>A page.</p><script>fetch('/api/v1/documents')</script>"
    with Engine(HttpTransport(server.url), Plugins(read_bootstrap())) as engine:
        document = engine.add_file("page.html", page)["document"]
    answer = ask(server.url, "GET", f"/api/v1/documents/{document['id']}/file")

    assert answer.body == page
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]


# What it says in its log


def test_every_answer_has_an_id_that_its_log_line_has_too(server: RunningServer, ask: Any) -> None:
    answers = [
        ask(server.url, "GET", LIVE),
        ask(server.url, "GET", "/nope"),
        ask(server.url, "GET", LIVE, None, {"Host": "evil.com"}),
        ask(server.url, "GET", "/assets/swagger/swagger-ui.css"),
        ask(server.url, "POST", "/mcp", b"{", {"Content-Type": "application/json"}),
    ]

    ids = [answer.headers["x-request-id"] for answer in answers]
    assert len(set(ids)) == len(ids)
    for answer, request_id in zip(answers, ids, strict=True):
        line = wait_for(
            lambda wanted=request_id: [x for x in lines(server) if x.get("request_id") == wanted],
            request_id,
        )[0]
        assert line["status"] == answer.status


def test_a_log_line_is_one_json_object(server: RunningServer, ask: Any) -> None:
    request_id = ask(server.url, "GET", "/api/v1/documents?q=secret-words").headers["x-request-id"]
    line = wait_for(
        lambda: [x for x in lines(server) if x.get("request_id") == request_id], request_id
    )[0]

    assert set(line) == {
        "time",
        "level",
        "logger",
        "message",
        "request_id",
        "method",
        "path",
        "status",
        "ms",
    }
    assert (line["level"], line["method"], line["path"], line["status"]) == (
        "info",
        "GET",
        "/api/v1/documents",
        200,
    )
    assert line["time"].endswith("Z")
    assert line["ms"] > 0
    assert "secret-words" not in json.dumps(line)
    assert [text for text in server.log if not text.startswith("{")] == [
        next(x for x in server.log if x.startswith("kb: serving"))
    ]


def test_a_path_cannot_break_a_log_line(server: RunningServer, ask: Any) -> None:
    request_id = ask(server.url, "GET", "/a%0A%7B%22level%22%3A%20%22forged%22%7D").headers[
        "x-request-id"
    ]

    wait_for(lambda: [x for x in lines(server) if x.get("request_id") == request_id], request_id)
    assert not [x for x in lines(server) if x.get("level") == "forged"]


def test_the_log_level_is_a_setting(serve: Serve, ask: Any, stop: Any) -> None:
    server = serve(KB_LOG_LEVEL="error")
    ask(server.url, "GET", LIVE)
    stop(server)

    assert lines(server) == []


# How it stops


SLOW = """
import os
import time
from pathlib import Path
from litestar import get
from kb_framework import api, hookimpl

@get("/slow", sync_to_thread=True)
def slow() -> dict:
    Path(os.environ["KB_DATA_DIR"], "begun").touch()
    time.sleep(1)
    return {"finished": True}

handlers = [slow]

@hookimpl
def kb_routes():
    return [api.Routes("slow", "slow_routes:handlers")]
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_quietly_once_the_requests_under_way_are_answered(
    kb_plugin: Install, serve: Serve, kb_home: Path, ask: Any, number: signal.Signals
) -> None:
    kb_plugin("slow", SLOW, module="slow_routes")
    server = serve()
    answers: list[Any] = []
    under_way = threading.Thread(
        target=lambda: answers.append(ask(server.url, "GET", "/api/v1/slow"))
    )
    assert json.loads((kb_home / ADDRESS_FILE).read_text())["url"] == server.url
    under_way.start()
    wait_for((kb_home / "begun").exists, "the request")

    server.process.send_signal(number)
    code = server.process.wait(timeout=600)
    under_way.join()

    assert answers[0].json == {"finished": True}
    assert code == 0
    assert not (kb_home / ADDRESS_FILE).exists()
    assert "Traceback" not in "".join(server.log)


def test_what_was_acknowledged_is_there_after_a_restart(serve: Serve, stop: Any, ask: Any) -> None:
    first = serve()
    added = ask(
        first.url,
        "POST",
        "/api/v1/notes",
        b'{"text": "kept"}',
        {"Content-Type": "application/json"},
    ).json
    assert stop(first) == 0

    again = serve()

    assert (
        ask(again.url, "GET", f"/api/v1/documents/{added['document']['id']}").json
        == added["document"]
    )


# How it is found


def test_a_command_uses_the_server_by_itself(serve: Serve, kb_run: Run, stop: Any) -> None:
    server = serve()

    added = json.loads(kb_run("note", "found by itself", "--json").stdout)
    listed = json.loads(kb_run("list", "--json").stdout)

    assert [item["id"] for item in listed["data"]] == [added["document"]["id"]]
    stop(server)
    asked = [(line["method"], line["path"]) for line in lines(server) if "path" in line]
    assert ("POST", "/api/v1/notes") in asked
    assert ("GET", "/api/v1/documents") in asked


@pytest.mark.new_database
def test_a_command_uses_the_engine_that_is_configured(
    server: RunningServer, kb_run: Run, kb_home: Path
) -> None:
    done = kb_run("note", "over there", "--json", KB_ENGINE_URL=server.url)

    assert done.returncode == 0, done.stderr
    assert not (kb_home / "kb.sqlite").exists()
    with server.engine as engine:
        number = json.loads(done.stdout)["document"]["id"]
        assert engine.get(f"/documents/{number}")["title"] == "over there"


@pytest.fixture
def other_server() -> Iterator[str]:
    """Something else that speaks HTTP on a port that an engine may have had."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"status": "ok", "instance": "another"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as other:
        thread = threading.Thread(target=other.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{other.server_port}"
        other.shutdown()
        thread.join()


def leave(kb_home: Path, content: str) -> Path:
    kb_home.mkdir(exist_ok=True)
    path = kb_home / ADDRESS_FILE
    path.write_text(content)
    return path


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def test_an_address_where_nothing_answers_is_ignored(kb_home: Path, kb_run: Run) -> None:
    leave(
        kb_home,
        json.dumps({"url": f"http://127.0.0.1:{free_port()}", "instance": "gone", "pid": 1}),
    )

    done = kb_run("note", "all the same")

    assert (done.returncode, done.stderr) == (0, "")
    assert list((kb_home / "files").glob("??/*"))


def test_an_address_where_another_server_answers_is_ignored(
    kb_home: Path, other_server: str, kb_run: Run
) -> None:
    leave(kb_home, json.dumps({"url": other_server, "instance": "gone", "pid": 1}))

    done = kb_run("note", "all the same")

    assert (done.returncode, done.stderr) == (0, "")
    assert list((kb_home / "files").glob("??/*"))


class Impostor:
    """A server on a dead engine's port that says what a public route says, and keeps what it is sent."""

    def __init__(self, instance: str, port: int = 0) -> None:
        self.received: list[str] = []
        kept = self.received

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                sent = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
                kept.append(f"{self.path} {self.headers} {sent}")
                body = json.dumps(
                    {"status": "ok", "instance": instance, "proof": "0" * 64}
                ).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer  # noqa: N815 - the names of the base class

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> str:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
        return "\n".join(self.received)


def test_an_answer_that_no_engine_gives_names_the_address(kb_home: Path, kb_run: Run) -> None:
    other = Impostor("another")
    url = f"http://127.0.0.1:{other.server.server_port}"
    try:
        for command in (("note", "text"), ("list",), ("search", "text"), ("tags",)):
            said = kb_run(*command, KB_ENGINE_URL=url)
            assert (said.returncode, said.stdout) == (3, ""), command
            assert f"the answer of {url} is not that of a kb engine" in said.stderr
            assert "KB_ENGINE_URL" in said.stderr
    finally:
        other.close()


@pytest.mark.parametrize("pid_is", ["dead", "alive"])
def test_an_impostor_on_a_dead_engines_port_is_sent_nothing(
    serve: Serve, kb_home: Path, kb_run: Run, pid_is: str
) -> None:
    server = serve()
    key = json.loads(
        kb_run("keys", "create", "--user", "root", "--role", "admin", "--json").stdout
    )["key"]
    left = json.loads((kb_home / ADDRESS_FILE).read_text())
    os.kill(left["pid"], signal.SIGKILL)
    server.process.wait()
    impostor = Impostor(left["instance"], int(left["url"].rsplit(":", 1)[1]))
    if pid_is == "alive":
        leave(kb_home, json.dumps({**left, "pid": os.getpid()}))

    without, with_key = (
        kb_run("note", "my salary"),
        kb_run("note", "my other salary", KB_API_KEY=key),
    )
    received = impostor.close()

    assert (without.returncode, with_key.returncode) == (0, 0)
    assert [
        word for word in ("salary", key, left["secret"], "uthorization") if word in received
    ] == []
    assert bool(received) is (pid_is == "alive"), (
        "where the process is known to be dead, nobody is asked"
    )
    assert json.loads(kb_run("list", "--json").stdout)["meta"]["total"] == 2


def test_an_engine_that_is_replaced_between_two_requests_is_sent_nothing(
    serve: Serve, kb_home: Path
) -> None:
    server = serve()
    left = json.loads((kb_home / ADDRESS_FILE).read_text())
    bootstrap = read_bootstrap()
    # On a busy machine `connect` may give up on the engine and open the folder itself.
    running = running_engine(bootstrap, PATIENT_SECONDS)
    assert running
    with Engine(ProvenTransport(running, running.secret), Plugins(bootstrap)) as engine:
        engine.add_note("the first")
        os.kill(left["pid"], signal.SIGKILL)
        server.process.wait()
        impostor = Impostor(left["instance"], int(left["url"].rsplit(":", 1)[1]))

        with pytest.raises(EngineUnreachable, match="not the engine"):
            engine.add_note("my salary")
        received = impostor.close()

    assert "nonce=" in received
    assert "salary" not in received
    assert left["secret"] not in received


def test_an_engine_proves_itself_only_by_its_secret(server: RunningServer, ask: Any) -> None:
    first, second = (
        ask(server.url, "GET", f"{LIVE}?nonce={nonce}").json for nonce in ("a" * 64, "b" * 64)
    )

    assert first["proof"] != second["proof"]
    assert "proof" not in ask(server.url, "GET", LIVE).json
    assert ask(server.url, "GET", f"{LIVE}?nonce={'a' * 129}").status == 400


def test_an_address_where_something_listens_in_silence_is_given_up_soon(kb_home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        leave(
            kb_home,
            json.dumps(
                {"url": f"http://127.0.0.1:{silent.getsockname()[1]}", "instance": "gone", "pid": 1}
            ),
        )
        found: list[str | None] = []
        asking = threading.Thread(
            target=lambda: found.append(running_engine(read_bootstrap())), daemon=True
        )
        asking.start()
        asking.join(timeout=600)
        in_time = list(found)
    asking.join()

    assert in_time == [None], "a command would hang here"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "null",
        "[]",
        "{}",
        '{"url": 1, "instance": null}',
        '{"url": "file:///etc/passwd", "instance": "x"}',
        '{"url": "http://127.0.0.1:99999", "instance": "x"}',
        '{"url": "http://[::1", "instance": "x"}',
        '{"url": "", "instance": ""}',
    ],
)
def test_an_address_that_makes_no_sense_is_ignored(kb_home: Path, content: str) -> None:
    leave(kb_home, content)

    assert running_engine(read_bootstrap()) is None


def test_a_server_that_stops_leaves_another_servers_address_alone(
    serve: Serve, stop: Any, kb_home: Path
) -> None:
    first = serve()
    second = serve()

    assert stop(first) == 0
    found = running_engine(read_bootstrap(), PATIENT_SECONDS)
    assert found is not None
    assert found.url == second.url


@pytest.mark.new_database
def test_a_configured_engine_that_cannot_be_reached_is_exit_3(kb_run: Run, kb_home: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = kb_run("list", "--json", KB_ENGINE_URL=url)

    assert (done.returncode, done.stdout) == (3, "")
    error = json.loads(done.stderr)
    assert error["code"] == "engine_unreachable"
    assert url in error["message"]
    assert not (kb_home / "kb.sqlite").exists()


@pytest.mark.parametrize(
    "url", ["nonsense", "ftp://127.0.0.1", "http://", "http://127.0.0.1:99999", "http://[::1"]
)
def test_an_engine_address_that_makes_no_sense_is_told_without_a_traceback(
    kb_run: Run, url: str
) -> None:
    done = kb_run("list", KB_ENGINE_URL=url)

    assert done.returncode in {2, 3}
    assert "KB_ENGINE_URL" in done.stderr
    assert url in done.stderr
    assert "unexpected" not in done.stderr
    assert "Traceback" not in done.stderr


# Where it listens


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
def test_it_refuses_to_listen_where_others_could_reach_it(kb_run: Run, host: str) -> None:
    done = kb_run("serve", "--port", "0", "--host", host)

    assert (done.returncode, done.stdout) == (2, "")
    assert "refusing to listen" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_listens_on_the_loopback_of_version_6(serve: Serve, ask: Any, kb_run: Run) -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("no IPv6 here")
    server = serve("--host", "::1")

    assert server.url.startswith("http://[::1]:")
    assert ask(server.url, "GET", LIVE).status == 200


def test_a_port_in_use_is_told_in_a_sentence(
    server: RunningServer, kb_run: Run, kb_home: Path
) -> None:
    port = server.url.rsplit(":", 1)[1]
    done = kb_run("serve", "--port", port)

    assert (done.returncode, done.stdout) == (3, "")
    assert f"127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (kb_home / ADDRESS_FILE).exists()


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_a_port_that_cannot_be_is_told_in_a_sentence(kb_run: Run, port: str) -> None:
    done = kb_run("serve", "--port", port)

    assert done.returncode in {2, 3}
    assert port in done.stderr
    assert "unexpected" not in done.stderr


# Its documentation


@pytest.fixture(scope="module")
def openapi(server: RunningServer, ask: Any) -> dict[str, Any]:
    answer = ask(server.url, "GET", "/schema/openapi.json")
    assert answer.status == 200
    return answer.json


def operations(openapi: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_the_openapi_document_is_valid(openapi: dict[str, Any]) -> None:
    schema = schemathesis.openapi.from_dict(openapi)

    schema.validate()
    assert openapi["openapi"].startswith("3.1")
    names = [operation["operationId"] for _, operation in operations(openapi)]
    assert len(set(names)) == len(names)


def test_every_reference_in_the_openapi_document_leads_somewhere(openapi: dict[str, Any]) -> None:
    for reference in set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(openapi))):
        found: Any = openapi
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        assert found


def test_every_route_is_documented(kb_home: Path, openapi: dict[str, Any]) -> None:
    kb = open_kb()
    app: Any = create_app(kb)
    kb.close()
    served = {
        f"{method} {re.sub(r':[a-z]+}', '}', route.path)}"
        for route in app.app.routes
        if route.path.startswith("/api/v1")
        for method in route.methods
        if method not in {"OPTIONS", "HEAD"}
    }

    assert served == {name for name, _ in operations(openapi)}


def test_every_route_documents_its_parameters_bodies_and_errors(openapi: dict[str, Any]) -> None:
    for name, operation in operations(openapi):
        assert operation.get("summary") or operation.get("description"), name
        responses = operation["responses"]
        assert [status for status in responses if status.startswith("2")], name
        for status in ("400", "404", "413", "500", "503"):
            content = responses[status]["content"]["application/json"]["schema"]
            assert content.get("$ref"), f"{name} {status}"
        assert "422" not in responses, name
        for parameter in operation.get("parameters", ()):
            assert parameter["schema"], name
        for media, body in operation.get("requestBody", {}).get("content", {}).items():
            assert body["schema"], f"{name} {media}"


def test_every_route_says_in_words_what_it_does(openapi: dict[str, Any]) -> None:
    silent = [name for name, operation in operations(openapi) if not operation.get("description")]

    assert silent == []


def test_the_documentation_page_needs_no_other_host(server: RunningServer, ask: Any) -> None:
    page = ask(server.url, "GET", "/schema/swagger")
    text = page.body.decode()
    head = re.sub(r"spec: \{.*", "", text)

    assert page.status == 200
    assert page.headers["content-type"].startswith("text/html")
    assert not re.findall(r"(?:src|href|url)\s*[=:(]\s*['\"]?(?:https?:)?//", head)
    assets = re.findall(r"(?:src|href)=['\"]([^'\"]+)", head)
    assert len(assets) >= 3
    for path in assets:
        asset = ask(server.url, "GET", path)
        assert (asset.status, bool(asset.body)) == (200, True), path
    kinds = {
        path.rsplit(".", 1)[1]: ask(server.url, "GET", path).headers["content-type"]
        for path in assets
    }
    assert kinds["css"].startswith("text/css")
    assert "javascript" in kinds["js"]


@pytest.mark.parametrize(("path", "place"), [("/", "/console"), ("/docs", "/schema/swagger")])
def test_the_pages_and_their_documentation_are_where_one_looks_first(
    server: RunningServer, ask: Any, path: str, place: str
) -> None:
    answer = ask(server.url, "GET", path)

    assert answer.status in {302, 307}
    assert answer.headers["location"] == place


@pytest.mark.parametrize(
    "path", ["..", "%2e%2e", "..%2f..", "%2e%2e%2f%2e%2e", "/etc/passwd", "%00"]
)
def test_the_assets_do_not_lead_elsewhere(server: RunningServer, ask: Any, path: str) -> None:
    assert ask(server.url, "GET", f"/assets/swagger/{path}/__init__.py").status in {400, 404}


def test_a_browser_shows_the_documentation_without_the_network(server: RunningServer) -> None:
    browser = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if browser is None:
        pytest.skip("no browser here")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=15000",
        "--dump-dom",
    ]
    rules = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    shown = subprocess.run(
        [browser, *options, rules, f"{server.url}/schema/swagger"],
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert "/api/v1/documents" in re.sub(r"<script.*?</script>", "", shown.stdout, flags=re.DOTALL)
