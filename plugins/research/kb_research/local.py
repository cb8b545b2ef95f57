"""Files of this machine that were not added: searched by their words, so that what is worth it can be added."""

from __future__ import annotations

import json
import logging
import math
import os
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from kb_text.api import index_fields, query_terms

from kb_framework.api import Chunker, Extracted, ResearchQuery, ResearchResult, resolve
from kb_framework.api.parts import HostSettings, Plugins
from kb_framework.api.times import format_time
from kb_research.settings import ResearchSettings

log = logging.getLogger("kb.research")

_TEXTS = {".md", ".markdown", ".txt", ".text", ".rst"}
_LINES = {".ndjson", ".jsonl"}
_LARGEST = 20_000_000
# As BM25 is usually set.
_K1, _B = 1.5, 0.75
_TEXT_NAMES = ("snippet_text", "text", "content", "body")
_REF_NAMES = ("source_ref", "url", "ref", "id", "_id")
_TITLE_NAMES = ("source_title", "title", "name")


class _Piece(NamedTuple):
    text: str
    words: Counter[str]
    length: int
    source_type: str
    ref: str
    title: str
    path: str
    created_at: str
    tags: frozenset[str]


class LocalFiles:
    """What `KB_RESEARCH_PATHS` names. A file is read again when it has changed."""

    def __init__(
        self, settings: ResearchSettings, host_settings: HostSettings, plugins: Plugins
    ) -> None:
        self._paths = [Path(path).expanduser() for path in settings.paths]
        if not self._paths:
            # Where nothing is searched, nothing is lost for want of a filter.
            self.filters = frozenset(item.name for item in plugins.filters)
        chunker = plugins.registry(Chunker).get(host_settings.chunker)
        self._chunk = resolve(chunker.target) if chunker else None
        self._read: dict[Path, tuple[tuple[int, int], list[_Piece]]] = {}
        self._lock = threading.Lock()

    def search(self, query: ResearchQuery) -> list[ResearchResult]:
        pieces = [piece for piece in self._pieces() if _wanted(piece, query)]
        terms = {term for term, _ in query_terms(query.text)}
        scored = sorted(
            _scores(pieces, terms), key=lambda pair: (-pair[0], pair[1].ref, pair[1].text)
        )
        return [
            ResearchResult(piece.text, score, piece.source_type, piece.ref, piece.title)
            for score, piece in scored[: query.limit]
        ]

    def _pieces(self) -> list[_Piece]:
        with self._lock:
            found: dict[Path, tuple[tuple[int, int], list[_Piece]]] = {}
            for path in self._files():
                try:
                    state = path.stat()
                    stamp = (state.st_mtime_ns, state.st_size)
                    known = self._read.get(path)
                    found[path] = (
                        known
                        if known and known[0] == stamp
                        else (stamp, list(self._read_file(path, state)))
                    )
                except (OSError, ValueError, RecursionError) as error:
                    log.warning("research leaves out %s: %s", path, error)
            self._read = found
        return [piece for _, pieces in found.values() for piece in pieces]

    def _files(self) -> Iterator[Path]:
        for path in self._paths:
            if path.is_dir():
                yield from sorted(_files_in(path))
            elif path.is_file():
                yield path
            else:
                log.warning("research leaves out %s, which is not there", path)

    def _read_file(self, path: Path, state: Any) -> Iterator[_Piece]:
        if state.st_size > _LARGEST:
            raise ValueError(f"it is larger than {_LARGEST} bytes")
        changed = format_time(datetime.fromtimestamp(state.st_mtime, UTC))
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix.lower() in _LINES:
            yield from _lines(path, text, changed)
            return
        extracted = Extracted(
            text, media="markdown", markdown=path.suffix.lower() not in {".txt", ".text"}
        )
        pieces = (
            [piece.content for piece in self._chunk(extracted)]
            if self._chunk and text.strip()
            else []
        )
        for piece in pieces:
            yield _piece(piece, "file", str(path), path.name, str(path), changed, ())


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder. Links are not followed: they may lead out of it."""
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            if path.suffix.lower() in _TEXTS | _LINES and not path.is_symlink() and path.is_file():
                yield path


def _lines(path: Path, text: str, changed: str) -> Iterator[_Piece]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError(f"line {number} is not an object")
        body = _first(row, _TEXT_NAMES)
        if not body:
            continue
        tags = [tag for tag in row.get("tags") or () if isinstance(tag, str)]
        kind = row.get("source_type") if isinstance(row.get("source_type"), str) else "file"
        ref = _first(row, _REF_NAMES) or f"{path}#L{number}"
        yield _piece(
            body,
            str(kind),
            ref,
            _first(row, _TITLE_NAMES) or path.name,
            str(path),
            _said(row) or changed,
            tags,
        )


def _first(row: dict[str, Any], names: tuple[str, ...]) -> str:
    return next(
        (
            str(row[name])
            for name in names
            if isinstance(row.get(name), str | int) and str(row[name]).strip()
        ),
        "",
    )


def _said(row: dict[str, Any]) -> str | None:
    try:
        found = datetime.fromisoformat(str(row.get("created_at", "")))
    except ValueError:
        return None
    return format_time(found)


def _piece(
    text: str, kind: str, ref: str, title: str, path: str, created_at: str, tags: Any
) -> _Piece:
    text = text.strip()[:10_000]
    words = Counter(" ".join(index_fields([title, text])).split())
    return _Piece(
        text,
        words,
        sum(words.values()),
        kind[:32],
        ref[:2048],
        title[:255],
        path,
        created_at,
        frozenset(tags),
    )


def _wanted(piece: _Piece, query: ResearchQuery) -> bool:
    return (
        set(query.tags) <= piece.tags
        and (not query.source_types or piece.source_type in query.source_types)
        and (query.created_after is None or piece.created_at > query.created_after)
        and (query.created_before is None or piece.created_at < query.created_before)
        and (query.path_prefix is None or piece.path.startswith(query.path_prefix))
    )


def _scores(pieces: list[_Piece], terms: set[str]) -> Iterator[tuple[float, _Piece]]:
    """BM25 over the pieces that may be given."""
    if not pieces:
        return
    average = sum(piece.length for piece in pieces) / len(pieces) or 1.0
    having = {term: sum(term in piece.words for piece in pieces) for term in terms}
    rarity = {
        term: math.log(1 + (len(pieces) - count + 0.5) / (count + 0.5))
        for term, count in having.items()
        if count
    }
    for piece in pieces:
        norm = _K1 * (1 - _B + _B * piece.length / average)
        score = sum(
            weight * piece.words[term] * (_K1 + 1) / (piece.words[term] + norm)
            for term, weight in rarity.items()
        )
        if score > 0:
            yield score, piece
