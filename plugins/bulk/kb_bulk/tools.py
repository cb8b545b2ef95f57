"""MCP tools: one per mutation kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from kb_bulk.models import FORCE, operation_fields
from kb_framework.client import Engine
from kb_framework.plugins import Plugins
from kb_framework.selection import Selector


def build(plugins: Plugins, name: str) -> Callable[..., dict[str, Any]]:
    kind = next(kind for kind in plugins.kinds if kind.tool_name == name)
    operation = operation_fields(kind)

    def tool(engine: Engine, **parameters: Any) -> dict[str, Any]:
        return getattr(engine, f"bulk_{kind.name}")(**parameters)

    def parameter(field: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
        return inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)

    required = [field for field, info in operation.items() if info.is_required()]
    parameters = [
        inspect.Parameter("engine", inspect.Parameter.POSITIONAL_ONLY, annotation=Engine),
        *(parameter(field, annotation, default) for field, (annotation, default) in Selector(plugins).fields(kind.over).items()),
        *(
            parameter(
                field,
                Annotated[info.annotation, Field(description=info.description)],
                inspect.Parameter.empty if field in required else None,
            )
            for field, info in operation.items()
        ),
        parameter("force", FORCE[0], FORCE[1]),
    ]
    tool.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    changes = f" What is done is said by {' and '.join(f'`{field}`' for field in operation)}." if operation else ""
    tool.__doc__ = (
        f"{kind.help} The filters select WHICH {kind.over}, combined with AND; `tags` is a filter too, "
        f"never what is changed.{changes} Refused above the safety threshold unless `force` is true: ask the person first."
    )
    return tool
