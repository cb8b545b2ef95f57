"""The settings of access."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kb_framework.api.settings import Section


class AccessSettings(Section):
    session_hours: Annotated[
        int, Field(ge=1, le=8760, description="How long a session of the console lasts, in hours.")
    ] = 12
