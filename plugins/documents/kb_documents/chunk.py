"""Chunks that follow the structure of the text: headings, paragraphs, sentences."""

from __future__ import annotations

import bisect
import re

from kb_framework.api import ChunkText, Extracted

_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*\s*$")
_FENCE = re.compile(r"^\s*(```|~~~)")
# Roughly what a model's tokenizer makes of a text: a word, a mark, or one character of a script without spaces.
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|\w{1,8}|[^\w\s]")
# Characters, as a range: the splitter closes a chunk at the largest structure that lands inside it.
_CAPACITY = (600, 1200)


def by_structure(extracted: Extracted) -> list[ChunkText]:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

    text = extracted.text
    splitter = MarkdownSplitter(_CAPACITY) if extracted.markdown else TextSplitter(_CAPACITY)
    spans = [(start, start + len(content)) for start, content in splitter.chunk_indices(text)]
    headings = _headings(text) if extracted.markdown else []
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    chunks = []
    for start, end in _merge_lone_headings(text, spans):
        content = text[start:end].strip()
        if not content:
            continue
        first = bisect.bisect_right(lines, start + _leading_space(text[start:end]))
        last = first + content.count("\n")
        metadata = {
            "heading_path": _path_at(headings, start + _opening(text[start:end])),
            "line_start": first,
            "line_end": last,
            "token_count": len(_TOKEN.findall(content)),
        }
        chunks.append(ChunkText(content, metadata))
    return chunks


def _leading_space(text: str) -> int:
    return len(text) - len(text.lstrip())


def _opening(text: str) -> int:
    """Where the headings that open a chunk end: they belong to its path, later ones inside it do not."""
    length = 0
    for line in text.splitlines(keepends=True):
        if line.strip() and not _HEADING.match(line.rstrip("\n")):
            break
        length += len(line)
    return max(length, 1)


def _headings(text: str) -> list[tuple[int, int, str]]:
    """Offset, level and words of each heading outside code."""
    found, fenced, offset = [], False, 0
    for line in text.splitlines(keepends=True):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and (match := _HEADING.match(line.rstrip("\n"))):
            found.append((offset, len(match.group(1)), match.group(2)))
        offset += len(line)
    return found


def _path_at(headings: list[tuple[int, int, str]], offset: int) -> list[str]:
    path: list[tuple[int, str]] = []
    for position, level, words in headings:
        if position >= offset:
            break
        path = [(above, name) for above, name in path if above < level] + [(level, words)]
    return [name for _, name in path]


def _merge_lone_headings(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """A heading alone says nothing: it opens the chunk that follows it."""
    merged: list[tuple[int, int]] = []
    pending: int | None = None
    for start, end in spans:
        lone = all(_HEADING.match(line) or not line.strip() for line in text[start:end].splitlines())
        begin = start if pending is None else pending
        if lone and (start, end) != spans[-1]:
            pending = begin
        else:
            merged.append((begin, end))
            pending = None
    return merged
