"""What the research plugin lets people set."""

from __future__ import annotations

from pydantic import Field

from kb_framework.api.settings import Section, StringList, WholeNumber


class ResearchSettings(Section):
    paths: StringList = Field(
        [],
        description="Folders of Markdown and text, and .ndjson files, that research searches without their being added.",
    )
    search_per_minute: WholeNumber = Field(
        30, ge=0, description="Searches that a user may make in a minute; 0 is no limit."
    )
    add_per_minute: WholeNumber = Field(
        20, ge=0, description="Snippets that a user may add in a minute; 0 is no limit."
    )
    add_per_day: WholeNumber = Field(
        500, ge=0, description="Snippets that a user may add in a day; 0 is no limit."
    )
    keep_days: WholeNumber = Field(
        90, ge=0, description="Days that searches are kept; 0 keeps them for ever."
    )
