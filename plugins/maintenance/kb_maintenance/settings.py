"""What the maintenance plugin lets people set."""

from __future__ import annotations

from pydantic import Field

from kb_framework.api.settings import Section, WholeNumber


class MaintenanceSettings(Section):
    max_import_bytes: WholeNumber = Field(
        50_000_000_000,
        ge=1_000_000,
        description="An archive that holds more than this, unpacked, is not imported.",
    )
