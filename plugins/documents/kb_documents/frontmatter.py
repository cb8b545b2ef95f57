"""The head of a Markdown file: YAML between `---` lines, or TOML between `+++` lines.

Whatever does not read as a table of keys is left as text: a rule at the top of a file, two dashes too few, a broken
line. Nothing in a file's head may fail the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import date, time
from itertools import islice
from typing import Any, NamedTuple

from kb_framework.api.models import clean_tag

_YAML = re.compile(r"---[ \t]*\n(.*?\n)??(?:---|\.\.\.)[ \t]*(?:\n|$)", re.DOTALL)
_TOML = re.compile(r"\+\+\+[ \t]*\n(.*?\n)??\+\+\+[ \t]*(?:\n|$)", re.DOTALL)
_LONGEST_HEAD = 65_536
_MOST_TAGS = 100
_MOST_ENTRIES = 100
_LONGEST_VALUE = 2_000
_DEEPEST = 4
# Deeper YAML is not read at all: the parser calls itself for each level.
_DEEPEST_YAML = 32
# The parser of TOML takes the square of the parts of a dotted key. A string may have as many dots as its value may have.
_MOST_DOTS = 2_000


class FrontMatter(NamedTuple):
    """What the head of a file says, and where its body starts."""

    title: str | None
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    body_start: int


def read(text: str) -> FrontMatter | None:
    """None where there is no front matter, or none that can be read."""
    head = text[:_LONGEST_HEAD]
    if match := _YAML.match(head):
        values = _yaml(match.group(1) or "")
    elif match := _TOML.match(head):
        values = _toml(match.group(1) or "")
    else:
        return None
    if values is None:
        return None
    named = {str(key).strip().lower(): key for key in values}
    title = _title(values.pop(named["title"])) if "title" in named else None
    listed = (
        values.pop(named["tags"])
        if "tags" in named
        else values.pop(named["tag"])
        if "tag" in named
        else None
    )
    return FrontMatter(title, _tags(listed), _json(values, _DEEPEST) or {}, match.end())


def _yaml(head: str) -> dict[Any, Any] | None:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(head, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
                event, yaml.CollectionEndEvent
            )
            # An alias may stand for a thousand others; what nobody writes by hand is not unfolded.
            if depth > _DEEPEST_YAML or isinstance(event, yaml.AliasEvent):
                return None
        values = yaml.load(head, Loader=loader)
    except Exception:  # noqa: BLE001 - what a value of a wrong kind (`!!bool x`) raises depends on its kind
        return None
    return {} if values is None else values if isinstance(values, dict) else None


def _toml(head: str) -> dict[str, Any] | None:
    import tomllib

    if any(line.count(".") > _MOST_DOTS for line in head.split("\n")):
        return None
    try:
        return tomllib.loads(head)
    except (ValueError, RecursionError):
        return None


def _title(value: object) -> str | None:
    if not isinstance(value, str | int | float | date):
        return None
    return _line(_written(value)) or None


def _written(value: object) -> str:
    """Return a value as text; a number with thousands of digits, which Python does not write, as nothing."""
    try:
        return str(value)
    except ValueError:
        return ""


def _line(text: str) -> str:
    """One line without what cannot be shown."""
    return " ".join(
        "".join(char if char.isprintable() else " " for char in text[:_LONGEST_VALUE]).split()
    )[:500]


def _tags(value: object) -> tuple[str, ...]:
    """A list, or words between commas, else between spaces; what cannot be a tag is left out."""
    if isinstance(value, str):
        values: Iterable[object] = value.split(",") if "," in value else value.split()
    elif isinstance(value, list | tuple | set):
        values = value
    elif isinstance(value, int | float | date) and not isinstance(value, bool):
        values = (value,)
    else:
        return ()
    tags: dict[str, None] = {}
    for item in values:
        if isinstance(item, str | int | float | date) and not isinstance(item, bool):
            # A comma parts tags everywhere else, so it parts them here too; `#tag` is how notes write a tag.
            for part in _line(_written(item)).split(","):
                try:
                    tags[clean_tag(part.strip().lstrip("#"))] = None
                except ValueError:
                    continue
    return tuple(islice(tags, _MOST_TAGS))


def _json(value: object, depth: int) -> Any:
    """The same as JSON can say it, cut to a size that a document's metadata may have; None for what it cannot say."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        # Beyond 64 bits no reader of JSON is sure to keep it.
        return value if -(2**63) <= value < 2**63 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, str):
        return value[:_LONGEST_VALUE].encode("utf-8", "replace").decode().replace("\x00", "")
    if not depth:
        return None
    if isinstance(value, dict):
        entries = (
            (_line(_written(key)), _json(item, depth - 1))
            for key, item in islice(value.items(), _MOST_ENTRIES)
        )
        return {key: item for key, item in entries if key}
    if isinstance(value, list | tuple | set):
        return [_json(item, depth - 1) for item in islice(value, _MOST_ENTRIES)]
    return None
