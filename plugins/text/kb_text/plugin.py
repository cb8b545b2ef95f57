"""The entry point of the text plugin."""

from __future__ import annotations

from kb_framework import api, hookimpl

# Counts the ways in which `kb_text.analysis` has turned text into words, and in which those were kept. A database that was
# indexed in a former way is indexed again when it is opened.
ANALYSIS = 3


@hookimpl
def kb_migrations() -> list[api.Migration]:
    step = api.Migration(
        ANALYSIS, "analysis", "kb_text.rebuild:rebuild_text", recorded_as="full text"
    )
    return [step]
