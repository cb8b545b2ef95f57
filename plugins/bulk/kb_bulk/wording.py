"""What an operation would do, as a person is told before saying yes."""

from __future__ import annotations

from typing import Any

from kb_framework.api import MutationKind
from kb_framework.plugins import Plugins

_LISTED = 20


def announcement(plugins: Plugins, kind: MutationKind, matched: int, chosen: dict[str, Any]) -> str:
    return f"This will {kind.verb} {matched} {kind.over} matching: {describe(plugins, chosen)}"


def describe(plugins: Plugins, chosen: dict[str, Any]) -> str:
    """The filters as a person reads them: `tags=[draft,old] type=note`."""
    labels = {item.name: (item.flag.lstrip("-") or item.name) for item in plugins.filters}
    shown = {key: _listed(value) if isinstance(value, list) else str(value) for key, value in chosen.items()}
    order = ("tags", "doc_type")
    names = sorted(shown, key=lambda key: (order.index(key) if key in order else len(order), key))
    return " ".join(f"{labels[name]}={shown[name]}" for name in names)


def _listed(values: list[Any]) -> str:
    more = f",… {len(values)} in all" if len(values) > _LISTED else ""
    return f"[{','.join(map(str, values[:_LISTED]))}{more}]"
