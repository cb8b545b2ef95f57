"""MCP tools: one per mutation kind. What exceeds the safety threshold is put to the person, where the client can ask."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from kb_bulk.models import FORCE, operation_fields
from kb_bulk.wording import announcement
from kb_framework.api import Ask, MutationKind
from kb_framework.client import Engine
from kb_framework.errors import Declined, EngineError, SafetyThresholdExceeded
from kb_framework.plugins import Plugins
from kb_framework.selection import Selector


def build(plugins: Plugins, name: str) -> Callable[..., dict[str, Any]]:
    kind = next(kind for kind in plugins.kinds if kind.tool_name == name)
    operation = operation_fields(kind)

    def tool(engine: Engine, ask: Ask, **parameters: Any) -> dict[str, Any]:
        execute = getattr(engine, f"bulk_{kind.name}")
        answer = ask.answer
        if answer is None:
            try:
                return execute(**parameters)
            except EngineError as refusal:
                if refusal.code != SafetyThresholdExceeded.code or not ask.possible:
                    raise
            preview = engine.bulk_preview(kind.name, **parameters)
            answer = ask(_question(plugins, kind, preview, parameters), preview["plan"])
        if answer.action != "accept":
            did = "declined" if answer.action == "decline" else "did not answer"
            raise Declined(f"the person was asked, and {did}; nothing was changed")
        return execute(**{**parameters, "plan": answer.state, "force": True})

    def parameter(field: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
        return inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)

    required = [field for field, info in operation.items() if info.is_required()]
    parameters = [
        inspect.Parameter("engine", inspect.Parameter.POSITIONAL_ONLY, annotation=Engine),
        inspect.Parameter("ask", inspect.Parameter.POSITIONAL_ONLY, annotation=Ask),
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
    changes = f"{' and '.join(f'`{field}`' for field in operation)} say what is changed. " if operation else ""
    tool.__doc__ = (
        f"{kind.help} Filters select WHICH {kind.over}, combined with AND, at least one. `tags` is a filter: it picks documents "
        f"that have ALL of these tags, and never names tags to delete or change. {changes}"
        "Above the safety threshold the person is asked, or the call is refused: set `force` only if the person said so."
    )
    return tool


def _question(plugins: Plugins, kind: MutationKind, preview: dict[str, Any], parameters: dict[str, Any]) -> str:
    chosen = {
        item.name: parameters[item.name] for item in Selector(plugins).offered(kind.over) if parameters.get(item.name) is not None
    }
    share = f"{preview['percent']}% of {preview['total']}, more than the safety threshold of {preview['threshold']}%"
    return f"{announcement(plugins, kind, preview['matched'], chosen)}. That is {share}. Proceed?"
