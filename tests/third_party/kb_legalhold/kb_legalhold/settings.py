"""The plugin's settings, read as `KB_LEGALHOLD_<FIELD>`."""

from __future__ import annotations

from pydantic import Field

from kb_framework.api.settings import Section


class LegalHoldSettings(Section):
    default_matter: str = Field(
        "general", min_length=1, max_length=200, description="The matter of a hold that names none."
    )
