"""File names as text that can be stored, sent and shown, and back.

A file name is bytes; not all of them are UTF-8. Bytes that are not, and characters that a terminal would obey, are written as
`\\xNN`. A backslash that would read as such an escape is escaped itself, so that every name has a text of its own.
"""

from __future__ import annotations

import os
import re

# Between the source of a file and the name of a file inside it.
INSIDE = "!/"
_AMBIGUOUS = re.compile(r"\\(?=x[0-9a-f]{2})")
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")
# Control characters, line separators and marks that change the direction of writing.
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(name: str | os.PathLike[str]) -> str:
    """Return a file name or path as printable text, the same whatever the locale is."""
    raw = os.fsencode(name)
    try:
        text = raw.decode()
        if "\\" in text:
            text = _AMBIGUOUS.sub(r"\\x5c", text)
    except UnicodeDecodeError:
        # Escape backslashes first: those that the decoder adds are escapes already.
        raw = re.sub(rb"\\(?=x[0-9a-f]{2})", rb"\\x5c", raw)
        text = raw.decode(errors="backslashreplace")
    return text if text.isprintable() else _OBEYED.sub(_escaped, text)


def source_name(path: str | os.PathLike[str]) -> str:
    """Return the text by which a file is known: its path, in which `!/` never occurs."""
    text = printable(path)
    return text.replace(INSIDE, "\\x21/") if INSIDE in text else text


def real_path(source: str) -> str:
    """Return the path that `source_name` or `printable` made this text of."""
    pieces = _ESCAPE.split(source)
    raw = b"".join(
        bytes.fromhex(piece) if place % 2 else piece.encode() for place, piece in enumerate(pieces)
    )
    return os.fsdecode(raw)


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in found.group().encode())
