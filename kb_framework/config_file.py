"""Change one entry of a TOML file and leave everything else as it was, comments included.

No library: tomllib only reads, and a style-preserving parser is more than one entry needs. The lines of the entry are replaced,
and the result is parsed and compared, so a file that this cannot edit is refused and never damaged.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from kb_framework.bootstrap import variable_of, write_private
from kb_framework.errors import ConfigInvalid

_HEADER = re.compile(r"\s*\[\s*([A-Za-z0-9_-]+)\s*\]\s*(#.*)?")
_ANY_HEADER = re.compile(r"\s*\[")
_ENTRY = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=")


def read(path: Path) -> str:
    """Return the text of a file, or nothing where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{path} cannot be read: {error}") from None


def changed(text: str, variable: str, key: str, value: Any) -> str:
    """Return the text with one setting changed, or removed where the value is None. A new one goes to the place `key`."""
    lines = text.splitlines()
    place = _find(lines, variable)
    if place is not None:
        start, end, _ = place
        indent, comment = re.match(r"\s*", lines[start])[0], _comment(lines[start:end])  # type: ignore[index]
        name = _ENTRY.match(lines[start])[1]  # type: ignore[index]
        lines[start:end] = [] if value is None else [f"{indent}{name} = {_written(value)}{comment}"]
    elif value is not None:
        table, _, name = key.rpartition(".")
        _insert(lines, table, f"{name} = {_written(value)}")
    result = "\n".join(lines) + "\n" if lines else ""
    if not _is_right(result, text, variable, value):
        raise ConfigInvalid(
            "the file is written in a way that cannot be changed here: edit it by hand"
        )
    return result


def _is_right(result: str, text: str, variable: str, value: Any) -> bool:
    try:
        return _flat(result) == _wanted(text, variable, value)
    except tomllib.TOMLDecodeError:
        return False


def write(path: Path, text: str) -> None:
    write_private(path, text)


def _find(lines: list[str], variable: str) -> tuple[int, int, str] | None:
    """Return the lines of an entry and its table."""
    table = ""
    for number, line in enumerate(lines):
        if header := _HEADER.fullmatch(line):
            table = header[1]
        elif (entry := _ENTRY.match(line)) and variable_of(
            [*([table] if table else []), entry[1]]
        ) == variable:
            return number, _end(lines, number), table
    return None


def _end(lines: list[str], start: int) -> int:
    """Return the line after an entry: an array may have several."""
    for end in range(start + 1, len(lines) + 1):
        try:
            tomllib.loads("\n".join(lines[start:end]))
        except tomllib.TOMLDecodeError:
            continue
        return end
    return len(lines)


def _comment(lines: list[str]) -> str:
    """Return the comment at the end of an entry of one line, with the space before it."""
    if len(lines) != 1:
        return ""
    for match in re.finditer("#", lines[0]):
        before = lines[0][: match.start()].rstrip()
        try:
            tomllib.loads(before)
        except tomllib.TOMLDecodeError:
            continue
        return lines[0][len(before) :]
    return ""


def _insert(lines: list[str], table: str, entry: str) -> None:
    if not table:
        first = next(
            (number for number, line in enumerate(lines) if _ANY_HEADER.match(line)), len(lines)
        )
        while (
            first
            and (not lines[first - 1].strip() or lines[first - 1].lstrip().startswith("#"))
            and first < len(lines)
        ):
            first -= 1
        lines.insert(first, entry)
        return
    for number, line in enumerate(lines):
        if (header := _HEADER.fullmatch(line)) and header[1] == table:
            lines.insert(number + 1, entry)
            return
    lines.extend([*([""] if lines else []), f"[{table}]", entry])


def _written(value: Any) -> str:
    """Return a value as TOML. Its strings are those of JSON, but for one character."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(_written(item) for item in value) + "]"
    return json.dumps(value)


def _flat(toml: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tomllib.loads(toml).items():
        flat |= (
            {variable_of((key, name)): item for name, item in value.items()}
            if isinstance(value, dict)
            else {}
        )
        flat |= {variable_of((key,)): value} if not isinstance(value, dict) else {}
    return flat


def _wanted(text: str, variable: str, value: Any) -> dict[str, Any]:
    wanted = _flat(text)
    wanted.pop(variable, None)
    return wanted if value is None else {**wanted, variable: value}
