"""Settings of the documents plugin."""

from __future__ import annotations

from pydantic import Field

from kb_framework.setting_types import WholeNumber
from kb_framework.settings import Section


class DocumentsSettings(Section):
    missing_days: WholeNumber = Field(
        7,
        ge=0,
        le=36_500,
        description="Days for which a document is kept whose file vanished from a synced folder; 0 deletes it at once.",
    )
