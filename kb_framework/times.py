"""Moments as people write them, made comparable with those in the store."""

from __future__ import annotations

from datetime import UTC, datetime

from kb_framework.errors import InvalidInput


def moment(text: str, field: str) -> str:
    """An ISO 8601 time or date as the store writes it; without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(text.strip())
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{field}: must be a time such as 2026-01-31 or 2026-01-31T12:00:00Z", field=field
        ) from None
    return found.isoformat(timespec="microseconds").replace("+00:00", "Z")
