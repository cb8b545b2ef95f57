"""The hits of the last search in a terminal, so that `kb open 2` knows what is meant."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kb_framework.api.data_folder import write_private

_FILE = "last_search.json"
_KEPT = ("rank", "chunk_id", "doc_id", "doc_path", "title", "citation")


def remember(data_dir: Path, hits: Iterable[Mapping[str, Any]]) -> None:
    kept = [{name: hit[name] for name in _KEPT} for hit in hits]
    path = data_dir / _FILE
    # Not worth failing a search over: another engine's client may have no folder of its own.
    with contextlib.suppress(OSError):
        if data_dir.is_dir():
            write_private(path, json.dumps(kept, ensure_ascii=False))


def recall(data_dir: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads((data_dir / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return found if isinstance(found, list) else []
