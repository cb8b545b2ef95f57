"""Messages for bad input: what validators of libraries find, in the words of this project."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

_SHOWN = 40
_TYPES = {
    "string": "text",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "decimal": "a number",
    "bool": "true or false",
    "list": "a list",
    "array": "a list",
    "set": "a list",
    "tuple": "a list",
    "dict": "an object",
    "object": "an object",
    "mapping": "an object",
    "model": "an object",
    "dataclass": "an object",
    "none": "null",
    "null": "null",
    "uuid": "an id like 6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "datetime": "a date or time in ISO 8601, like 2026-01-31T12:00:00Z",
    "date": "a date in ISO 8601, like 2026-01-31",
    "url": "an address like https://example.org",
    "finite": "a finite number",
}
_BOUNDS = {
    "ge": "{} or more",
    "gt": "more than {}",
    "le": "{} or less",
    "lt": "less than {}",
    "multiple_of": "a multiple of {}",
}
_SIGNS = {">=": "ge", ">": "gt", "<=": "le", "<": "lt"}
# Names that callers mix up, because other programs use them for the same thing.
_SYNONYMS = (
    {"k", "limit", "top_k", "per_page", "count", "size", "n", "max_results"},
    {"query", "q", "text", "question", "search"},
    {"document_ids", "document_id", "doc_id", "doc_ids", "ids", "id"},
    {"chunk_ids", "chunk_id", "ids", "id"},
    {"tags", "tag", "labels", "label"},
    {"doc_type", "type", "document_type"},
    {"chunk_kind", "kind", "classification"},
    {"usage_policy", "policy"},
    {"text", "content", "body", "snippet_text"},
    {"path_glob", "path", "glob", "folder", "path_prefix"},
    {"cursor", "offset", "next_cursor", "page"},
    {"new_tags", "set", "replace"},
)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` was most likely meant to be."""
    names = list(known)
    by_plain = {item.casefold().lstrip("-").replace("-", "_"): item for item in reversed(names)}
    plain = name.casefold().lstrip("-").replace("-", "_")
    if plain in by_plain:
        return by_plain[plain]
    close = difflib.get_close_matches(plain, by_plain, n=1, cutoff=0.75)
    same = [item for group in _SYNONYMS if plain in group for item in by_plain if item in group]
    found = close or same or difflib.get_close_matches(plain, by_plain, n=1, cutoff=0.6)
    return by_plain[found[0]] if found else None


def unknown(name: str, known: Iterable[str], what: str) -> tuple[str, str]:
    """Return the message and the hint for a name that is not one of those allowed."""
    names = list(known)
    near = nearest(name, names)
    meant = f"; did you mean {near}?" if near else ""
    return f"{name}: is not {what}{meant}", f"it takes {', '.join(names) or 'none'}"


def plural(count: int, noun: str, many: str = "") -> str:
    """Return `1 document`, `2 documents`; `many` is a plural that does not end so."""
    return f"{count} {noun if count == 1 else many or noun + 's'}"


def shown(value: Any) -> str:
    """Return a value as JSON, shortened; empty where it has no short form."""
    if isinstance(value, dict | list | tuple):
        return "a list" if isinstance(value, list | tuple) else "an object"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return ""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def finding_words(finding: Mapping[str, Any]) -> str:
    """Return one of pydantic's findings as the end of a sentence that begins with the field."""
    kind: str = finding["type"]
    context: Mapping[str, Any] = finding.get("ctx") or {}
    given = finding.get("input", ...)
    if kind == "missing":
        return "is required"
    if kind == "value_error":
        return str(context.get("error") or finding["msg"].removeprefix("Value error, "))
    if kind in ("literal_error", "enum"):
        choices = str(context["expected"]).replace("'", "")
        return f"must be {choices}{_not(given)}"
    for name, words in _BOUNDS.items():
        if name in context:
            return f"must be {words.format(context[name])}{_not(given)}"
    if "min_length" in context or "max_length" in context:
        return _length(context.get("min_length"), context.get("max_length"), given)
    base = kind.split("_")[0]
    if base in _TYPES:
        return f"must be {_TYPES[base]}{_not(given)}"
    return f"is not valid{_not(given)}".replace(", not", ":")


def _not(value: Any) -> str:
    text = shown(value)
    return f", not {text}" if text else ""


def _length(least: int | None, most: int | None, given: Any) -> str:
    if least == 1:
        return "must not be empty"
    unit = "character" if isinstance(given, str) else "item"
    allowed = (
        f"at least {plural(least, unit)}"
        if least is not None
        else f"at most {plural(most or 0, unit)}"
    )
    return f"must have {allowed}" + (f", not {len(given)}" if hasattr(given, "__len__") else "")


_EXPECTED = re.compile(r"Expected `([a-z]++)[^`]*+`(?: of length)?(?: (>=|<=|<|>) (-?[0-9.]+))?")


def parameter_words(message: str, given: Any, choices: Iterable[str] = ()) -> str:
    """Return what msgspec says of a parameter as the end of a sentence that begins with the parameter."""
    names = list(choices)
    if names:
        return f"must be {' or '.join([', '.join(names[:-1]), names[-1]] if len(names) > 1 else names)}{_not(given)}"
    found = _EXPECTED.match(message)
    if found is None:
        return (
            "is required"
            if message.startswith("Missing required")
            else f"is not valid{_not(given)}".replace(", not", ":")
        )
    base, sign, bound = found.groups()
    if "of length" in message and sign:
        least = int(bound) + (sign == ">") if sign in (">", ">=") else None
        return _length(least, None if least is not None else int(bound), given)
    if sign:
        return f"must be {_BOUNDS[_SIGNS[sign]].format(bound)}{_not(given)}"
    return f"must be {_TYPES.get(base, base)}{_not(given)}"


# Optional dependencies

_DISTRIBUTION = "kb-framework"


def install_command(extra: str) -> str:
    """Return the pip command for an extra. A package installed from a folder is not on an index, so it names the folder."""
    import importlib.metadata
    import shlex
    from urllib.parse import unquote, urlsplit

    try:
        origin = json.loads(
            importlib.metadata.distribution(_DISTRIBUTION).read_text("direct_url.json") or "{}"
        )
    except (importlib.metadata.PackageNotFoundError, ValueError):
        origin = {}
    url = str(origin.get("url", ""))
    if "dir_info" not in origin or not url.startswith("file://"):
        return f"pip install '{_DISTRIBUTION}[{extra}]'"
    editable = "-e " if origin["dir_info"].get("editable") else ""
    return f"pip install {editable}{shlex.quote(f'{unquote(urlsplit(url).path)}[{extra}]')}"
