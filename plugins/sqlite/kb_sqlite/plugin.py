"""The entry point of the sqlite plugin: the store that is used where no database is named."""

from __future__ import annotations

from kb_framework import api, hookimpl


@hookimpl
def kb_stores() -> list[api.Store]:
    return [api.Store("sqlite", "sqlite", "kb_sqlite.opening:open_engine")]


@hookimpl
def kb_settings() -> list[api.SettingsSection]:
    return [api.SettingsSection("side_index", "kb_sqlite.settings:AcceleratorSettings")]
