"""Streams of an OLE compound file: old Office documents, Outlook messages."""

from __future__ import annotations

import io

import olefile


class Compound:
    """The streams of a compound file, by path; names are compared in small letters, as some writers use capitals."""

    def __init__(self, data: bytes) -> None:
        try:
            self._file = olefile.OleFileIO(io.BytesIO(data))
            self._paths = {"/".join(path).lower(): path for path in self._file.listdir()}
        except Exception as error:
            raise ValueError("the compound file is damaged") from error

    @property
    def names(self) -> list[str]:
        """The last part of every stream's path."""
        return [path.rpartition("/")[2] for path in self._paths]

    @property
    def paths(self) -> list[str]:
        return list(self._paths)

    def stream(self, name: str) -> bytes:
        """A stream's bytes, by its path or by the last part of it; empty where there is none of that name."""
        wanted = name.lower()
        path = next(
            (path for path in self._paths if path == wanted or path.endswith("/" + wanted)), None
        )
        try:
            return self._file.openstream(self._paths[path]).read() if path else b""
        except OSError as error:
            raise ValueError("the compound file is damaged") from error


def compound(data: bytes) -> Compound | None:
    """The compound file, or None where it is none or too damaged."""
    try:
        return Compound(data)
    except ValueError:
        return None
