"""Hooks that the research plugin calls."""

from __future__ import annotations

from collections.abc import Iterable

from kb_framework import api
from kb_framework.api.hooks import registration

# Registration


@registration(api.ResearchSource)
def kb_research_sources() -> Iterable[api.ResearchSource]:  # type: ignore[empty-body]
    """Declare places beyond the store that research searches.

    Called at start. Return sources; one is built when research first searches, and asked with every search. One that raises
    while searching is reported and the others answer. An exception here marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_research_sources():
        return [api.ResearchSource("almanac", "kb_weather.almanac:Almanac")]
    ```
    """
