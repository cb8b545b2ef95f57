"""Archives: their members as files of their own, within limits that hold for all levels of nesting together."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO

from kb_text.api import decode, detect

from kb_formats.names import safe_name
from kb_formats.native import read
from kb_framework.api import Attachment, Extracted
from kb_framework.errors import ExtractionFailed

MAX_DEPTH = 3
_ARCHIVES = ("zip", "tar", "gzip", "bzip2", "xz")
_BLOCK = 1 << 16
_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
)


def _setting(name: str, default: int) -> int:
    return int(os.environ.get(name, default))


@dataclass
class _Unpacking:
    """What was taken out so far, and what stayed inside and why."""

    max_files: int = field(default_factory=lambda: _setting("KB_MAX_ARCHIVE_FILES", 10_000))
    max_file: int = field(default_factory=lambda: _setting("KB_MAX_FILE_BYTES", 100_000_000))
    # A part of the memory that reading may take: members are held, and then sent, at once.
    memory: int = field(
        default_factory=lambda: _setting("KB_EXTRACT_MEMORY_BYTES", 2_000_000_000) // 6
    )
    files: list[Attachment] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    total: int = 0

    @property
    def max_total(self) -> int:
        return min(10 * self.max_file, self.memory)

    def take(self, stream: IO[bytes], declared: int = 0) -> bytes:
        """All bytes of a stream, or ExtractionFailed once everything together is too much."""
        blocks: list[bytes] = []
        if self.total + declared > self.max_total:
            raise self.too_much()
        while block := stream.read(_BLOCK):
            self.total += len(block)
            if self.total > self.max_total:
                raise self.too_much()
            blocks.append(block)
        return b"".join(blocks)

    def too_much(self) -> ExtractionFailed:
        return ExtractionFailed(
            f"the archive expands to more than {self.max_total} bytes, which is refused (KB_MAX_FILE_BYTES)"
        )

    def add(self, name: str, data: bytes, depth: int) -> None:
        """Keep a member, or unpack it where it is an archive itself."""
        if not data:
            self.empty.append(f"{name}: empty")
            return
        if len(data) > self.max_file:
            self.refused.append(f"{name}: larger than {self.max_file} bytes")
            return
        kind = detect(data, name)
        if kind not in _ARCHIVES:
            self.count(1)
            self.files.append(Attachment(name, data))
        elif depth >= MAX_DEPTH:
            self.refused.append(f"{name}: nested too deeply")
        else:
            try:
                _UNPACK[kind](self, data, name, depth + 1)
            except ExtractionFailed as error:
                if self.total > self.max_total or len(self.files) >= self.max_files:
                    raise
                self.refused.append(f"{name}: {error.message}")

    def count(self, more: int) -> None:
        if len(self.files) + more > self.max_files:
            raise ExtractionFailed(
                f"the archive holds more than {self.max_files} files (KB_MAX_ARCHIVE_FILES)"
            )


def _zip(unpacking: _Unpacking, data: bytes, name: str, depth: int) -> None:
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except _BROKEN:
        raise ExtractionFailed("the archive is damaged, or one part of several") from None
    with archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        unpacking.count(len(members))
        if unpacking.total + sum(member.file_size for member in members) > unpacking.max_total:
            raise unpacking.too_much()
        folder = _folder(name, depth)
        for number, (member, shown) in enumerate(zip(members, _zip_names(members), strict=True), 1):
            shown = folder + safe_name(shown, f"file {number}")
            if member.flag_bits & 1:
                unpacking.refused.append(f"{shown}: password-protected")
                continue
            try:
                with archive.open(member) as stream:
                    content = unpacking.take(stream, member.file_size)
            except (*_BROKEN, RuntimeError):
                unpacking.refused.append(f"{shown}: damaged")
                continue
            unpacking.add(shown, content, depth)


def _zip_names(members: list[zipfile.ZipInfo]) -> list[str]:
    """Names as their author saw them: those without a Unicode mark are in whatever encoding the author's system had."""
    names = [member.orig_filename for member in members]
    unmarked = [index for index, member in enumerate(members) if not member.flag_bits & 0x800]
    raw = b"\n".join(
        names[index].replace("\n", " ").encode("cp437", errors="replace") for index in unmarked
    )
    try:
        decoded = decode(raw).split("\n") if unmarked else []
    except ExtractionFailed:
        return names
    if len(decoded) == len(unmarked):
        for index, name in zip(unmarked, decoded, strict=True):
            names[index] = name
    return names


def _tar(unpacking: _Unpacking, data: bytes, name: str, depth: int) -> None:
    folder = _folder(name, depth)
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for number, member in enumerate(archive, 1):
                unpacking.count(1)
                # Links and devices have no content of their own.
                stream = archive.extractfile(member) if member.isreg() else None
                if stream is not None:
                    shown = folder + safe_name(member.name, f"file {number}")
                    unpacking.add(shown, unpacking.take(stream, member.size), depth)
    except _BROKEN:
        if not unpacking.files:
            raise ExtractionFailed("the archive is damaged") from None
        unpacking.refused.append(f"{name}: damaged after the files listed above")


def _compressed(
    opened: Callable[[IO[bytes]], IO[bytes]],
) -> Callable[[_Unpacking, bytes, str, int], None]:
    def unpack(unpacking: _Unpacking, data: bytes, name: str, depth: int) -> None:
        before = unpacking.total
        try:
            with opened(io.BytesIO(data)) as stream:
                content = unpacking.take(stream)
        except _BROKEN:
            raise ExtractionFailed("the compressed data is damaged") from None
        if detect(content, "") == "tar":
            # The compressed form and the tar in it are one archive, not two.
            unpacking.total = before
            _tar(unpacking, content, name, depth)
            return
        unpacking.add(_inner_name(data, name), content, depth)

    return unpack


def _inner_name(data: bytes, name: str) -> str:
    """What a compressed file is called inside: as its header says, else its own name without the last suffix."""
    stem = re.sub(r"\.(gz|gzip|bz2|xz|lzma)$", "", name, flags=re.IGNORECASE)
    folder, slash, last = stem.rpartition("/")
    if data[:3] == b"\x1f\x8b\x08" and data[3] & 8 and not data[3] & 4:
        written = data[10:1024].partition(b"\x00")[0]
        last = safe_name(written.decode("utf-8", errors="replace"), last).rpartition("/")[2]
    return folder + slash + safe_name(last, "content")


def _folder(name: str, depth: int) -> str:
    """Members of an archive in an archive are shown under its name."""
    return f"{name}/" if depth > 1 else ""


_UNPACK: dict[str, Callable[[_Unpacking, bytes, str, int], None]] = {
    "zip": _zip,
    "tar": _tar,
    "gzip": _compressed(lambda file: gzip.GzipFile(fileobj=file)),  # pyright: ignore[reportArgumentType]
    "bzip2": _compressed(lambda file: bz2.BZ2File(file)),  # pyright: ignore[reportArgumentType]
    "xz": _compressed(lambda file: lzma.LZMAFile(file)),  # noqa: SIM115 # pyright: ignore[reportArgumentType]
}


def _unpacked(kind: str, data: bytes, name: str) -> Extracted:
    unpacking = _Unpacking()
    short = safe_name(name, "archive").rpartition("/")[2]
    _UNPACK[kind](unpacking, data, short, 1)
    if not unpacking.files and not unpacking.refused and not unpacking.empty:
        raise ExtractionFailed("the archive is empty")
    if (
        unpacking.refused
        and not unpacking.files
        and all(reason.endswith("password-protected") for reason in unpacking.refused)
    ):
        raise ExtractionFailed("the file is password-protected")
    if unpacking.refused and not unpacking.files:
        raise ExtractionFailed(
            f"nothing in the archive can be read: {'; '.join(unpacking.refused[:3])}"
        )
    unread = {"not_read": unpacking.refused, "empty_files": unpacking.empty}
    return Extracted(
        "\n".join(_listing(unpacking)),
        media="archive",
        title=short,
        metadata={
            "files": len(unpacking.files),
            **{name: reasons[:100] for name, reasons in unread.items() if reasons},
        },
        attachments=tuple(unpacking.files),
    )


def _listing(unpacking: _Unpacking) -> Iterator[str]:
    yield from (f"- {file.name}" for file in unpacking.files)
    yield from (f"- {reason}" for reason in (*unpacking.refused, *unpacking.empty))


def zip_archive(data: bytes, name: str) -> Extracted:
    """The members of a zip archive."""
    return _unpacked("zip", data, name)


def tar_archive(data: bytes, name: str) -> Extracted:
    """The members of a tar archive."""
    return _unpacked("tar", data, name)


def compressed(data: bytes, name: str) -> Extracted:
    """The file inside a compressed file, or the members where that is a tar archive."""
    return _unpacked(detect(data, name), data, name)


def seven_zip(data: bytes, name: str) -> Extracted:
    """The text of a 7z archive's members, as one text: their bytes are out of reach here."""
    result = read(data, "application/x-7z-compressed", "7z archive")
    if not result.content.strip():
        raise ExtractionFailed("the 7z archive holds no text")
    return Extracted(result.content.strip(), media="archive", title=name.rpartition("/")[2])
