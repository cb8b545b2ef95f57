"""The text that is embedded for a chunk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def embedded_text(title: str, content: str, metadata: Mapping[str, Any]) -> str:
    """Return a chunk's text after the title and headings above it, without those that it holds itself."""
    above = dict.fromkeys([title, *(metadata.get("heading_path") or ())])
    # A title made of the first words ends in an ellipsis.
    return "\n".join([*(part for part in above if part.removesuffix("…") not in content), content])
