"""What the knowledge plugin lets people set."""

from __future__ import annotations

from pydantic import Field

from kb_framework.api.settings import Number, Section, WholeNumber


class KnowledgeSettings(Section):
    hard_delete: bool = Field(False, description="Allow single chunks to be deleted for good.")
    snapshot_days: WholeNumber = Field(
        365,
        ge=0,
        description="Days that snapshots of contexts and answers are kept; 0 keeps them for ever.",
    )
    gate_score: Number = Field(
        0.34,
        ge=0,
        le=1,
        description="A hit with a smaller share of the best hit's score is not relevant; 0 lets all pass.",
    )
    gate_coverage: Number = Field(
        0.3,
        ge=0,
        le=1,
        description="A hit with a smaller share of the question's words is not relevant; 0 lets all pass.",
    )
    gate_cosine: Number = Field(
        0.45, ge=0, le=1, description="A hit at least this near in meaning need not share words."
    )
    generator: str = Field(
        "none",
        description="Which generator answers questions; 'none' gives the assembled context instead.",
    )
