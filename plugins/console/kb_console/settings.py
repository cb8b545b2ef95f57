"""The settings of the console."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kb_framework.api.settings import Section


class ConsoleSettings(Section):
    per_page: Annotated[
        int, Field(ge=5, le=100, description="Rows on a page of a list, from 5 to 100.")
    ] = 50
