"""The same call as a command, an HTTP request and a tool call."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from kb_framework.api import Command, Flag, MutationKind, Operation, Tool
from kb_framework.api.parts import Plugins

# The commands of operations that are written by hand; the others say theirs.
_BY_HAND = {
    "search": ("search", "query"),
    "list_documents": ("list", ""),
    "get_document": ("show", "document_id"),
    "list_plugins": ("plugins", ""),
    "list_settings": ("config", ""),
}
_TOOLS = {
    "search": "kb_search",
    "list_documents": "kb_list_documents",
}


class Copies(NamedTuple):
    """How to do the same elsewhere; empty where that surface does not have it."""

    name: str
    command: str
    request: str
    tool: str


def copies(plugins: Plugins, operation: Operation[Any, Any], values: Mapping[str, Any]) -> Copies:
    """Return a call of an operation on every surface that it has."""
    given = {name: value for name, value in values.items() if value is not None}
    return Copies(
        operation.name,
        _command(plugins, operation, given),
        request(operation, given),
        _tool(plugins, operation, given),
    )


def request(operation: Operation[Any, Any], values: Mapping[str, Any]) -> str:
    """Return the HTTP request of a call, for curl."""
    path = operation.http.path
    rest = dict(values)
    for part in path.split("/"):
        if part.startswith("{"):
            name = part[1:-1].partition(":")[0]
            path = path.replace(part, str(rest.pop(name, "ID")))
    url = f"$KB/api/v1{path}"
    if operation.http.sends_query:
        pairs = [
            (name, _text(item))
            for name, value in rest.items()
            for item in (value if isinstance(value, list) else [value])
        ]
        url += f"?{urlencode(pairs)}" if pairs else ""
        verb = "" if operation.http.method == "GET" else f"-X {operation.http.method} "
        return f'curl {verb}"{url}"'
    body = json.dumps(rest, ensure_ascii=False)
    verb = "" if operation.http.method == "POST" else f"-X {operation.http.method} "
    return f'curl {verb}"{url}" -H "Content-Type: application/json" -d {shlex.quote(body)}'


def _tool(plugins: Plugins, operation: Operation[Any, Any], values: Mapping[str, Any]) -> str:
    tool: Tool | None = operation.tool or plugins.tools.get(_TOOLS.get(operation.name, ""))
    if tool is None:
        return ""
    given = {name: value for name, value in values.items() if name not in tool.omit}
    return f"{tool.name}({json.dumps(given, ensure_ascii=False)})"


def _command(plugins: Plugins, operation: Operation[Any, Any], values: Mapping[str, Any]) -> str:
    kind = _kind(plugins, operation, values)
    if kind is not None:
        return _bulk_command(plugins, kind, values, preview=operation.name == "bulk_preview")
    if operation.command is not None:
        return _own_command(plugins, operation, operation.command, values)
    name, words = _BY_HAND.get(operation.name, ("", ""))
    if not name or plugins.commands.get(name) is None:
        return ""
    rest = dict(values)
    said = [rest.pop(words)] if words in rest else []
    return _line("kb", name, *said, *_flags(operation, rest, {}))


def _own_command(
    plugins: Plugins, operation: Operation[Any, Any], command: Command, values: Mapping[str, Any]
) -> str:
    rest = {name: value for name, value in values.items() if name not in command.omit}
    words: list[str] = []
    for name in (*command.positional, *([command.words] if command.words else [])):
        value = rest.pop(name, None)
        if value is not None:
            words += [_text(item) for item in (value if isinstance(value, list) else [value])]
    for name, value in list(rest.items()):
        if isinstance(value, dict):
            rest.pop(name)
            rest |= value
    return _line("kb", *command.name.split(), *words, *_flags(operation, rest, command.flags))


def _kind(
    plugins: Plugins, operation: Operation[Any, Any], values: Mapping[str, Any]
) -> MutationKind | None:
    if operation.name == "bulk_preview":
        return plugins.kinds.get(str(values.get("operation")))
    return operation.subject if isinstance(operation.subject, MutationKind) else None


def _bulk_command(
    plugins: Plugins, kind: MutationKind, values: Mapping[str, Any], *, preview: bool
) -> str:
    from kb_framework.api import resolve

    own = {item.name: item.flag for item in plugins.filters if item.flag}
    own |= {
        name: mark.name
        for name, info in resolve(kind.target).model_fields.items()
        for mark in info.metadata
        if isinstance(mark, Flag)
    }
    rest = {name: value for name, value in values.items() if name not in ("operation", "plan")}
    flags = _flags(None, rest, own)
    return _line("kb", *kind.command_name.split(), *flags, *(["--dry-run"] if preview else []))


def _flags(
    operation: Operation[Any, Any] | None, values: Mapping[str, Any], named: Mapping[str, str]
) -> list[str]:
    flags: list[str] = []
    for name, value in values.items():
        flag = named.get(name) or "--" + name.replace("_", "-")
        if value is True:
            flags.append(flag)
        elif value is not None and value is not False and not isinstance(value, dict):
            text = ",".join(map(_text, value)) if isinstance(value, list) else _text(value)
            flags += [flag, text]
    return flags


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _line(*words: Any) -> str:
    return " ".join(shlex.quote(str(word)) for word in words)
