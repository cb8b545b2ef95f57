"""MCP tools: one per mutation kind. What exceeds the safety threshold is put to the person, where the client can ask."""

from __future__ import annotations

from typing import Any

from kb_bulk.wording import announcement
from kb_framework.api import Ask, MutationKind, Operation, resolve
from kb_framework.api.client import Engine
from kb_framework.api.parts import Plugins, Selector
from kb_framework.errors import Declined, EngineError, SafetyThresholdExceeded


def run(
    engine: Engine, operation: Operation[Any, Any], ask: Ask, **parameters: Any
) -> dict[str, Any]:
    """Run a kind over a selection; ask the person first where it exceeds the safety threshold."""
    kind: MutationKind = operation.subject
    answer = ask.answer
    if answer is None:
        try:
            return engine.run(operation, parameters)
        except EngineError as refusal:
            if refusal.code != SafetyThresholdExceeded.code or not ask.possible:
                raise
        preview = engine.bulk_preview(kind.name, **parameters)
        answer = ask(_question(engine.plugins, kind, preview, parameters), preview["plan"])
    if answer.action != "accept":
        did = "declined" if answer.action == "decline" else "did not answer"
        raise Declined(f"the person was asked, and {did}; nothing was changed")
    return engine.run(operation, {**parameters, "plan": answer.state, "force": True})


def describe(operation: Operation[Any, Any]) -> str:
    """Return what a model is told of a kind's tool."""
    kind: MutationKind = operation.subject
    fields = " and ".join(f"`{name}`" for name in resolve(kind.target).model_fields)
    changes = f"{fields} say what is changed. " if fields else ""
    return (
        f"{kind.help} Filters select WHICH {kind.over}, combined with AND, at least one. `tags` is a filter: it picks documents "
        f"that have ALL of these tags, and never names tags to delete or change. {changes}"
        "Above the safety threshold the person is asked, or the call is refused: set `force` only if the person said so."
    )


def _question(
    plugins: Plugins, kind: MutationKind, preview: dict[str, Any], parameters: dict[str, Any]
) -> str:
    names = {item.name for item in Selector(plugins).offered(kind.over)}
    chosen = {name: value for name, value in parameters.items() if name in names}
    share = f"{preview['percent']}% of {preview['total']}, more than the safety threshold of {preview['threshold']}%"
    return f"{announcement(plugins, kind, preview['matched'], chosen)}. That is {share}. Proceed?"
