"""The texts of workbooks of Excel 97 to 2003 and older that the native reader leaves out."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kb_formats.ole import compound
from kb_formats.rescue import new_lines, readable

# Kinds of records.
_LABEL, _SERIES_TEXT, _TEXT_OBJECT, _CONTINUE = 0x0204, 0x100D, 0x01B6, 0x003C


def sheet_strings(data: bytes) -> str:
    """The label cells of a workbook of Excel 95 or older."""
    file = compound(data)
    stream = (file.stream("Book") or file.stream("Workbook")) if file else b""
    labels: list[str] = []
    for kind, body in _sheet_records(stream):
        if kind in (_LABEL, 0x00D6) and len(body) > 8:
            (length,) = struct.unpack_from("<H", body, 6)
            labels.append(body[8 : 8 + length].decode("cp1252", errors="replace"))
    return readable("\n".join(labels))


def sheet_asides(data: bytes, text: str) -> str:
    """The texts of charts, text boxes and comments of a workbook of Excel 97 to 2003, as `asides`."""
    file = compound(data)
    stream = file.stream("Workbook") if file else b""
    lines = (" ".join(readable(line).split()) for line in sheet_texts(stream))
    return "\n\n".join(new_lines((line for line in lines if line), text))


def sheet_texts(stream: bytes) -> Iterator[str]:
    """Yield the words of the series, axes, titles, text boxes and comments in a stream of records."""
    missing, parts = 0, [""]
    for kind, body in _sheet_records(stream):
        if kind == _SERIES_TEXT and len(body) > 4:
            yield _sheet_text(body[3:], body[2])
        elif kind == _LABEL and len(body) > 9:
            # In a sheet these are rare; in a chart they are the words that its series show.
            yield _sheet_text(body[8:], struct.unpack_from("<H", body, 6)[0])
        elif kind == _CONTINUE and missing and body:
            parts.append(_sheet_text(body, missing))
            missing -= len(parts[-1])
            if not missing:
                yield "".join(parts)
        elif kind == _TEXT_OBJECT and len(body) > 12:
            (missing,), parts = struct.unpack_from("<H", body, 10), [""]
        else:
            missing = 0


def _sheet_text(raw: bytes, length: int) -> str:
    """A text of so many characters; the byte before it says whether each takes one byte or two."""
    return (
        raw[1 : 1 + 2 * length].decode("utf-16-le", errors="replace")
        if raw[0] & 1
        else raw[1 : 1 + length].decode("latin-1")
    )


def _sheet_records(stream: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset + 4 <= len(stream):
        kind, size = struct.unpack_from("<HH", stream, offset)
        yield kind, stream[offset + 4 : offset + 4 + size]
        offset += 4 + size
