"""Times as the store has them: ISO 8601 UTC text of fixed width, which sorts and compares as time."""

from __future__ import annotations

from datetime import UTC, datetime

from kb_framework.errors import InvalidInput


def format_time(time: datetime) -> str:
    """Return a time as the store writes it; one without an offset is UTC."""
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def now() -> str:
    return format_time(datetime.now(UTC))


def parse_time(text: str) -> str:
    """Return a date or time that a person wrote as the store writes it."""
    try:
        return format_time(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        raise ValueError(
            "must be a date or time in ISO 8601, like 2026-01-31 or 2026-01-31T12:00:00Z"
        ) from None


def moment(text: str, field: str) -> str:
    """Return the time of a field, as `parse_time` does; InvalidInput names the field."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise InvalidInput(f"{field}: {error}", field=field) from None
