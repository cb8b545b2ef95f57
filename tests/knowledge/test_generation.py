"""K8: a generator turns a context into text with checked citations; without one the context is the result."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from kb_knowledge.models import Citation
from kb_knowledge.snapshots import check_citations
from kb_models.openai_generator import OpenAIGenerator
from kb_models.settings import ModelsSettings
from mcp import Client

from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError, GeneratorRefused, GeneratorUnavailable
from kb_testing.fixtures import Install, Run, kb_line, start_server, stop_server

Behaviour = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Server:
    url: str = ""
    next: list[Behaviour] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


def streamed(*pieces: str, end: bool = True) -> Behaviour:
    """A chat completion as such endpoints stream it."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        for piece in pieces:
            event = {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
            handler.wfile.write(b": a comment\n" + f"data: {json.dumps(event)}\n\n".encode())
        if end:
            handler.wfile.write(
                b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
            )
        handler.close_connection = True

    return answer


def plain(status: int, body: Any, **headers: str) -> Behaviour:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


@pytest.fixture
def server() -> Iterator[Server]:
    """An OpenAI-compatible endpoint on this machine that does as it is told."""
    found = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            found.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            found.keys.append(self.headers["Authorization"])
            (found.next.pop(0) if found.next else streamed("It is 14 m ", "deep [F1]."))(self)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that went away is what some tests are about."""

    running = Quiet(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    found.url = f"http://127.0.0.1:{running.server_address[1]}/v1"
    yield found
    found.over.set()
    running.shutdown()
    thread.join()
    running.server_close()


def generator(server: Server, **more: Any) -> OpenAIGenerator:
    values = {
        "knowledge_generator_url": server.url,
        "knowledge_generator_model": "small",
        "knowledge_generator_timeout": 5.0,
        **more,
    }
    return OpenAIGenerator(ModelsSettings(**values))


def test_k8_the_endpoint_is_asked_for_a_stream_and_its_pieces_come_one_by_one(
    server: Server,
) -> None:
    server.next = [streamed("It ", "is ", "deep.")]

    assert list(generator(server, knowledge_generator_api_key="k1").generate("How deep?")) == [
        "It ",
        "is ",
        "deep.",
    ]
    (body,) = server.bodies
    assert (body["model"], body["stream"], body["messages"]) == (
        "small",
        True,
        [{"role": "user", "content": "How deep?"}],
    )
    assert server.keys == ["Bearer k1"]


def test_k8_an_endpoint_that_does_not_stream_is_understood(server: Server) -> None:
    server.next = [
        plain(200, {"choices": [{"message": {"content": "Deep."}, "finish_reason": "stop"}]})
    ]

    assert "".join(generator(server).generate("How deep?")) == "Deep."


@pytest.mark.parametrize("status", [429, 500, 503])
def test_k8_what_may_pass_is_tried_again(server: Server, status: int) -> None:
    server.next = [plain(status, {"error": {"message": "busy"}}, Retry_After="0")] * 2

    assert "".join(generator(server).generate("How deep?")) == "It is 14 m deep [F1]."
    assert len(server.bodies) == 3


def test_k8_what_does_not_pass_is_said(server: Server) -> None:
    server.next = [plain(503, {"error": {"message": "busy"}}, Retry_After="0")] * 4

    with pytest.raises(GeneratorUnavailable, match="answered 503: busy"):
        list(generator(server).generate("How deep?"))
    assert len(server.bodies) == 4


def test_k8_a_prompt_that_is_refused_is_not_sent_again(server: Server) -> None:
    server.next = [plain(400, {"error": {"message": "context length exceeded"}})]

    with pytest.raises(GeneratorRefused, match="context length exceeded"):
        list(generator(server).generate("How deep?"))
    assert len(server.bodies) == 1


def test_k8_a_wrong_key_is_named_and_never_shown(server: Server) -> None:
    server.next = [plain(401, {"error": {"message": "the key k-secret is wrong"}})]

    with pytest.raises(GeneratorUnavailable) as refused:
        list(generator(server, knowledge_generator_api_key="k-secret").generate("How deep?"))
    assert "k-secret" not in refused.value.message
    assert "KB_KNOWLEDGE_GENERATOR_API_KEY" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (streamed("It is", end=False), "broke off"),
        (plain(200, b"data: {not json}\n\n"), "not a chat completion"),
        (plain(200, b"data: {}\n\n"), "not a chat completion"),
        (plain(200, b"<html>"), "not a chat completion"),
        (plain(200, b""), "broke off"),
        (plain(200, b'data: {"error": {"message": "overloaded"}}\n\n'), "failed while it answered"),
        (plain(200, b"data: " + b"x" * 2_000_000), "too long"),
    ],
    ids=["cut short", "not json", "empty object", "html", "empty", "error", "endless"],
)
def test_k8_half_an_answer_is_no_answer(server: Server, behaviour: Behaviour, words: str) -> None:
    server.next = [behaviour]

    with pytest.raises(GeneratorUnavailable, match=words):
        list(generator(server, knowledge_generator_max_tokens=100).generate("How deep?"))


def test_k8_an_endpoint_that_does_not_answer_is_given_up(server: Server) -> None:
    server.next = [lambda _: server.over.wait(600) and None]

    began = time.monotonic()
    with pytest.raises(
        GeneratorUnavailable, match=r"0.2 seconds \(KB_KNOWLEDGE_GENERATOR_TIMEOUT\)"
    ):
        list(generator(server, knowledge_generator_timeout=0.2).generate("How deep?"))
    assert time.monotonic() - began < 300


def test_k8_without_an_address_it_says_what_to_set() -> None:
    assert "KB_KNOWLEDGE_GENERATOR_URL" in str(OpenAIGenerator(ModelsSettings()).problem)


# Asking


@pytest.fixture
def asking(kb_home: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    for name, value in {"": "openai", "_URL": server.url, "_MODEL": "small"}.items():
        monkeypatch.setenv(f"KB_KNOWLEDGE_GENERATOR{name}", value)
    with connect() as engine:
        engine.add_note("The harbour is 14 m deep.", title="Guide")
        yield engine


def test_k8_an_answer_comes_with_citations_and_is_kept_with_its_snapshot(
    asking: Engine, server: Server
) -> None:
    found = asking.ask("How deep is the harbour?")

    assert found["answer"]["text"] == "It is 14 m deep [F1]."
    assert found["answer"]["model"] == "small"
    (citation,) = found["answer"]["citations"]
    assert (citation["label"], citation["valid"], citation["title"]) == ("F1", True, "Guide")
    assert citation["chunk_id"] == found["context"]["facts"][0]["chunk_id"]
    snapshot = asking.get_snapshot(found["snapshot_id"])
    assert snapshot["answer"] == found["answer"]
    assert server.bodies[0]["messages"][0]["content"] == snapshot["prompt"]


def test_k8_a_citation_outside_of_the_context_is_marked(asking: Engine, server: Server) -> None:
    server.next = [streamed("Deep [F1], blue [F7] and old [Q1].")]

    answer = asking.ask("How deep is the harbour?")["answer"]

    assert (
        answer["text"]
        == "Deep [F1], blue [F7: not in the context] and old [Q1: not in the context]."
    )
    assert [(item["label"], item["valid"]) for item in answer["citations"]] == [
        ("F1", True),
        ("F7", False),
        ("Q1", False),
    ]


def test_k8_a_generator_that_fails_is_an_error_and_the_snapshot_stays_without_an_answer(
    asking: Engine, server: Server
) -> None:
    server.next = [plain(401, {})]

    with pytest.raises(EngineError) as refused:
        asking.ask("How deep is the harbour?")

    assert (refused.value.http_status, refused.value.code) == (503, "generator_unavailable")
    (snapshot,) = asking.list_snapshots()["data"]
    assert snapshot["answered"] is False


def test_k8_an_empty_answer_is_none(asking: Engine, server: Server) -> None:
    server.next = [streamed(" ")]

    with pytest.raises(EngineError, match="empty answer"):
        asking.ask("How deep is the harbour?")


def test_k8_without_a_generator_the_context_is_the_result(kb_engine: Engine) -> None:
    kb_engine.add_note("The harbour is 14 m deep.")

    found = kb_engine.ask("How deep is the harbour?")

    assert found["answer"] is None
    assert len(found["context"]["facts"]) == 1
    assert kb_engine.get_snapshot(found["snapshot_id"])["prompt"] == found["context"]["prompt"]


def test_k8_a_generator_that_nobody_offers_is_said_before_anything_is_kept(
    kb_home: Path, monkeypatch
) -> None:
    monkeypatch.setenv("KB_KNOWLEDGE_GENERATOR", "oracle")
    with connect() as engine:
        with pytest.raises(EngineError, match="'oracle' is not available; available: openai"):
            engine.ask("How deep is the harbour?")
        assert engine.list_snapshots()["meta"]["total"] == 0


def test_k8_a_third_party_generator_answers(kb_home: Path, kb_plugin: Install, monkeypatch) -> None:
    source = """
from kb_framework import api, hookimpl

@hookimpl
def kb_generators():
    return [api.Generator("echo", "kb_echo:Echo")]

class Echo:
    model = "echo-1"

    def generate(self, prompt):
        yield "I was given "
        yield str(prompt.count("[F")) + " labels [F1]."
"""
    kb_plugin("echo", source, module="kb_echo")
    monkeypatch.setenv("KB_KNOWLEDGE_GENERATOR", "echo")
    with connect() as engine:
        engine.add_note("The harbour is 14 m deep.")
        answer = engine.ask("How deep is the harbour?")["answer"]

    assert (answer["text"], answer["model"]) == ("I was given 2 labels [F1].", "echo-1")


def test_k8_an_answer_from_elsewhere_is_checked_and_kept_once(kb_engine: Engine) -> None:
    kb_engine.add_note("The harbour is 14 m deep.")
    snapshot = kb_engine.knowledge_context("How deep is the harbour?")["snapshot_id"]

    answer = kb_engine.answer_snapshot(snapshot, "Deep [F1] [F2].", "somewhere")
    with pytest.raises(EngineError) as refused:
        kb_engine.answer_snapshot(snapshot, "Other.", "somewhere")

    assert [item["valid"] for item in answer["citations"]] == [True, False]
    assert refused.value.http_status == 409
    assert kb_engine.get_snapshot(snapshot)["answer"]["text"].startswith("Deep [F1]")


def test_k8_the_same_label_is_cited_once_and_other_brackets_are_left_alone() -> None:
    known = {"F1": Citation(label="F1", valid=True)}

    text, citations = check_citations("a [F1] b [F1] c [note] d [F12] e F1", known)

    assert text == "a [F1] b [F1] c [note] d [F12: not in the context] e F1"
    assert [item.label for item in citations] == ["F1", "F12"]


def test_k8_kb_ask_prints_the_answer_with_citations_and_the_snapshot(
    asking: Engine, here: Run
) -> None:
    done = here("ask", "How deep is the harbour?")
    context = here("ask", "How deep is the harbour?", KB_KNOWLEDGE_GENERATOR="none")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("It is 14 m deep [F1].\n")
    assert "[F1] Guide" in done.stdout
    assert "snapshot " in done.stdout
    assert "# Question" in context.stdout
    assert "no generator is configured" in context.stderr
    listed = json.loads(here("snapshots", "--json").stdout)["data"]
    assert [item["answered"] for item in listed] == [False, True]
    shown = json.loads(here("snapshots", "show", listed[1]["id"], "--json").stdout)
    assert (
        json.loads(here("impact", shown["chunks"][0]["chunk_id"], "--json").stdout)["meta"]["total"]
        == 2
    )


# An answer as it comes


def halting(server: Server, heard: threading.Event) -> Behaviour:
    """Sends the second half of an answer only when somebody has read the first."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        first, second = (
            {"choices": [{"delta": {"content": text}}]} for text in ("It is 14 m ", "deep [F1].")
        )
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(f"data: {json.dumps(first)}\n\n".encode())
        if heard.wait(600):
            handler.wfile.write(f"data: {json.dumps(second)}\n\ndata: [DONE]\n\n".encode())
        handler.close_connection = True

    return answer


def test_k8_the_pieces_of_an_answer_come_before_it_is_complete(
    asking: Engine, server: Server
) -> None:
    heard = threading.Event()
    server.next = [halting(server, heard)]
    lines = asking.stream_answer("How deep is the harbour?")

    assert next(lines) == {"text": "It is 14 m "}
    heard.set()
    *pieces, last = lines

    assert pieces == [{"text": "deep [F1]."}]
    assert last["asked"]["answer"]["text"] == "It is 14 m deep [F1]."
    assert asking.get_snapshot(last["asked"]["snapshot_id"])["answer"] == last["asked"]["answer"]


def test_k8_the_pieces_come_from_a_running_engine_too(
    kb_home: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = threading.Event()
    server.next = [halting(server, heard)]
    for name, value in {"": "openai", "_URL": server.url, "_MODEL": "small"}.items():
        monkeypatch.setenv(f"KB_KNOWLEDGE_GENERATOR{name}", value)
    running = start_server()
    try:
        with connect() as engine:
            engine.add_note("The harbour is 14 m deep.", title="Guide")
            lines = engine.stream_answer("How deep is the harbour?")

            assert next(lines) == {"text": "It is 14 m "}
            heard.set()
            assert [*lines][-1]["asked"]["answer"]["text"] == "It is 14 m deep [F1]."
    finally:
        heard.set()
        stop_server(running)


def test_k8_an_error_at_the_beginning_has_its_status_and_a_later_one_ends_the_pieces(
    asking: Engine, server: Server
) -> None:
    server.next = [plain(401, {}), streamed("It is ", end=False)]

    with pytest.raises(EngineError) as refused:
        next(asking.stream_answer("How deep is the harbour?"))
    lines = asking.stream_answer("How deep is the harbour?")

    assert (refused.value.http_status, refused.value.code) == (503, "generator_unavailable")
    assert next(lines) == {"text": "It is "}
    with pytest.raises(EngineError, match="broke off") as broken:
        next(lines)
    assert broken.value.code == "generator_unavailable"


def test_k8_kb_ask_shows_the_answer_in_a_terminal_as_it_comes(
    asking: Engine, server: Server
) -> None:
    heard = threading.Event()
    server.next = [halting(server, heard)]
    controlling, terminal = pty.openpty()
    process = subprocess.Popen(kb_line("ask", "How deep is the harbour?"), stdout=terminal)
    os.close(terminal)
    shown = b""
    while b"14 m " not in shown:
        shown += os.read(controlling, 1000)
    assert b"snapshot" not in shown
    heard.set()
    assert process.wait(600) == 0
    with contextlib.suppress(OSError):
        while part := os.read(controlling, 1000):
            shown += part
    os.close(controlling)

    text = shown.decode().replace("\r\n", "\n")
    assert text.startswith("It is 14 m deep [F1].\n\n[F1] Guide")
    assert "\nsnapshot " in text


# MCP sampling


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_k8_where_the_mcp_client_offers_its_model_it_answers(kb_engine: Engine, mode: str) -> None:
    from kb_framework.bootstrap import read_bootstrap
    from kb_framework.edges.mcp.server import create_server
    from kb_framework.plugins import Plugins

    kb_engine.add_note("The harbour is 14 m deep.")
    prompts: list[str] = []

    async def sample(_: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        prompts.append(params.messages[0].content.text)  # type: ignore[union-attr]
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(text="Deep [F1] [F9]."), model="theirs"
        )

    async def ask() -> dict[str, Any]:
        server = create_server(lambda _: kb_engine, Plugins(read_bootstrap()), "read")
        async with Client(server, sampling_callback=sample, mode=mode) as client:  # type: ignore[arg-type]
            result = await client.call_tool("kb_ask", {"query": "How deep is the harbour?"})
            return dict(result.structured_content or {})

    found = anyio.run(ask)

    assert found["answer"]["text"] == "Deep [F1] [F9: not in the context]."
    assert found["answer"]["model"] == "theirs"
    snapshot = kb_engine.get_snapshot(found["snapshot_id"])
    assert prompts == [snapshot["prompt"]]
    assert snapshot["answer"] == found["answer"]
    assert kb_engine.list_snapshots()["meta"]["total"] == 1


def test_k8_where_the_mcp_client_has_no_model_to_offer_the_context_comes_back(
    kb_engine: Engine,
) -> None:
    from kb_framework.bootstrap import read_bootstrap
    from kb_framework.edges.mcp.server import create_server
    from kb_framework.plugins import Plugins

    kb_engine.add_note("The harbour is 14 m deep.")

    async def ask() -> dict[str, Any]:
        async with Client(
            create_server(lambda _: kb_engine, Plugins(read_bootstrap()), "read")
        ) as client:
            result = await client.call_tool("kb_ask", {"query": "How deep is the harbour?"})
            return dict(result.structured_content or {})

    found = anyio.run(ask)

    assert found["answer"] is None
    assert "# Question" in found["context"]["prompt"]
