"""Hide passwords and keys in text that is shown, logged or recorded."""

from __future__ import annotations

import re

MASK = "***"

# Every repetition is bounded: these run over arbitrary messages, and must take linear time.
_PATTERNS = (
    # scheme://user:password@host; the second form has a password with slashes in it.
    (re.compile(r"(?<=//)[^\s/?#]{1,400}@"), f"{MASK}@"),
    (re.compile(r"(?<=//)[^\s/@:]{0,100}:[^\s@]{0,300}@"), f"{MASK}@"),
    # The same with the slashes forgotten, as in http:user:password@host.
    (
        re.compile(
            r"(?<![a-z])((?:https?|s3|postgres|postgresql):/?)(?!/)[^\s/@:]{0,100}:[^\s@]{0,300}@",
            re.IGNORECASE,
        ),
        rf"\g<1>{MASK}@",
    ),
    # ?api_key=…, and `password=…` of a PostgreSQL connection string.
    (
        re.compile(
            r"((?:^|[?&;#\s'\"])[\w.-]{0,40}(?:key|token|secret|passw|pwd|sig|credential|auth|code)[\w.-]{0,40}=)[^&;\s'\"]+",
            re.IGNORECASE,
        ),
        rf"\g<1>{MASK}",
    ),
    # A key of this program keeps the part that tells keys apart.
    (re.compile(r"(kb_[0-9A-Za-z]{10})[0-9A-Za-z]{38}"), rf"\g<1>{MASK}"),
    # As a header, or in the JSON or Python text of one.
    (
        re.compile(r"(Authorization['\"]?:\s{0,5}['\"]?Basic\s{1,5})[^\s'\"]+", re.IGNORECASE),
        rf"\g<1>{MASK}",
    ),
    (re.compile(r"(Bearer\s{1,5})(?!kb_)[^\s'\"]+", re.IGNORECASE), rf"\g<1>{MASK}"),
)


def masked_address(text: str) -> str:
    """Return an address with all before its host replaced, whatever a password in it looks like."""
    return re.sub(
        r"\A((?:[a-z][a-z0-9+.-]{0,20}:)?/{0,2}).*@",
        rf"\g<1>{MASK}@",
        masked(text),
        flags=re.IGNORECASE | re.DOTALL,
    )


def masked(text: str) -> str:
    """Return the text with passwords in addresses, secret parameters and keys replaced by asterisks."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
