"""What an operation would do, as a person is told before saying yes."""

from __future__ import annotations

from typing import Any

from kb_framework.api import MutationKind
from kb_framework.api.messages import plural
from kb_framework.api.parts import Plugins

_LISTED = 20
# Characters of a title in a list.
_TITLE = 70


def announcement(plugins: Plugins, kind: MutationKind, matched: int, chosen: dict[str, Any]) -> str:
    return (
        f"This will {kind.verb} {plural(matched, noun(kind))} matching: {describe(plugins, chosen)}"
    )


def noun(kind: MutationKind) -> str:
    return kind.over.removesuffix("s")


def sample_lines(kind: MutationKind, preview: dict[str, Any]) -> list[str]:
    """The first of what an operation is about, by id and title, and how large a share of everything it is."""
    lines = []
    for item in preview["sample"]:
        text = f"{item['title']}: {item['text']}" if "text" in item else item["title"]
        shown = " ".join("".join(char if char.isprintable() else " " for char in text).split())
        lines.append(
            f"  {item['id']}  {shown if len(shown) <= _TITLE else f'{shown[: _TITLE - 1]}…'}"
        )
    more = preview["matched"] - len(preview["sample"])
    share = f"{preview['matched']} of {plural(preview['total'], noun(kind))}, {preview['percent']}%"
    return [*lines, f"  … and {more} more ({share})" if more > 0 else f"  ({share})"]


def describe(plugins: Plugins, chosen: dict[str, Any]) -> str:
    """The filters as a person reads them: `tags=[draft,old] type=note`."""
    labels = {
        item.name: item.flag.lstrip("-") or item.name.replace("_", "-") for item in plugins.filters
    }
    shown = {
        key: _listed(value) if isinstance(value, list) else str(value)
        for key, value in chosen.items()
    }
    order = ("tags", "doc_type")
    names = sorted(shown, key=lambda key: (order.index(key) if key in order else len(order), key))
    return " ".join(f"{labels[name]}={shown[name]}" for name in names)


def _listed(values: list[Any]) -> str:
    more = f",… {len(values)} in all" if len(values) > _LISTED else ""
    return f"[{','.join(map(str, values[:_LISTED]))}{more}]"
