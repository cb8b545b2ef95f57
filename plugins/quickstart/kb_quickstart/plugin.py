"""The entry point of the quickstart plugin."""

from __future__ import annotations

from kb_framework import api, hookimpl


@hookimpl
def kb_commands() -> list[api.Command]:
    return [
        api.Command(
            "quickstart",
            "kb_quickstart.commands:quickstart",
            help="A tour with a sample folder: add, search, preview.",
            group="Start",
        )
    ]
