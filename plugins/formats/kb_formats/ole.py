"""Streams of an OLE compound file: just enough to look into old Office documents."""

from __future__ import annotations

import struct

_END = 0xFFFFFFFA


class Compound:
    """The directory of a compound file; every chain is bounded by the file's size, so that a loop ends."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        shift, mini_shift = struct.unpack_from("<HH", data, 30)
        if not 7 <= shift <= 16 or not 2 <= mini_shift <= 12:
            raise ValueError("impossible sector size")
        self._sector, self._mini = 1 << shift, 1 << mini_shift
        fat_count, directory = struct.unpack_from("<I", data, 44)[0], struct.unpack_from("<I", data, 48)[0]
        self._cutoff, mini_fat = struct.unpack_from("<II", data, 56)
        difat_next = struct.unpack_from("<I", data, 68)[0]
        fat_sectors = list(struct.unpack_from("<109I", data, 76))
        for _ in range(len(data) // self._sector):
            if difat_next >= _END:
                break
            numbers = struct.unpack(f"<{self._sector // 4}I", self._block(difat_next))
            fat_sectors += numbers[:-1]
            difat_next = numbers[-1]
        self._fat: list[int] = []
        for number in fat_sectors[:fat_count]:
            if number < _END:
                self._fat += struct.unpack(f"<{self._sector // 4}I", self._block(number))
        raw_mini_fat = self._chain(mini_fat)
        self._mini_fat = struct.unpack(f"<{len(raw_mini_fat) // 4}I", raw_mini_fat)
        self._entries: dict[str, tuple[int, int]] = {}
        self._mini_stream = b""
        entries = self._chain(directory)
        for offset in range(0, len(entries) - 127, 128):
            length, kind = struct.unpack_from("<HB", entries, offset + 64)
            start, size = struct.unpack_from("<II", entries, offset + 116)
            if kind == 5:
                self._mini_stream = self._chain(start)
            elif kind == 2 and 2 < length <= 64:
                name = entries[offset : offset + length - 2].decode("utf-16-le", errors="replace")
                self._entries.setdefault(name.lower(), (start, size))

    @property
    def names(self) -> list[str]:
        """Names of streams in small letters: some writers use capitals, and readers do not mind."""
        return list(self._entries)

    def stream(self, name: str) -> bytes:
        """A stream's bytes; empty where there is none of that name."""
        if name.lower() not in self._entries:
            return b""
        start, size = self._entries[name.lower()]
        if size >= self._cutoff:
            return self._chain(start)[:size]
        parts: list[bytes] = []
        number = start
        while number < len(self._mini_fat) and len(parts) <= len(self._mini_fat):
            parts.append(self._mini_stream[number * self._mini : (number + 1) * self._mini])
            number = self._mini_fat[number]
        return b"".join(parts)[:size]

    def _block(self, number: int) -> bytes:
        start = (number + 1) * self._sector
        return self._data[start : start + self._sector].ljust(self._sector, b"\x00")

    def _chain(self, number: int) -> bytes:
        parts: list[bytes] = []
        while number < len(self._fat) and len(parts) <= len(self._fat):
            parts.append(self._block(number))
            number = self._fat[number]
        return b"".join(parts)


def compound(data: bytes) -> Compound | None:
    """The compound file in these bytes, or None where they hold none that can be read."""
    try:
        return Compound(data)
    except (struct.error, ValueError, IndexError):
        return None
