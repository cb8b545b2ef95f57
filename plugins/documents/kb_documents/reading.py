"""What becomes of a file's text where the file was read: chunks, and the words by which they are found.

Taking text apart is work of Python, which does one thing at a time in a process. The processes that read files are several, and
what a text does to them costs that one file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from kb_text.api import prose

from kb_framework.api import ChunkText, Extracted, resolve

# Of a longer text the words are made when they are written, a part at a time: all at once they take as much room as the text.
_SHORT = 1_000_000
_LONGEST_TITLE = 80
# In a document's metadata: how many characters of its text were kept, of how many.
TRUNCATED = "truncated"


class Cutting(NamedTuple):
    """How a text is to be taken apart: the target of a chunker, and the title and path that were given."""

    chunker: str
    title: str | None
    path: str | None


class Parts(NamedTuple):
    title: str
    # By which its language is told.
    sample: str
    pieces: list[ChunkText]
    # Of each piece; None where there are too many.
    words: Sequence[Sequence[str]] | None


def take_apart(extracted: Extracted, cutting: Cutting) -> Parts:
    # Only where something is added: to read how words are made takes longer than many a command.
    from kb_text.api import indexed_words

    text = extracted.text
    pieces = list(resolve(cutting.chunker)(extracted))
    if strange := next((piece for piece in pieces if not isinstance(piece, ChunkText)), None):
        raise TypeError(f"{cutting.chunker} returned {type(strange).__name__} instead of ChunkText")
    title = cutting.title or extracted.title or _title(text, cutting.path)
    words = [indexed_words(title, piece) for piece in pieces] if len(text) <= _SHORT else None
    return Parts(title, prose(text), pieces, words)


def _title(text: str, path: str | None) -> str:
    """A file's name, or a note's first words."""
    if path:
        return PurePosixPath(path).name
    line = next(line for line in text.splitlines() if line.strip())
    words = re.sub(r"^[#>*\-\s]+", "", line).strip() or line.strip()
    return words if len(words) <= _LONGEST_TITLE else words[: _LONGEST_TITLE - 1].rstrip() + "…"
