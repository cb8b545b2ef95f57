"""The forms in which files are sent to an engine elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Form = tuple[dict[str, Any], list[tuple[str, str, bytes]]]


def one_file(fields: Mapping[str, Any], content: bytes) -> Form:
    """Return the form of one file; metadata is JSON in a field of text."""
    known = dict(fields)
    filename = known.pop("filename", "")
    if "metadata" in known:
        known["metadata"] = json.dumps(known["metadata"], ensure_ascii=False)
    return known, [("file", filename, content)]


def several_files(
    _: Mapping[str, Any], files: Sequence[tuple[str, bytes, Mapping[str, Any]]]
) -> Form:
    """Return the form of several files, with what is known of each as JSON."""
    known = [dict(fields) for _, _, fields in files]
    parts = [("files", name, content) for name, content, _ in files]
    return {"fields": json.dumps(known)}, parts
