"""Moments as people write them, made comparable with those in the store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from kb_framework.errors import InvalidInput
from kb_framework.validation import Text


def parse_time(text: str) -> str:
    """Return an ISO 8601 time or date as the store writes it; without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(text.strip())
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            "must be a date or time in ISO 8601, like 2026-01-31 or 2026-01-31T12:00:00Z"
        ) from None
    return format_time(found)


def format_time(moment: datetime) -> str:
    """Return a moment in UTC as the store writes it."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


Time = Annotated[Text, Field(min_length=1, max_length=64), AfterValidator(parse_time)]


def moment(text: str, field: str) -> str:
    """Return the time of a field, as `parse_time` does; InvalidInput names the field."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise InvalidInput(f"{field}: {error}", field=field) from None
