"""The generators that plugins offer, built when first asked for."""

from __future__ import annotations

from collections.abc import Callable

from kb_framework.api import GeneratorObject
from kb_framework.errors import GeneratorUnavailable
from kb_framework.plugins import Plugins


class Generation:
    def __init__(self, plugins: Plugins, build: Callable[[str, str], GeneratorObject]) -> None:
        self._plugins = plugins
        self._build = build
        self._built: dict[str, GeneratorObject] = {}

    def get(self, name: str) -> GeneratorObject:
        """The generator of that name, ready to be asked."""
        item = self._plugins.generators.get(name)
        if item is None:
            names = ", ".join(item.name for item in self._plugins.generators) or "none"
            raise GeneratorUnavailable(f"the generator {name!r} is not available; available: {names}")
        if name not in self._built:
            self._built[name] = self._build(self._plugins.generators.plugin_of(name), item.target)
        if problem := getattr(self._built[name], "problem", None):
            raise GeneratorUnavailable(problem)
        return self._built[name]
