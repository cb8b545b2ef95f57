"""Settings of the documents plugin."""

from __future__ import annotations

from pydantic import Field

from kb_framework.api.settings import Section, WholeNumber


class DocumentsSettings(Section):
    missing_days: WholeNumber = Field(
        7,
        ge=0,
        le=36_500,
        description="Days for which a document is kept whose file vanished from a synced folder; 0 deletes it at once.",
    )
