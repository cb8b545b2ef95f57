"""Cursors: where a page ended, for the same search over the same documents.

A cursor is opaque and signed. It holds how many hits were shown, the corpus revision, and a digest of organization, query,
filters and mode.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import struct

from kb_framework.errors import InvalidCursor, StaleCursor
from kb_search.models import UNBOUND, SearchIn

# Version, hits shown, corpus revision.
_HEAD = struct.Struct(">BIQ")
_VERSION = 1
_DIGEST = 12
# Together 39 bytes: a multiple of three leaves no bits that could be changed unnoticed.
_SIGNATURE = 14


def search_digest(wanted: SearchIn, organization_id: str) -> bytes:
    """What tells one search from another."""
    bound = {
        name: value
        for name in type(wanted).model_fields
        if name not in UNBOUND and (value := getattr(wanted, name)) is not None
    }
    text = json.dumps([organization_id, bound], sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST).digest()


class Cursors:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def write(self, shown: int, revision: int, digest: bytes) -> str:
        body = _HEAD.pack(_VERSION, shown, revision) + digest
        return base64.urlsafe_b64encode(body + self._sign(body)).decode()

    def read(self, cursor: str, revision: int, digest: bytes) -> int:
        """How many hits were shown before."""
        try:
            raw = base64.urlsafe_b64decode(cursor)
        except ValueError:
            raw = b""
        body, signature = raw[:-_SIGNATURE], raw[-_SIGNATURE:]
        # Decoding skips what is not base64: only the very text that was written counts.
        genuine = base64.urlsafe_b64encode(raw).decode() == cursor and hmac.compare_digest(
            signature, self._sign(body)
        )
        if not genuine or len(body) != _HEAD.size + _DIGEST:
            raise InvalidCursor("cursor: is not one that a search has given", field="cursor")
        version, shown, then = _HEAD.unpack_from(body)
        if version != _VERSION or body[_HEAD.size :] != digest:
            raise InvalidCursor(
                "cursor: belongs to another query, or to other filters or another mode",
                field="cursor",
            )
        if then != revision:
            raise StaleCursor(
                "cursor: the documents have changed since",
                hint="search again without the cursor",
                field="cursor",
            )
        return shown

    def _sign(self, body: bytes) -> bytes:
        return hmac.digest(self._secret, body, "sha256")[:_SIGNATURE]
