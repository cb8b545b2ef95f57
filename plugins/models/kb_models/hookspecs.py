"""Hooks that the models plugin calls."""

from __future__ import annotations

from collections.abc import Iterable

from kb_framework import api
from kb_framework.api.hooks import registration

# Registration


@registration(api.Embedder)
def kb_embedders() -> Iterable[api.Embedder]:  # type: ignore[empty-body]
    """Declare embedding models; `KB_EMBEDDER` chooses one by name.

    Called at start. Return embedders; the model is loaded when something is first embedded. An exception marks the
    plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_embedders():
        return [api.Embedder("clouds", "kb_weather.embedder:Clouds")]
    ```
    """


@registration(api.Generator)
def kb_generators() -> Iterable[api.Generator]:  # type: ignore[empty-body]
    """Declare models that turn an assembled context into an answer; `KB_KNOWLEDGE_GENERATOR` chooses one by name.

    Called at start. Return generators; one is built when a question is first answered with it. An exception marks the plugin
    as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_generators():
        return [api.Generator("oracle", "kb_weather.oracle:Oracle")]
    ```
    """
