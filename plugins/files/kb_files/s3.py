"""Stored files in a bucket that speaks S3: `KB_FILES_URL=s3://BUCKET/PREFIX?endpoint=https://HOST`.

An object exists as a whole or not at all, so a row that was committed after its object was published never
refers to half a file. Credentials come from the environment (`AWS_ACCESS_KEY_ID` and the like), never from
the address.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from kb_framework.api.data_folder import ABANDONED_SECONDS
from kb_framework.api.files import PART, Staged, checked_key, checked_upload, key_of
from kb_framework.api.messages import install_command
from kb_framework.errors import ConfigInvalid, FilesUnreachable

if TYPE_CHECKING:
    from obstore import ObjectMeta

log = logging.getLogger("kb.files")

_FILES, _STAGED, _PINNED, _UPLOADS, _LOST = "files", "staged", "pinned", "uploads", "lost-files"
_OPTIONS = ("endpoint", "region", "virtual_hosted")
_EXAMPLE = "s3://BUCKET/PREFIX?endpoint=https://HOST"


class S3Files:
    """A bucket, or a prefix in one. The client retries; a lasting failure raises `FilesUnreachable`."""

    def __init__(self, url: str, data_dir: Path | None = None) -> None:
        try:
            import obstore
            from obstore.store import S3Store
        except ImportError:
            raise ConfigInvalid(
                "KB_FILES_URL names a bucket, and the client for it is not installed",
                hint=install_command("s3"),
            ) from None
        self._s3: Any = obstore
        parsed = urlsplit(url)
        options = dict(parse_qsl(parsed.query, keep_blank_values=True))
        if parsed.username or parsed.password:
            raise _refused(
                "credentials do not belong in it: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        if not parsed.hostname:
            raise _refused("it names no bucket")
        if unknown := options.keys() - set(_OPTIONS):
            raise _refused(f"{min(unknown)} is none of {', '.join(_OPTIONS)}")
        endpoint = options.get("endpoint")
        self.where = f"s3://{parsed.netloc}{parsed.path}".rstrip("/")
        config: dict[str, Any] = {"endpoint": endpoint} if endpoint else {}
        if options.get("region"):
            config["region"] = options["region"]
        try:
            self._store = S3Store(
                parsed.netloc,
                prefix=parsed.path.strip("/") or None,
                virtual_hosted_style_request=options.get("virtual_hosted", "false").lower()
                == "true",
                client_options={
                    "allow_http": bool(endpoint and endpoint.startswith("http://")),
                    "connect_timeout": timedelta(seconds=5),
                    "timeout": timedelta(seconds=60),
                },
                retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=30)},
                **config,
            )
        except (obstore.exceptions.BaseError, ValueError) as error:
            raise _refused(_first_line(error)) from None

    def stage(self, data: bytes) -> Staged:
        place = f"{_STAGED}/{uuid.uuid4()}"
        self._put(place, data)
        return Staged(key_of(hashlib.sha256(data).hexdigest()), place)

    def stage_parts(self, parts: Iterable[bytes]) -> Staged:
        digest = hashlib.sha256()

        def counted() -> Iterator[bytes]:
            for part in parts:
                digest.update(part)
                yield part

        place = f"{_STAGED}/{uuid.uuid4()}"
        self._put(place, counted())
        return Staged(key_of(digest.hexdigest()), place)

    def _put(self, place: str, data: bytes | Iterator[bytes]) -> None:
        with _explained("stored"):
            self._s3.put(self._store, place, data)

    def publish(self, *staged: Staged) -> None:
        with _explained("stored"):
            for item in staged:
                self._s3.copy(self._store, item.place, self._place(item.key))

    def discard(self, staged: Staged) -> None:
        try:
            with _explained("removed"):
                self._s3.delete(self._store, staged.place)
        except FilesUnreachable:
            # `remove_abandoned` deletes it later.
            log.info("a staged file is left for later: %s", staged.place)

    def _place(self, key: str) -> str:
        return f"{_FILES}/{checked_key(key)}"

    def size(self, key: str) -> int | None:
        with _explained("read"):
            try:
                return self._s3.head(self._store, self._place(key))["size"]
            except FileNotFoundError:
                return None

    def parts(self, key: str) -> Iterator[bytes]:
        try:
            with _explained("read"):
                found = self._s3.get(self._store, self._place(key))
        except FilesUnreachable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise FileNotFoundError(key) from None
            raise
        return self._stream(found)

    def _stream(self, found: Any) -> Iterator[bytes]:
        with _explained("read"):
            for part in found.stream(min_chunk_size=PART):
                yield bytes(part)

    def remove(self, key: str) -> None:
        with _explained("removed"):
            self._s3.delete(self._store, self._place(key))

    def remove_all(self, keys: Collection[str]) -> None:
        if keys:
            with _explained("removed"):
                self._s3.delete(self._store, [self._place(key) for key in keys])

    def set_aside(self, keys: Iterable[str]) -> str:
        with _explained("moved"):
            for key in keys:
                self._s3.copy(self._store, self._place(key), f"{_LOST}/{key[3:]}")
                self._s3.delete(self._store, self._place(key))
        return f"{self.where}/{_LOST}"

    @contextmanager
    def pinned(self) -> Iterator[None]:
        marker = Staged("", f"{_PINNED}/{uuid.uuid4()}")
        self._put(marker.place, b"")
        try:
            yield
        finally:
            self.discard(marker)

    def is_pinned(self) -> bool:
        return any(not _is_old(found) for found in self._list(_PINNED))

    def remove_abandoned(self, waiting: Collection[str] = ()) -> None:
        old = [
            found["path"]
            for place in (_STAGED, _PINNED, _UPLOADS)
            for found in self._list(place)
            if _is_old(found)
        ]
        old = [path for path in old if path.split("/")[1] not in waiting]
        if old:
            with _explained("removed"):
                self._s3.delete(self._store, old)

    def staged(self) -> list[str]:
        return [found["path"] for found in self._list(_STAGED) if _is_old(found)]

    def remove_staged(self) -> int:
        old = self.staged()
        if old:
            with _explained("removed"):
                self._s3.delete(self._store, old)
        return len(old)

    def close(self) -> None:
        """A no-op: nothing is held."""

    def keys(self) -> set[str]:
        return set(self.sizes())

    def sizes(self) -> dict[str, int]:
        return {
            found["path"].removeprefix(f"{_FILES}/"): found["size"] for found in self._list(_FILES)
        }

    def put_part(self, upload_id: str, offset: int, data: bytes) -> None:
        self._put(f"{_UPLOADS}/{checked_upload(upload_id)}/{offset:020}", data)

    def uploaded(self, upload_id: str) -> list[tuple[int, int]]:
        return sorted(
            (int(found["path"].rsplit("/", 1)[1]), found["size"])
            for found in self._upload(upload_id)
        )

    def upload_parts(self, upload_id: str) -> Iterator[bytes]:
        for place in sorted(found["path"] for found in self._upload(upload_id)):
            with _explained("read"):
                found = self._s3.get(self._store, place)
            yield from self._stream(found)

    def remove_upload(self, upload_id: str) -> None:
        places = [found["path"] for found in self._upload(upload_id)]
        if places:
            with _explained("removed"):
                self._s3.delete(self._store, places)

    def _upload(self, upload_id: str) -> list[ObjectMeta]:
        return self._list(f"{_UPLOADS}/{checked_upload(upload_id)}")

    def _list(self, place: str) -> list[ObjectMeta]:
        with _explained("listed"):
            return [found for page in self._s3.list(self._store, place) for found in page]


def _is_old(found: ObjectMeta) -> bool:
    return datetime.now(UTC) - found["last_modified"] > timedelta(seconds=ABANDONED_SECONDS)


def _refused(reason: str) -> ConfigInvalid:
    return ConfigInvalid(f"KB_FILES_URL cannot be used: {reason}", hint=f"for example {_EXAMPLE}")


@contextmanager
def _explained(what: str) -> Iterator[None]:
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except (BaseError, FileNotFoundError, PermissionError) as error:
        log.warning("files could not be %s: %s", what, _first_line(error))
        if isinstance(error, FileNotFoundError):
            reason, hint = (
                "there is no such bucket or file",
                "check the bucket that KB_FILES_URL names",
            )
        elif isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError):
            reason, hint = (
                "it refuses these credentials",
                "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and what they may do",
            )
        else:
            reason, hint = (
                "it does not answer",
                "check the endpoint in KB_FILES_URL, then try again",
            )
        message = f"the file storage cannot be used: {reason}; nothing was changed"
        raise FilesUnreachable(message, hint=f"{hint}; the engine's log says more") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
