"""One call of a tool: the one place where an error becomes a tool's answer."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types
from pydantic import ValidationError

from kb_framework.api.models import invalid
from kb_framework.client import Engine
from kb_framework.edges.mcp.asking import Asking, Sampling
from kb_framework.edges.mcp.tools import BoundTool
from kb_framework.errors import EngineError, InternalError, KBError, memory_trouble

log = logging.getLogger("kb.mcp")


def run_tool(
    bound: BoundTool,
    engine: Callable[[], Engine],
    arguments: Mapping[str, Any],
    beside: Asking | Sampling | None = None,
) -> types.CallToolResult:
    """Return a tool's answer. An engine's error has its own body, any other is an `error.v1`."""
    try:
        given = bound.arguments(arguments)
        # Whatever a tool answers is read by a model.
        reading = engine().read_by("model")
        both = (reading, beside) if bound.tool.asks or bound.tool.samples else (reading,)
        result = bound.function(*both, **given)
    except EngineError as error:
        return failure(error.body)
    except ValidationError as error:
        return failure(invalid(error, bound.parameters).v1())
    except KBError as error:
        return failure(error.v1())
    except Exception as error:
        if lacking := memory_trouble(error):
            return failure(lacking.v1())
        log.error("tool %s failed", bound.tool.name, exc_info=error)
        words = f"the tool failed ({type(error).__name__}); the server's log has more"
        return failure(InternalError(words).v1())
    return types.CallToolResult(
        content=[_text(result)],
        structured_content=result if isinstance(result, dict) else {"data": result},
    )


def failure(body: Any) -> types.CallToolResult:
    structured = body if isinstance(body, dict) else {"message": str(body)}
    return types.CallToolResult(
        content=[_text(structured)], structured_content=structured, is_error=True
    )


def _text(value: Any) -> types.TextContent:
    return types.TextContent(text=json.dumps(value, ensure_ascii=False))
