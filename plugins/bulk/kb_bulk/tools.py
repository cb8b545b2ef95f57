"""MCP tools: one per mutation kind. What exceeds the safety threshold is put to the person, where the client can ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kb_bulk.wording import announcement
from kb_framework.api import Ask, MutationKind, resolve
from kb_framework.client import Engine
from kb_framework.errors import Declined, EngineError, SafetyThresholdExceeded
from kb_framework.pipelines.selection import Selector
from kb_framework.plugins import Plugins


def build(plugins: Plugins, name: str) -> Callable[..., dict[str, Any]]:
    kind = next(kind for kind in plugins.kinds if kind.tool_name == name)
    operation = resolve(kind.target).model_fields

    def tool(engine: Engine, ask: Ask, /, **parameters: Any) -> dict[str, Any]:
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

    changes = (
        f"{' and '.join(f'`{field}`' for field in operation)} say what is changed. "
        if operation
        else ""
    )
    tool.__doc__ = (
        f"{kind.help} Filters select WHICH {kind.over}, combined with AND, at least one. `tags` is a filter: it picks documents "
        f"that have ALL of these tags, and never names tags to delete or change. {changes}"
        "Above the safety threshold the person is asked, or the call is refused: set `force` only if the person said so."
    )
    return tool


def _question(
    plugins: Plugins, kind: MutationKind, preview: dict[str, Any], parameters: dict[str, Any]
) -> str:
    chosen = {
        item.name: parameters[item.name]
        for item in Selector(plugins).offered(kind.over)
        if parameters.get(item.name) is not None
    }
    share = f"{preview['percent']}% of {preview['total']}, more than the safety threshold of {preview['threshold']}%"
    return f"{announcement(plugins, kind, preview['matched'], chosen)}. That is {share}. Proceed?"
