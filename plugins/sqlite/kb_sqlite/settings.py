"""Settings of the accelerator."""

from __future__ import annotations

from pydantic import Field

from kb_framework.api.settings import Section, WholeNumber


class AcceleratorSettings(Section):
    min_chunks: WholeNumber = Field(
        1000,
        ge=1,
        description="From so many chunks on an organization gets a side index, which makes its searches fast.",
    )
    tail_rows: WholeNumber = Field(
        8192,
        ge=1,
        description="Number of new chunks buffered before they become a segment of the side index.",
    )
