"""Names of files inside files: never a path that leads anywhere else."""

from __future__ import annotations

import re
import unicodedata


def safe_name(name: str, fallback: str) -> str:
    """A relative path of plain names: no root, no drive, no `..`, no control characters."""
    parts: list[str] = []
    for part in re.split(r"[\\/]+", unicodedata.normalize("NFC", name)):
        # Control and bidirectional format characters could show one name and be another.
        part = "".join(
            character
            for character in part
            if unicodedata.category(character) not in ("Cc", "Cf", "Cs")
        ).strip()
        if part in ("", ".", "..") or re.fullmatch(r"[A-Za-z]:", part):
            continue
        parts.append(part[:200])
    return "/".join(parts[-20:]) or fallback
