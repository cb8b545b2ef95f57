"""HTTP: answers as they come, which is more than one answer to a request."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any

from litestar import post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from litestar.response import Stream
from litestar.status_codes import HTTP_200_OK

from kb_framework.api import Actor
from kb_framework.errors import KBError
from kb_framework.plugins import Plugins
from kb_knowledge import models
from kb_knowledge.generation import GenerationService
from kb_knowledge.inputs import context_model


def handlers(plugins: Plugins) -> list[HTTPRouteHandler]:
    def stream_answer(data: Any, knowledge_generation: Any, actor: Any) -> Stream:
        """Answer a question as lines of JSON: each piece of `text` as it comes, at last what `/knowledge/ask` answers as `asked`.

        An error after the first line is the last line, as `error`.
        """
        steps = knowledge_generation.stream(data, actor)
        # The first step is taken now, so that an error in it has a status.
        first = next(steps)
        return Stream(_lines(itertools.chain([first], steps)), media_type="application/x-ndjson")

    stream_answer.__annotations__ = {
        "data": JSONBody[context_model(plugins)],
        "knowledge_generation": NamedDependency[GenerationService],
        "actor": NamedDependency[Actor],
        "return": Stream,
    }
    route = post(
        "/knowledge/ask/stream",
        sync_to_thread=True,
        status_code=HTTP_200_OK,
        media_type="application/x-ndjson",
        opt={"permission": "knowledge.view"},
    )
    return [route(stream_answer)]


def _lines(steps: Iterable[str | models.Asked]) -> Iterator[bytes]:
    try:
        for step in steps:
            said = (
                {"text": step} if isinstance(step, str) else {"asked": step.model_dump(mode="json")}
            )
            yield json.dumps(said, ensure_ascii=False).encode() + b"\n"
    except KBError as error:
        said = {"error": error.v1(), "status": error.http_status}
        yield json.dumps(said, ensure_ascii=False).encode() + b"\n"
