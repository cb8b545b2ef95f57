"""`kb` as `search.py` measures it: filled by its store, searched by its service and over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
import uvicorn
from kb_search.models import SearchIn
from kb_text.api import index_fields
from search_data import CHUNKS_PER_DOCUMENT, DIMENSIONS, HUNDREDTH, Data, Question, path_of, tags_of

from kb_framework.api import Actor
from kb_framework.api.spaces import active_space, create_space
from kb_framework.api.tables import chunks, document_tags, documents, organizations
from kb_framework.api.times import now
from kb_framework.app import KB, open_kb
from kb_framework.edges.http.app import create_app

OTHER = "00000000-0000-4000-8000-00000000beef"
# Of the chunks, the last tenth belongs to another organization.
_OWN_SHARE = 0.9
_AT_ONCE = 10_000
MODEL = "benchmark"


class Known:
    """An embedder that knows the vectors of the questions."""

    model = MODEL
    dimensions = DIMENSIONS

    def __init__(self, questions: list[Question]) -> None:
        self._vectors = {question.text: question.vector.tobytes() for question in questions}

    def encode(self, texts: list[str]) -> list[bytes]:
        return [self._vectors[text] for text in texts]


def open_at(home: Path, questions: list[Question], database_url: str | None = None) -> KB:
    os.environ["KB_DATA_DIR"] = str(home)
    os.environ.pop("KB_DATABASE_URL", None)
    if database_url:
        os.environ["KB_DATABASE_URL"] = database_url
    kb = open_kb()
    kb.services["embedding"]._chosen._built = Known(questions)
    return kb


def fill(kb: KB, data: Data) -> float:
    """Seconds to put all chunks in, with full text and vectors."""
    began = time.perf_counter()
    with kb.store.read() as tx:
        there = tx.scalar(sa.select(sa.func.count()).select_from(chunks))
    if there == data.size:
        return 0.0
    # No batch belongs to both organizations.
    for begin, texts, vectors in data.batches(min(10_000, data.size // 10)):
        own = begin < _OWN_SHARE * data.size
        with kb.store.write(Actor().organization_id if own else OTHER) as tx:
            if begin == 0:
                tx.execute(
                    sa.insert(organizations).values(id=OTHER, name="other", created_at=now())
                )
            space = active_space(tx) or create_space(tx, MODEL, DIMENSIONS)
            _insert(tx, begin, texts)
            rows = [
                (begin + i + 1, index_fields([title(begin + i), "", text]))
                for i, text in enumerate(texts)
            ]
            tx.text.add(rows)
            embedded = [(begin + i + 1, vector.tobytes()) for i, vector in enumerate(vectors)]
            tx.vector_index(space.index_name).add(embedded)
    return time.perf_counter() - began


def title(chunk: int) -> str:
    return f"document {chunk // CHUNKS_PER_DOCUMENT}"


def _insert(tx: Any, begin: int, texts: list[str]) -> None:
    time_now, owner = now(), tx.organization_id
    numbers = range(begin // CHUNKS_PER_DOCUMENT, (begin + len(texts)) // CHUNKS_PER_DOCUMENT)
    common = {
        "organization_id": owner,
        "doc_type": "note",
        "media": "text/plain",
        "trust": "primary",
        "metadata": {},
    }
    common |= {
        "lang": "en",
        "bytes": 1,
        "chunk_count": CHUNKS_PER_DOCUMENT,
        "created_at": time_now,
        "updated_at": time_now,
    }
    common |= {"indexed_at": time_now}
    rows = [
        {
            **common,
            "id": n + 1,
            "title": f"document {n}",
            "path": path_of(n),
            "content_hash": f"{n:064x}",
        }
        for n in numbers
    ]
    tx.execute(sa.insert(documents), rows)
    tags = [
        {"organization_id": owner, "document_id": n + 1, "tag": tag}
        for n in numbers
        for tag in tags_of(n)
    ]
    tx.execute(sa.insert(document_tags), tags)
    tx.execute(
        sa.insert(chunks),
        [
            {
                "seq": n + 1,
                "id": f"00000000-0000-4000-8000-{n:012x}",
                "organization_id": owner,
                "document_id": n // CHUNKS_PER_DOCUMENT + 1,
                "job_id": "benchmark",
                "chunk_index": n % CHUNKS_PER_DOCUMENT,
                "content": text,
                "content_hash": f"{n:064x}",
                "metadata": {},
                "created_at": time_now,
            }
            for n, text in enumerate(texts, begin)
        ],
    )


def keep(kb: KB) -> float:
    """Seconds to build what makes a large knowledge base fast: the side index, or HNSW on PostgreSQL."""
    began = time.perf_counter()
    keeper = kb.upkeep.builder()
    keeper.run()
    assert keeper.missing() == 0
    return time.perf_counter() - began


def searcher(kb: KB, mode: str, organization: str | None = None, **filters: Any) -> Any:
    service = kb.services["search"]
    actor = Actor() if organization is None else Actor(organization_id=organization)

    def search(question: Question) -> list[str]:
        found = service.search(SearchIn(query=question.text, mode=mode, k=10, **filters), actor)  # type: ignore[arg-type]
        return [hit.chunk_id for hit in found.hits]

    return search


def exact(data: Data, questions: list[Question]) -> dict[str, list[list[int]]]:
    """The ten nearest by comparing all: of every chunk, of the own organization's, and of the hundredth of those."""
    asked = np.stack([question.vector for question in questions])
    best: dict[str, list[np.ndarray]] = {
        name: [np.empty((0, 2)) for _ in questions] for name in ("every", "own", "hundredth")
    }
    for begin in range(0, data.size, _AT_ONCE):
        numbers = np.arange(begin, min(begin + _AT_ONCE, data.size))
        scores = data.chunks(begin, begin + len(numbers), only_vectors=True)[1] @ asked.T
        own = numbers < _OWN_SHARE * data.size
        tagged = numbers // CHUNKS_PER_DOCUMENT % HUNDREDTH == 0
        for name, mask in (("every", numbers >= 0), ("own", own), ("hundredth", own & tagged)):
            for i in range(len(questions)):
                pairs = np.concatenate(
                    [best[name][i], np.column_stack([scores[mask, i], numbers[mask]])]
                )
                best[name][i] = pairs[np.argsort(-pairs[:, 0])[:10]]
    return {
        name: [pairs[:, 1].astype(int).tolist() for pairs in found] for name, found in best.items()
    }


def number_of(chunk_id: str) -> int:
    return int(chunk_id.rpartition("-")[2], 16)


class HttpServer:
    """The same knowledge base behind a port."""

    def __init__(self, kb: KB) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._server = uvicorn.Server(
            uvicorn.Config(create_app(kb), log_config=None, access_log=False)
        )
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()
        self._connection = http.client.HTTPConnection(*self._socket.getsockname())

    def search(self, question: Question) -> Any:
        body = json.dumps({"query": question.text, "mode": "hybrid", "k": 10})
        self._connection.request(
            "POST", "/api/v1/search", body, {"Content-Type": "application/json"}
        )
        answer = self._connection.getresponse()
        found = json.loads(answer.read())
        assert answer.status == 200, found
        return found

    def close(self) -> None:
        self._connection.close()
        self._server.should_exit = True
        self._thread.join()
