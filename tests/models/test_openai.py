"""The embedder behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import logging
import socket
import struct
import threading
import time
from email.utils import formatdate
from typing import Any

import numpy as np
import pytest
from kb_models.errors import EndpointFailed
from kb_models.openai_embedder import OpenAIEmbedder
from kb_models.settings import EmbeddingsSettings
from pydantic import ValidationError

from kb_framework.client import connect
from kb_framework.errors import EmbedderUnavailable, EngineError
from kb_testing.fixtures import Run

from .conftest import Answer, Endpoint, embeddings, raw, status, vector_of

KEY = "sk-very-secret-1234"


def embedder(endpoint: Endpoint, **settings: Any) -> OpenAIEmbedder:
    return OpenAIEmbedder(
        EmbeddingsSettings(
            **{"url": endpoint.url, "model": "tiny", "api_key": KEY, "timeout": 5, **settings}
        )
    )


def numbers(vectors: list[bytes]) -> np.ndarray:
    return np.array([np.frombuffer(vector, dtype="<f4") for vector in vectors])


def failure(endpoint: Endpoint, **settings: Any) -> EmbedderUnavailable:
    """What encoding a text raises; it always names the endpoint and never the key."""
    with pytest.raises(EmbedderUnavailable) as caught:
        embedder(endpoint, **settings).encode(["one", "two"])
    words = json.dumps(caught.value.v1())
    assert f"{endpoint.url}/embeddings" in words
    assert KEY not in words
    return caught.value


# When all goes well


def test_vectors_come_in_the_order_of_the_texts_and_have_unit_length(endpoint: Endpoint) -> None:
    found = numbers(embedder(endpoint).encode(["abc", "hello", "zzz"]))

    expected = np.array([vector_of(text) for text in ("abc", "hello", "zzz")])
    assert found == pytest.approx(
        expected / np.linalg.norm(expected, axis=1, keepdims=True), abs=1e-6
    )


def test_the_model_and_the_key_are_sent(endpoint: Endpoint) -> None:
    embedder(endpoint).encode(["abc"])

    assert endpoint.bodies == [{"model": "tiny", "input": ["abc"]}]
    assert endpoint.keys == [f"Bearer {KEY}"]


def test_without_a_key_none_is_sent(endpoint: Endpoint) -> None:
    embedder(endpoint, api_key=None).encode(["abc"])

    assert endpoint.keys == [None]


@pytest.mark.parametrize("given", ["", "/", "/v1", "/v1/", "/v1/embeddings"])
def test_an_address_with_or_without_the_path_is_the_same_endpoint(
    endpoint: Endpoint, given: str
) -> None:
    url = endpoint.url.removesuffix("/v1") + given

    assert embedder(endpoint, url=url).encode(["abc"])
    assert endpoint.paths == ["/v1/embeddings"]
    assert embedder(endpoint, url=url).model == embedder(endpoint).model


def test_many_texts_are_sent_in_batches_over_one_connection(endpoint: Endpoint) -> None:
    texts = [f"text number {number}" for number in range(1000)]

    found = embedder(endpoint, batch=64).encode(texts)

    assert [len(body["input"]) for body in endpoint.bodies] == [64] * 15 + [40]
    assert [text for body in endpoint.bodies for text in body["input"]] == texts
    assert len(found) == 1000
    assert len(endpoint.connections) == 1


def test_texts_without_content_are_not_sent_and_are_all_zeros(endpoint: Endpoint) -> None:
    found = numbers(embedder(endpoint).encode(["", "abc", " \n"]))

    assert endpoint.bodies[0]["input"] == ["abc"]
    assert [bool(vector.any()) for vector in found] == [False, True, False]


def test_zeros_have_the_models_length_even_if_nothing_else_was_embedded(endpoint: Endpoint) -> None:
    assert embedder(endpoint).encode([""]) == [bytes(4 * 8)]


def test_the_length_is_the_models_own_unless_one_is_asked_for(endpoint: Endpoint) -> None:
    assert embedder(endpoint).dimensions == 8
    endpoint.next = [lambda body: embeddings(body["input"], body["dimensions"])]

    assert len(embedder(endpoint, dimensions=4).encode(["abc"])[0]) == 4 * 4


def test_another_model_address_or_length_is_another_space(endpoint: Endpoint) -> None:
    models = [
        embedder(endpoint, **settings).model
        for settings in (
            {},
            {"model": "other"},
            {"url": "http://127.0.0.1:1/v1"},
            {"dimensions": 4},
        )
    ]

    assert len(set(models)) == 4
    assert endpoint.bodies == []


def test_an_endpoint_that_gives_no_indexes_is_taken_at_its_order(endpoint: Endpoint) -> None:
    rows = [{"embedding": [3.0, 4.0]}, {"embedding": [4.0, 3.0]}]
    endpoint.next = [raw(json.dumps({"data": rows}).encode())]

    assert numbers(embedder(endpoint).encode(["one", "two"])) == pytest.approx(
        np.array([[0.6, 0.8], [0.8, 0.6]])
    )


def test_a_connection_that_the_endpoint_closed_in_between_is_made_anew(endpoint: Endpoint) -> None:
    model = embedder(endpoint)
    model.encode(["one"])
    endpoint.next = [lambda _: None]

    assert len(model.encode(["two"])) == 1
    assert [body["input"] for body in endpoint.bodies] == [["one"], ["two"], ["two"]]


# What passes


@pytest.mark.parametrize("code", [429, 500, 503])
def test_what_may_pass_is_tried_again(endpoint: Endpoint, code: int) -> None:
    endpoint.next = [status(code, "busy", Retry_After="0"), status(code, "busy")]

    assert len(embedder(endpoint).encode(["one"])) == 1
    assert len(endpoint.bodies) == 3


def test_the_endpoint_says_how_long_to_wait(endpoint: Endpoint) -> None:
    endpoint.next = [status(429, Retry_After="1")]
    started = time.monotonic()

    embedder(endpoint).encode(["one"])

    assert time.monotonic() - started >= 1


def test_a_date_to_wait_for_is_understood(endpoint: Endpoint) -> None:
    endpoint.next = [status(429, Retry_After=formatdate(time.time() - 60, usegmt=True))]

    assert len(embedder(endpoint).encode(["one"])) == 1


def test_a_long_wait_is_the_callers_to_decide(endpoint: Endpoint) -> None:
    endpoint.always = status(429, "quota", Retry_After="3600")
    started = time.monotonic()

    found = failure(endpoint)

    assert (found.http_status, "429: quota" in found.message) == (503, True)
    assert time.monotonic() - started < 3600
    assert len(endpoint.bodies) == 1


def test_an_endpoint_that_stays_broken_is_given_up(endpoint: Endpoint) -> None:
    endpoint.always = status(500, "out of memory", Retry_After="0")

    found = failure(endpoint)

    assert isinstance(found, EndpointFailed)
    assert found.message.endswith("answered 500: out of memory")
    assert len(endpoint.bodies) == 4


# What does not


def test_an_endpoint_that_is_not_there_is_named_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = Endpoint(f"http://127.0.0.1:{free.getsockname()[1]}/v1")

    found = failure(nowhere)

    assert (found.http_status, found.exit_code) == (503, 3)
    assert "cannot be reached: " in found.message


def test_an_endpoint_that_is_too_slow_is_not_waited_for(endpoint: Endpoint) -> None:
    def wait(_: dict[str, Any]) -> None:
        endpoint.over.wait(600)

    endpoint.always = wait

    assert (
        "did not answer within 0.2 seconds (KB_EMBEDDINGS_TIMEOUT)"
        in failure(endpoint, timeout=0.2).message
    )


def test_an_endpoint_that_sends_byte_by_byte_has_no_more_time_than_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                try:
                    while not over.wait(0.05):
                        connection.sendall(b" ")
                except OSError:
                    return

        over = threading.Event()
        thread = threading.Thread(target=drip)
        thread.start()
        started = time.monotonic()
        found = failure(Endpoint(f"http://127.0.0.1:{server.getsockname()[1]}/v1"), timeout=0.5)
        over.set()
        thread.join()

    assert "did not answer within" in found.message
    # All of the answer would take more than an hour.
    assert time.monotonic() - started < 600


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>", "not a list of embeddings"),
        (b'{"data": [{"index": 0, "emb', "not a list of embeddings"),
        (b"[]", "not a list of embeddings"),
        (b'{"data": null}', "not a list of embeddings"),
        (b"[" * 100_000, "not a list of embeddings"),
        (b'{"data": [1, 2]}', "not a list of embeddings"),
        (b'{"data": [{"index": 0, "embedding": [1, 2]}]}', "1 vectors for 2 texts"),
        (b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}', "indexes"),
        (
            b'{"data": [{"index": 0, "embedding": [1]}, {"index": "1", "embedding": [1]}]}',
            "indexes",
        ),
        (
            b'{"data": [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [1]}]}',
            "1 numbers instead of 2",
        ),
        (
            b'{"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]}',
            "0 numbers instead of 1 to 8192",
        ),
        (
            b'{"data": [{"index": 0, "embedding": [NaN]}, {"index": 1, "embedding": [1]}]}',
            "finite numbers",
        ),
        (
            b'{"data": [{"index": 0, "embedding": [1e999]}, {"index": 1, "embedding": [1]}]}',
            "finite numbers",
        ),
        (
            b'{"data": [{"index": 0, "embedding": ["1"]}, {"index": 1, "embedding": [1]}]}',
            "finite numbers",
        ),
        (b'{"data": [{"index": 0}, {"index": 1}]}', "finite numbers"),
        (
            b'{"data": [{"index": 0, "embedding": [1%s]}, {"index": 1, "embedding": [1]}]}'
            % (b"0" * 400),
            "finite numbers",
        ),
    ],
)
def test_an_answer_that_cannot_be_right_is_an_error_that_says_what_was_wrong(
    endpoint: Endpoint, body: bytes, words: str
) -> None:
    endpoint.always = raw(body)

    found = failure(endpoint)

    assert (words in found.message, found.http_status) == (True, 503)


def test_vectors_of_another_length_than_asked_for_are_refused(endpoint: Endpoint) -> None:
    assert "8 numbers instead of 16" in failure(endpoint, dimensions=16).message


def test_an_answer_without_an_end_is_not_read_to_it(endpoint: Endpoint) -> None:
    endpoint.always = raw(b" " * 2_000_000)

    assert "too long" in failure(endpoint).message


@pytest.mark.parametrize("code", [401, 403, 404, 307])
def test_an_endpoint_that_refuses_is_asked_once_and_the_hint_says_what_to_check(
    endpoint: Endpoint, code: int
) -> None:
    endpoint.always = status(code, f"Incorrect key\x1b[2J provided: {KEY}.", Location=endpoint.url)

    found = failure(endpoint)

    assert found.message.endswith(f"answered {code}: Incorrect key[2J provided: ***.")
    assert "KB_EMBEDDINGS_" in (found.hint or "")
    assert (found.http_status, len(endpoint.bodies)) == (503, 1)


def test_a_text_that_the_endpoint_refuses_is_no_reason_to_stop_with_the_others(
    endpoint: Endpoint,
) -> None:
    endpoint.always = status(400, "input too long")

    assert failure(endpoint).http_status == 400


def test_nothing_that_is_logged_holds_the_key(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.next = [status(429, KEY, Retry_After="0")]
    with caplog.at_level(logging.DEBUG, logger="kb"):
        embedder(endpoint).encode(["one"])

    assert "answered 429" in caplog.text
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"url": None}, "KB_EMBEDDINGS_URL"),
        ({"model": None}, "KB_EMBEDDINGS_MODEL"),
        ({"url": "localhost:8080"}, "not an address"),
        ({"url": "ftp://127.0.0.1/v1"}, "not an address"),
        ({"url": "http://127.0.0.1:99999/v1"}, "not an address"),
        ({"url": "http://127.0.0.1/v 1"}, "not an address"),
        ({"api_key": f"{KEY}\r\nX-Other: 1"}, "KB_EMBEDDINGS_API_KEY holds"),
    ],
)
def test_settings_that_cannot_work_are_a_problem_before_anything_is_sent(
    endpoint: Endpoint, settings: dict[str, Any], words: str
) -> None:
    problem = embedder(endpoint, **settings).problem

    assert words in str(problem)
    assert KEY not in str(problem)


def test_an_address_with_a_password_is_refused_without_showing_it(endpoint: Endpoint) -> None:
    with pytest.raises(ValidationError, match=r"holds a name or a password: .* API_KEY") as refused:
        embedder(endpoint, url=f"http://me:{KEY}@127.0.0.1/v1")

    assert KEY not in str(refused.value)
    assert endpoint.paths == []


def test_a_command_names_the_address_that_holds_a_password_and_does_not_show_it(
    kb_run: Run, kb_home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_EMBEDDINGS_URL", f"http://me:{KEY}@127.0.0.1/v1")

    refused = kb_run("list")

    assert refused.returncode != 0
    assert "KB_EMBEDDINGS_URL" in refused.stderr
    assert "API_KEY" in refused.stderr
    assert KEY not in refused.stdout + refused.stderr


def test_a_query_in_the_address_is_sent_and_not_shown(endpoint: Endpoint) -> None:
    endpoint.next = [status(404)]
    found = failure(endpoint, url=f"{endpoint.url}?key={KEY}")

    assert endpoint.paths == [f"/v1/embeddings?key={KEY}"]
    assert KEY not in found.message


# In a knowledge base


@pytest.fixture
def chosen(kb_home: Any, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """The endpoint as the configured embedder."""
    settings = {"URL": endpoint.url, "MODEL": "tiny", "API_KEY": KEY, "TIMEOUT": "5"}
    for name, value in settings.items():
        monkeypatch.setenv(f"KB_EMBEDDINGS_{name}", value)
    monkeypatch.setenv("KB_EMBEDDER", "openai")
    return endpoint


def test_documents_are_embedded_and_found_by_meaning(chosen: Endpoint) -> None:
    with connect() as engine:
        for text in ("abc abc", "xyz xyz", "mmm mmm"):
            engine.add_note(text)

        assert engine.search("zyx", mode="vector")["hits"][0]["title"] == "xyz xyz"
        assert engine.get("/doctor")["status"] == "ok"
        space = engine.get("/schema")["models"]["embedding_space"]
        assert space == {"model": f"openai:{chosen.url}/embeddings:tiny", "dimensions": 8}


def test_while_the_endpoint_is_down_nothing_is_added_and_hybrid_search_goes_by_words(
    chosen: Endpoint,
) -> None:
    with connect() as engine:
        engine.add_note("the zebra crossing")
        chosen.always = status(503, "starting", Retry_After="0")

        with pytest.raises(EngineError) as refused:
            engine.add_note("another zebra")
        found = engine.search("zebra")
        with pytest.raises(EngineError) as vector:
            engine.search("zebra", mode="vector")

        assert (refused.value.http_status, refused.value.code) == (503, "embedder_unavailable")
        assert "starting" in refused.value.message
        assert vector.value.http_status == 503
        assert [hit["title"] for hit in found["hits"]] == ["the zebra crossing"]
        assert chosen.url in found["hint"]
        assert len(engine.list_documents()["data"]) == 1

        chosen.always = None
        engine.add_note("another zebra")
        assert len(engine.search("zebra", mode="vector")["hits"]) == 2


def test_an_endpoint_that_changes_its_vectors_length_is_found_out(chosen: Endpoint) -> None:
    with connect() as engine:
        engine.add_note("the zebra crossing")

    def longer(body: dict[str, Any]) -> Answer:
        return embeddings(body["input"], 12)

    chosen.always = longer
    with connect() as engine:
        with pytest.raises(EngineError, match="8 numbers, but it gives 12 now"):
            engine.search("zebra", mode="vector")
        engine.add_note("another zebra")
        assert len(engine.search("zebra", mode="lexical")["hits"]) == 2


def test_health_asks_nothing_of_the_endpoint(chosen: Endpoint) -> None:
    with connect() as engine:
        assert engine.get("/health")["embedder"] == {"ok": True, "problem": None}

    assert chosen.bodies == []


def test_without_an_address_text_is_kept_and_the_hint_says_what_to_set(
    chosen: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KB_EMBEDDINGS_URL")
    with connect() as engine:
        engine.add_note("the zebra crossing")

        assert "KB_EMBEDDINGS_URL" in engine.search("zebra")["hint"]
        assert "KB_EMBEDDINGS_URL" in engine.get("/health")["embedder"]["problem"]


def test_the_key_is_not_shown_by_the_command_line(chosen: Endpoint, kb_run: Run) -> None:
    chosen.always = status(401, f"bad key {KEY}")
    shown = kb_run("config", "--json")
    added = kb_run("note", "a note", "--debug")

    assert "KB_EMBEDDINGS_API_KEY" in shown.stdout
    assert KEY not in shown.stdout + shown.stderr + added.stdout + added.stderr
    assert added.returncode == 3
    assert "answered 401: bad key ***" in added.stderr


def test_packed_vectors_are_little_endian_floats(endpoint: Endpoint) -> None:
    (found,) = embedder(endpoint).encode(["abc"])

    assert sum(value * value for value in struct.unpack("<8f", found)) == pytest.approx(
        1.0, abs=1e-6
    )
