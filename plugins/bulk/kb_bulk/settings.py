"""What the bulk plugin lets people set. The safety threshold is the host's: every bulk change passes it, whoever offers it."""

from __future__ import annotations

from pydantic import Field

from kb_framework.api.settings import Number, Section, WholeNumber


class BulkSettings(Section):
    plan_seconds: WholeNumber = Field(
        900, ge=1, le=86_400, description="How long the plan of a preview can be executed."
    )
    chunks_seconds: Number = Field(
        15.0, gt=0, le=600, description="How long fetching chunks by id may take."
    )
