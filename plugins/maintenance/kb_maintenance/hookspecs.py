"""Hooks that the maintenance plugin calls."""

from __future__ import annotations

from collections.abc import Iterable

from kb_framework import api
from kb_framework.api.hooks import registration

# Registration


@registration(api.ExportTable)
def kb_export_tables() -> Iterable[api.ExportTable]:  # type: ignore[empty-body]
    """Declare tables that `kb export` writes and `kb import` reads back, beside documents and chunks.

    Called at start. Return tables; columns that a plugin adds to `documents` and `chunks` are carried without asking. On import
    a row whose key is there already is left as it is. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_export_tables():
        return [api.ExportTable("readings", table="weather_readings", key="uuid")]
    ```
    """


@registration(api.Check)
def kb_checks() -> Iterable[api.Check]:  # type: ignore[empty-body]
    """Declare what `kb doctor` checks, repairs and rebuilds.

    Called at start. Return checks; each is built when the doctor runs, and yields findings. With the methods `repair`,
    `check_all` and `rebuild` it takes part in `kb doctor --repair`, `kb doctor --deep` and `kb reindex`
    (`api.CheckObject`). A check that raises becomes an error that names its plugin, and the others run. An exception
    here marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_checks():
        return [api.Check("readings", "kb_weather.checks:ReadingsCheck")]
    ```
    """
