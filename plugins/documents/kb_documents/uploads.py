"""Uploads in parts, for clients that cannot send a file in one request."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from kb_documents.adding import AddingService
from kb_documents.models import Added, AppendIn, Upload, UploadIn, UploadRef
from kb_documents.tables import uploads
from kb_framework.api import Actor
from kb_framework.api.parts import Files, HostSettings, Store
from kb_framework.api.times import format_time, now
from kb_framework.errors import InvalidInput, KBError, NotFound, PayloadTooLarge

_LIFETIME = timedelta(hours=1)


class UploadsService:
    """An upload's parts are kept where files are, so that any engine finds them, until it is finished or too old."""

    def __init__(
        self, store: Store, files: Files, adding: AddingService, host_settings: HostSettings
    ) -> None:
        self._store = store
        self._adding = adding
        self._files = files
        self._max_bytes = host_settings.max_file_bytes

    def start(self, wanted: UploadIn, actor: Actor) -> Upload:
        self._forget_old()
        upload_id = str(uuid.uuid4())
        expires = format_time(datetime.now(UTC) + _LIFETIME)
        with self._store.write(actor.organization_id) as tx:
            row = {
                "id": upload_id,
                "organization_id": actor.organization_id,
                "user_id": actor.user_id,
                "fields": wanted.model_dump(),
                "created_at": now(),
                "expires_at": expires,
            }
            tx.execute(sa.insert(uploads).values(row))
        return Upload(
            upload_id=upload_id, received=0, max_bytes=self._max_bytes, expires_at=expires
        )

    def append(self, asked: AppendIn, actor: Actor, data: bytes) -> Upload:
        """Add a part. `offset` is where it belongs, so that a repeated request cannot add it twice."""
        upload_id, offset = asked.upload_id, asked.offset
        wanted, expires = self._find(upload_id, actor)
        received = self._received(upload_id)
        if offset != received:
            raise InvalidInput(
                f"offset: {received} bytes have arrived, so the next part begins there",
                field="offset",
            )
        if received + len(data) > self._max_bytes:
            raise PayloadTooLarge(
                f"{wanted.filename} is larger than {self._max_bytes} bytes (KB_MAX_FILE_BYTES)"
            )
        if data:
            self._files.put_part(upload_id, offset, data)
        return Upload(
            upload_id=upload_id,
            received=received + len(data),
            max_bytes=self._max_bytes,
            expires_at=expires,
        )

    def finish(self, asked: UploadRef, actor: Actor) -> Added:
        upload_id = asked.upload_id
        wanted, _ = self._find(upload_id, actor)
        self._received(upload_id)
        data = b"".join(self._files.upload_parts(upload_id))
        try:
            added = self._adding.add_content(data, wanted.filename, wanted, actor)
        except KBError as error:
            if error.http_status < 500:
                # Sent again it would be refused again.
                self._forget([upload_id])
            raise
        self._forget([upload_id])
        return added

    def _received(self, upload_id: str) -> int:
        """How much has arrived. Parts follow each other, since each is asked for by where the one before it ended."""
        end = 0
        for offset, size in self._files.uploaded(upload_id):
            if offset != end:
                raise InvalidInput(
                    f"offset: two parts were sent for byte {min(offset, end)}; begin again",
                    field="offset",
                )
            end += size
        return end

    def _find(self, upload_id: str, actor: Actor) -> tuple[UploadIn, str]:
        with self._store.read(actor.organization_id) as tx:
            mine = (
                tx.owns(uploads),
                uploads.c.user_id == actor.user_id,
                uploads.c.expires_at > now(),
            )
            row = tx.execute(
                sa.select(uploads.c.fields, uploads.c.expires_at).where(
                    uploads.c.id == upload_id, *mine
                )
            ).first()
        if row is None:
            raise NotFound(
                f"there is no upload {upload_id} under way",
                hint="start one; an upload lasts an hour",
            )
        return UploadIn(**row.fields), row.expires_at

    def _forget_old(self) -> None:
        with self._store.read() as tx:
            old = list(
                tx.connection.scalars(sa.select(uploads.c.id).where(uploads.c.expires_at <= now()))
            )
        if old:
            self._forget(old)

    def _forget(self, upload_ids: list[str]) -> None:
        with self._store.write(queue="uploads") as tx:
            tx.execute(sa.delete(uploads).where(uploads.c.id.in_(upload_ids)))
        for upload_id in upload_ids:
            self._files.remove_upload(upload_id)
