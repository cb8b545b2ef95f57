"""An embedder behind any OpenAI-compatible `/v1/embeddings` endpoint.

An endpoint that fails is an error, never a document without vectors: whoever adds one is told to try again. What is
waited for is bounded, because a search waits too.
"""

from __future__ import annotations

import json
import math
import struct
from functools import cached_property
from typing import Any

from kb_framework.errors import EmbedderUnavailable
from kb_models.endpoint import Endpoint, Variables
from kb_models.errors import EndpointFailed
from kb_models.settings import EmbeddingsSettings

_MAX_DIMENSIONS = 8192
# A number written out in JSON, at most.
_NUMBER_BYTES = 32
_FRAME_BYTES = 1 << 16


class OpenAIEmbedder:
    def __init__(self, embeddings_settings: EmbeddingsSettings) -> None:
        self._settings = settings = embeddings_settings
        self._found_dimensions = settings.dimensions
        self._endpoint = Endpoint(
            "embeddings",
            "/embeddings",
            Variables(
                "KB_EMBEDDINGS_URL",
                "KB_EMBEDDINGS_MODEL",
                "KB_EMBEDDINGS_API_KEY",
                "KB_EMBEDDINGS_TIMEOUT",
            ),
            url=settings.url,
            key=settings.api_key.get_secret_value() if settings.api_key else "",
            timeout=settings.timeout,
            failed=EndpointFailed,
            refused=EmbedderUnavailable,
        )

    @cached_property
    def problem(self) -> str | None:
        """What is wrong with the settings, without asking the endpoint."""
        if not self._settings.url or not self._settings.model:
            return "the embedder 'openai' needs KB_EMBEDDINGS_URL and KB_EMBEDDINGS_MODEL"
        return self._endpoint.problem

    @property
    def model(self) -> str:
        """Where the vectors come from: another endpoint, model or length is another space."""
        length = f":{self._settings.dimensions}" if self._settings.dimensions else ""
        return f"openai:{self._endpoint.shown}:{self._settings.model}{length}"

    @property
    def dimensions(self) -> int:
        if self._found_dimensions is None:
            self._ask(["length"])
        assert self._found_dimensions is not None
        return self._found_dimensions

    def encode(self, texts: list[str]) -> list[bytes]:
        """A unit vector per text, in batches; zeros for a text without content, which endpoints refuse."""
        filled = [number for number, text in enumerate(texts) if text.strip()]
        found: dict[int, bytes] = {}
        for begin in range(0, len(filled), self._settings.batch):
            batch = filled[begin : begin + self._settings.batch]
            found.update(zip(batch, self._ask([texts[number] for number in batch]), strict=True))
        empty = bytes(4 * self.dimensions) if len(found) < len(texts) else b""
        return [found.get(number, empty) for number in range(len(texts))]

    def _ask(self, texts: list[str]) -> list[bytes]:
        """Vectors for one batch."""
        asked: dict[str, Any] = {"model": self._settings.model, "input": texts}
        if self._settings.dimensions:
            asked["dimensions"] = self._settings.dimensions
        limit = _FRAME_BYTES + len(texts) * _MAX_DIMENSIONS * _NUMBER_BYTES
        return self._vectors(self._endpoint.post(json.dumps(asked).encode(), limit), len(texts))

    # Understanding the answer

    def _vectors(self, body: bytes, count: int) -> list[bytes]:
        try:
            rows = json.loads(body)["data"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise self._endpoint.failure(
                "gave an answer that is not a list of embeddings"
            ) from None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self._endpoint.failure("gave an answer that is not a list of embeddings")
        if len(rows) != count:
            raise self._endpoint.failure(f"gave {len(rows)} vectors for {count} texts")
        if any("index" in row for row in rows):
            places = [row.get("index") for row in rows]
            if not all(type(place) is int for place in places) or set(places) != set(range(count)):
                raise self._endpoint.failure(
                    "gave vectors whose indexes do not name each text once"
                )
            rows = sorted(rows, key=lambda row: row["index"])
        return [self._vector(row.get("embedding")) for row in rows]

    def _vector(self, numbers: Any) -> bytes:
        """The vector at unit length. A length that is not the expected one is never stored beside others."""
        try:
            usable = isinstance(numbers, list) and all(map(math.isfinite, numbers))
            norm = math.hypot(*numbers) if usable else math.inf
        except (TypeError, OverflowError):
            usable, norm = False, math.inf
        if not usable or not math.isfinite(norm):
            raise self._endpoint.failure("gave a vector that is not made of finite numbers")
        if self._found_dimensions is None and 0 < len(numbers) <= _MAX_DIMENSIONS:
            self._found_dimensions = len(numbers)
        if len(numbers) != self._found_dimensions:
            expected = self._found_dimensions or f"1 to {_MAX_DIMENSIONS}"
            raise self._endpoint.failure(
                f"gave a vector of {len(numbers)} numbers instead of {expected}"
            )
        return struct.pack(f"<{len(numbers)}f", *(number / (norm or 1.0) for number in numbers))
