"""Hooks that the documents plugin calls."""

from __future__ import annotations

from collections.abc import Iterable

from kb_framework import api
from kb_framework.api.hooks import registration

# Registration


@registration(api.Extractor)
def kb_extractors() -> Iterable[api.Extractor]:  # type: ignore[empty-body]
    """Declare readers of file formats.

    Called at start. Return extractors; the function turns bytes into text or raises `ExtractionFailed` with a reason
    for the file's job. An exception here marks the plugin as failed.

    Of several extractors for one kind of file the one with the highest `precedence` is used: 0 for the built-in ones, 100
    where nothing is said. Where it raises `NoText`, the next one is used: a negative precedence is for what the built-in ones
    find no text in. `kb plugins` names the extractors that others come before. Two plugins with the same precedence for one
    kind clash.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_extractors():
        return [api.Extractor("grib", "kb_weather.grib:extract", media="application/x-grib", suffixes=(".grib",))]
    ```
    """


@registration(api.Chunker)
def kb_chunkers() -> Iterable[api.Chunker]:  # type: ignore[empty-body]
    """Declare ways of cutting text into chunks; `KB_CHUNKER` chooses one by name.

    Called at start. Return chunkers. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_chunkers():
        return [api.Chunker("hourly", "kb_weather.chunker:hourly")]
    ```
    """
