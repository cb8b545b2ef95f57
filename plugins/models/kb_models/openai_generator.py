"""A generator behind any OpenAI-compatible `/v1/chat/completions` endpoint, read as it streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from kb_framework.errors import GeneratorRefused, GeneratorUnavailable
from kb_models.endpoint import Endpoint, Variables
from kb_models.settings import ModelsSettings

# What a token takes on the wire, with the frame around each piece; an answer beyond it is not one.
_BYTES_PER_TOKEN = 1024
_FRAME_BYTES = 1 << 16
# Of a stream of events, whose empty lines and comments have no name.
_OTHER_FIELDS = {b"", b"event", b"id", b"retry"}


class OpenAIGenerator:
    def __init__(self, settings: ModelsSettings) -> None:
        self._settings = settings
        key = settings.knowledge_generator_api_key
        names = ("URL", "MODEL", "API_KEY", "TIMEOUT")
        self._endpoint = Endpoint(
            "generator",
            "/chat/completions",
            Variables(*(f"KB_KNOWLEDGE_GENERATOR_{name}" for name in names)),
            url=settings.knowledge_generator_url,
            key=key.get_secret_value() if key else "",
            timeout=settings.knowledge_generator_timeout,
            failed=GeneratorUnavailable,
            refused=GeneratorRefused,
        )

    @cached_property
    def problem(self) -> str | None:
        if (
            not self._settings.knowledge_generator_url
            or not self._settings.knowledge_generator_model
        ):
            return "the generator 'openai' needs KB_KNOWLEDGE_GENERATOR_URL and KB_KNOWLEDGE_GENERATOR_MODEL"
        return self._endpoint.problem

    @property
    def model(self) -> str:
        return str(self._settings.knowledge_generator_model)

    def generate(self, prompt: str) -> Iterator[str]:
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": self._settings.knowledge_generator_max_tokens,
            "temperature": self._settings.knowledge_generator_temperature,
            "stream": True,
        }
        limit = _FRAME_BYTES + self._settings.knowledge_generator_max_tokens * _BYTES_PER_TOKEN
        finished = False
        whole: list[bytes] = []
        for line in self._endpoint.lines(json.dumps(body).encode(), limit):
            name, _, value = line.strip().partition(b":")
            if name in _OTHER_FIELDS:
                continue
            if name != b"data":
                # An endpoint that does not stream answers with one object.
                whole.append(line)
                continue
            if value.strip() == b"[DONE]":
                finished = True
                break
            piece, ended = self._piece(value, "delta")
            finished = finished or ended
            if piece:
                yield piece
        if not finished:
            piece, finished = (
                self._piece(b"\n".join(whole), "message")
                if b"".join(whole).strip()
                else ("", False)
            )
            if not finished:
                raise self._endpoint.failure("broke off in the middle of its answer")
            yield piece

    def _piece(self, value: bytes, part: str) -> tuple[str, bool]:
        """What one object of the answer adds, and whether it is the last."""
        try:
            said: Any = json.loads(value)
            if "error" in said:
                raise self._endpoint.failure(
                    f"failed while it answered: {str(said['error'])[:200]}"
                )
            if not said["choices"]:
                return "", False
            choice = said["choices"][0]
            text = choice.get(part, {}).get("content") or ""
            if not isinstance(text, str):
                raise TypeError
            return text, choice.get("finish_reason") is not None
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            raise self._endpoint.failure("gave an answer that is not a chat completion") from None
