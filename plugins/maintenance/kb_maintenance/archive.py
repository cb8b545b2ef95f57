"""Archives: a zip that is written as a stream, and read with suspicion."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from kb_framework.api import Download
from kb_framework.errors import InvalidInput

MANIFEST = "manifest.json"
VERSION = 1
FILE_MEMBER = re.compile(r"files/([0-9a-f]{2})/(\1[0-9a-f]{62})")
PART = 1 << 18
# Members that tell an archive of the other command.
_OTHER_ARCHIVE = {
    "kb.sqlite": "it is a backup: kb restore takes it",
    "documents.ndjson": "it is an export: kb import takes it",
}
_LONGEST_LINE = 256_000_000
_LONGEST_MANIFEST = 10_000_000
# Text seldom shrinks to less than a hundredth; what unpacks to more than this was made to fill a disk.
_HIGHEST_RATIO = 250
_ALLOWANCE = 10_000_000
_NAMED_IN_MANIFEST = 10_000
# A zip comment has at most 65,535 bytes; a character takes up to six of them in JSON.
_NAMED_IN_COMMENT = 20
_LONGEST_MESSAGE = 500
# The record that ends a zip file, and the comment behind it.
_END = b"PK\x05\x06"
_END_SIZE = 22
_LONGEST_END = _END_SIZE + 65_535


class _Sink:
    """Takes what the zip library writes, until it is passed on. It cannot seek, so the library never tries to."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.size = 0

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is kept back."""

    def take(self) -> bytes:
        taken, self._parts, self.size = b"".join(self._parts), [], 0
        return taken


class ArchiveWriter:
    """Members go in one after the other; what is ready comes out as parts. The manifest, with check sums, is the last."""

    def __init__(self, format_name: str) -> None:
        self._sink = _Sink()
        self._zip = zipfile.ZipFile(self._sink, "w", zipfile.ZIP_DEFLATED, compresslevel=3)  # type: ignore[arg-type]
        self._format = format_name
        self._members: dict[str, dict[str, Any]] = {}
        self._files = {"count": 0, "bytes": 0}
        # What could not be copied, or was copied damaged: what it is, its document, and the problem.
        self.damaged: list[dict[str, Any]] = []

    def member(self, name: str, parts: Iterable[bytes]) -> Iterator[bytes]:
        digest, size = hashlib.sha256(), 0
        info = zipfile.ZipInfo(name)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o600 << 16
        with self._zip.open(info, "w", force_zip64=True) as out:
            for part in parts:
                digest.update(part)
                size += len(part)
                out.write(part)
                if self._sink.size >= PART:
                    yield self._sink.take()
        self._members[name] = {"sha256": digest.hexdigest(), "bytes": size}
        # Thousands of small files must not become thousands of small parts: each one has a price on its way.
        if self._sink.size >= PART:
            yield self._sink.take()

    def file(self, key: str, parts: Iterable[bytes]) -> Iterator[bytes]:
        """A stored file: its name is its check sum."""
        yield from self.member(f"files/{key}", parts)
        self._files["count"] += 1
        self._files["bytes"] += self._members.pop(f"files/{key}")["bytes"]

    def finish(self, details: Mapping[str, Any]) -> Iterator[bytes]:
        manifest = {
            "format": self._format,
            "version": VERSION,
            **details,
            "members": dict(self._members),
            "files": self._files,
            "damaged": self.damaged[:_NAMED_IN_MANIFEST],
        }
        yield from self.member(
            MANIFEST, [json.dumps(manifest, ensure_ascii=False, indent=1).encode()]
        )
        # At the very end as well, where a reader of the stream finds it: see `ArchiveEnd`.
        self._zip.comment = _comment(self.damaged) if self.damaged else b""
        self._zip.close()
        yield self._sink.take()


def _comment(damaged: list[dict[str, Any]]) -> bytes:
    """The number of damaged things and as many messages as a zip comment may hold."""
    messages = [item["message"][:_LONGEST_MESSAGE] for item in damaged[:_NAMED_IN_COMMENT]]
    return json.dumps({"damaged": len(damaged), "messages": messages}).encode()


class ArchiveEnd:
    """Reads from a stream of an archive what its writer found damaged, without keeping the archive."""

    def __init__(self) -> None:
        self._tail = b""

    def take(self, part: bytes) -> None:
        self._tail = (self._tail + part)[-_LONGEST_END:]

    @property
    def messages(self) -> list[str]:
        comment = self._tail[self._tail.rfind(_END) + _END_SIZE :]
        try:
            found = json.loads(comment)
            messages, count = [str(message) for message in found["messages"]], int(found["damaged"])
        except (ValueError, KeyError, TypeError):
            return []
        return messages + ([f"and {count - len(messages)} more"] if count > len(messages) else [])


def as_file(filename: str, parts: Iterator[bytes]) -> Download:
    """Return an archive as an answer that a browser saves under this name."""
    headers = {"Content-Disposition": f'attachment; filename="{filename}"'}
    return Download(parts, "application/zip", headers)


def read_parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(PART):
            yield part


class ArchiveReader:
    """An archive that has been looked at before anything of it is used: names, sizes, version, check sums."""

    def __init__(
        self, path: Path, format_name: str, max_bytes: int, members: re.Pattern[str]
    ) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            raise refused(f"it is damaged, cut off, or no archive at all ({error})") from None
        try:
            self._check_names(members)
            self._check_sizes(path.stat().st_size, max_bytes)
            self.manifest = self._read_manifest(format_name)
        except BaseException:
            self._zip.close()
            raise

    def close(self) -> None:
        self._zip.close()

    def __enter__(self) -> ArchiveReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_names(self, members: re.Pattern[str]) -> None:
        seen: set[str] = set()
        for info in self._zip.infolist():
            name = info.filename
            # Nothing is ever unpacked to a path that an archive names; a name that is not expected is a reason to stop.
            if info.orig_filename != name or not (
                name == MANIFEST or members.fullmatch(name) or FILE_MEMBER.fullmatch(name)
            ):
                if other := _OTHER_ARCHIVE.get(name):
                    raise refused(other)
                raise refused(f"it holds {info.orig_filename[:100]!r}, which has no place in it")
            if name in seen:
                raise refused(f"it holds {name} twice")
            if info.flag_bits & 1 or info.compress_type not in (
                zipfile.ZIP_STORED,
                zipfile.ZIP_DEFLATED,
            ):
                raise refused(f"{name} is encrypted, or packed in a way that is not used here")
            seen.add(name)
        self.names = seen
        self.files = {name.removeprefix("files/") for name in seen if name.startswith("files/")}
        # Known once the archive was verified.
        self.damaged: set[str] = set()

    def _check_sizes(self, packed: int, max_bytes: int) -> None:
        unpacked = sum(info.file_size for info in self._zip.infolist())
        if unpacked > max_bytes:
            raise refused(
                f"it would unpack to {unpacked} bytes; at most {max_bytes} are allowed (KB_MAINTENANCE_MAX_IMPORT_BYTES)"
            )
        if unpacked > _ALLOWANCE + packed * _HIGHEST_RATIO:
            raise refused(f"{packed} bytes would unpack to {unpacked}: that is no honest archive")

    def _read_manifest(self, format_name: str) -> dict[str, Any]:
        try:
            if self._zip.getinfo(MANIFEST).file_size > _LONGEST_MANIFEST:
                raise refused("its manifest is too large")
            manifest = json.loads(self._zip.read(MANIFEST))
            found, version, members = manifest["format"], manifest["version"], manifest["members"]
            sums = {
                name: (str(item["sha256"]), int(item["bytes"])) for name, item in members.items()
            }
            count = int(manifest["files"]["count"])
        except (
            KeyError,
            ValueError,
            TypeError,
            AttributeError,
            RecursionError,
            zipfile.BadZipFile,
            EOFError,
        ) as error:
            raise refused(
                f"its manifest is missing or cannot be read ({type(error).__name__})"
            ) from None
        if found != format_name:
            raise refused(f"it is a {found!r}, not a {format_name!r}")
        if version != VERSION:
            raise refused(
                f"it has version {version!r} of the format; this program reads version {VERSION}"
            )
        if set(sums) != {
            name for name in self.names if name != MANIFEST and not name.startswith("files/")
        }:
            raise refused("it does not hold what its manifest says")
        if count != len(self.files):
            raise refused(f"it holds {len(self.files)} files, its manifest says {count}")
        self._sums = sums
        return manifest

    def verify(self) -> None:
        """Read everything once and compare it with its checksums. A damaged stored file is left out; anything else is refused."""
        for name, (digest, size) in self._sums.items():
            if self._digest(name) != (digest, size):
                raise refused(f"{name} does not have the check sum that the manifest says")
        self.damaged = {key for key in self.files if not self.is_whole(key)}
        self.files -= self.damaged

    def is_whole(self, key: str) -> bool:
        try:
            return self._digest(f"files/{key}")[0] == key[3:]
        except InvalidInput:
            return False

    def _digest(self, name: str) -> tuple[str, int]:
        digest, size = hashlib.sha256(), 0
        for part in self.parts(name):
            digest.update(part)
            size += len(part)
        return digest.hexdigest(), size

    def parts(self, name: str) -> Iterator[bytes]:
        with self._opened(name) as file:
            while part := _reading(name, lambda: file.read(PART)):
                yield part

    def lines(self, name: str) -> Generator[dict[str, Any], None, None]:
        """The objects of a member with one on each line."""
        with self._opened(name) as file:
            number = 0
            while line := _reading(name, lambda: file.readline(_LONGEST_LINE)):
                number += 1
                if not line.endswith(b"\n"):
                    raise refused(f"line {number} of {name} is cut off or too long")
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    raise refused(f"line {number} of {name} is not JSON") from None
                if not isinstance(row, dict):
                    raise refused(f"line {number} of {name} is not an object")
                yield row

    def _opened(self, name: str) -> BinaryIO:
        return _reading(name, lambda: self._zip.open(name))


def _reading(name: str, read: Any) -> Any:
    try:
        return read()
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise refused(f"{name} is damaged ({error})") from None


def refused(reason: str) -> InvalidInput:
    return InvalidInput(f"the archive is refused: {reason}", field="archive")
