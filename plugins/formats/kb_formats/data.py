"""Tables, JSON and notebooks."""

from __future__ import annotations

import csv
import json
from typing import Any

from kb_text.api import decode

from kb_framework.api import Extracted
from kb_framework.api.nesting import MAX_DEPTH, is_deeper

_MAX_COLUMNS = 1000


def csv_table(data: bytes, name: str) -> Extracted:
    """Rows as a Markdown table under their header; a text that is no table stays as it is."""
    text = decode(data)
    tabs = name.lower().endswith((".tsv", ".tab"))
    media = "tsv" if tabs else "csv"
    delimiter = "\t" if tabs else _delimiter(text)
    try:
        rows = [
            row
            for row in csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
            if any(map(str.strip, row))
        ]
    except csv.Error:
        return Extracted(text, media=media)
    width = max(map(len, rows), default=0)
    if len(rows) < 2 or not 2 <= width <= _MAX_COLUMNS:
        return Extracted(text, media=media)
    lines = [_row(row) for row in rows]
    lines.insert(1, "| " + " | ".join(["---"] * len(rows[0])) + " |")
    return Extracted(
        "\n".join(lines),
        media=media,
        markdown=True,
        metadata={"rows": len(rows) - 1, "columns": width},
    )


def _delimiter(text: str) -> str:
    """The character that cuts the first lines into equally many parts, more than one."""
    lines = [line for line in text.splitlines()[:20] if line.strip()]
    scores: dict[str, tuple[bool, int]] = {}
    for candidate in (",", ";", "\t", "|"):
        counts = [line.count(candidate) for line in lines]
        scores[candidate] = (
            bool(counts) and min(counts) > 0 and min(counts) == max(counts),
            min(counts, default=0),
        )
    return max(scores, key=lambda candidate: scores[candidate])


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"


def json_text(data: bytes, name: str) -> Extracted:
    """JSON with line breaks and readable letters; what is not JSON stays as it is."""
    text = decode(data)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return Extracted(text, media="json")
    if is_deeper(value, MAX_DEPTH):
        # Indented, it would take the square of its size.
        return Extracted(text, media="json")
    title = value.get("title") or value.get("name") if isinstance(value, dict) else None
    pretty = json.dumps(value, ensure_ascii=False, indent=2)
    return Extracted(
        pretty,
        media="json",
        title=title[:300] if isinstance(title, str) and title.strip() else None,
    )


def json_lines(data: bytes, name: str) -> Extracted:
    """A line of text for each line of JSON, in readable letters."""
    lines: list[str] = []
    for line in decode(data).split("\n"):
        try:
            lines.append(json.dumps(json.loads(line), ensure_ascii=False) if line.strip() else "")
        except (ValueError, RecursionError):
            lines.append(line)
    return Extracted("\n".join(lines).strip(), media="jsonl")


def notebook(data: bytes, name: str) -> Extracted:
    """A notebook's cells and their printed results, as Markdown."""
    text = decode(data)
    try:
        book = json.loads(text)
        cells = book.get("cells") or [
            cell for sheet in book.get("worksheets", ()) for cell in sheet.get("cells", ())
        ]
        language = book.get("metadata", {}).get("kernelspec", {}).get("language") or "python"
        parts = [part for cell in cells for part in _cell(cell, str(language))]
    except (ValueError, AttributeError, TypeError, RecursionError):
        return Extracted(text, media="ipynb")
    content = "\n\n".join(part for part in parts if part.strip())
    heading = next(
        (line[2:].strip() for line in content.split("\n") if line.startswith("# ")), None
    )
    return Extracted(
        content, media="ipynb", title=heading, markdown=True, metadata={"language": str(language)}
    )


def _cell(cell: dict[str, Any], language: str) -> list[str]:
    source = _joined(cell.get("source", cell.get("input", "")))
    if cell.get("cell_type") != "code":
        return [source]
    parts = [f"```{language}\n{source}\n```"] if source.strip() else []
    for output in cell.get("outputs", ()):
        printed = _joined(output.get("text") or output.get("data", {}).get("text/plain") or "")
        if printed.strip():
            parts.append(f"```\n{printed.rstrip()}\n```")
    return parts


def _joined(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)
