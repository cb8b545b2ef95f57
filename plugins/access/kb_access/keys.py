"""The format of keys, and what is stored of them.

A key is `kb_` and 48 letters and digits: 10 that are visible and by which it is looked up, 32 that are secret, and 6
that are a checksum, so that a scanner, or a person who lost a letter, can tell without a lookup. Only a SHA-256 of the
secret is stored. A password needs a slow hash, because people choose guessable ones; 190 random bits cannot be guessed,
however fast the hash is.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib
from typing import NamedTuple

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_VISIBLE, _SECRET, _CHECK = 10, 32, 6
_FORMAT = re.compile(
    rf"kb_([0-9A-Za-z]{{{_VISIBLE}}})([0-9A-Za-z]{{{_SECRET}}})([0-9A-Za-z]{{{_CHECK}}})"
)


class NewKey(NamedTuple):
    """A new key, shown once, with what is stored of it."""

    text: str
    prefix: str
    secret_hash: str


def make_key() -> NewKey:
    """Return a new random key."""
    visible = _random(_VISIBLE)
    secret = _random(_SECRET)
    return NewKey(
        f"kb_{visible}{secret}{_checksum(visible + secret)}", f"kb_{visible}", _hash(secret)
    )


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _checksum(text: str) -> str:
    number, digits = zlib.crc32(text.encode()), ""
    for _ in range(_CHECK):
        number, rest = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[rest] + digits
    return digits


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def parse_key(text: str) -> tuple[str, str] | None:
    """Return the prefix and the hash of the secret; None for a text that cannot be a key."""
    match = _FORMAT.fullmatch(text)
    if match is None or _checksum(match[1] + match[2]) != match[3]:
        return None
    return f"kb_{match[1]}", _hash(match[2])
