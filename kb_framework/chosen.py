"""The contribution that a setting names: looked up, built once, and able to say why it is of no use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kb_framework.errors import KBError, PluginFailed
from kb_framework.plugins import Plugins
from kb_framework.registry import Registry

T = TypeVar("T")


class Chosen(Generic[T]):
    """One item of a registry, by name. Nothing is built before `get`."""

    def __init__(
        self,
        plugins: Plugins,
        registry: Registry[Any],
        build: Callable[[str, str], T],
        name: str,
        *,
        variable: str = "",
    ) -> None:
        self.name = name
        self._plugins = plugins
        self._registry = registry
        self._build = build
        self._variable = variable
        self._built: T | None = None

    @property
    def is_known(self) -> bool:
        return self._registry.get(self.name) is not None

    @property
    def missing(self) -> str | None:
        """Say that no plugin has an item of this name, and which there are; None where one has."""
        if self.is_known:
            return None
        names = ", ".join(item.name for item in self._registry) or "none"
        setting = f" ({self._variable})" if self._variable else ""
        noun = self._registry.noun
        return f"the {noun} {self.name!r} is not available{setting}; available: {names}"

    @property
    def problem(self) -> str | None:
        """Say why it cannot be used yet.

        An object that first needs something, a file or an address, has an attribute `problem` that says what. An object that
        cannot be built has no problem here: `get` raises the reason.
        """
        return self.missing or self.attribute("problem")

    def attribute(self, name: str) -> Any:
        """Return an optional attribute of the object; None where there is no object or no such attribute."""
        try:
            return getattr(self.get(), name, None) if self.is_known else None
        except KBError:
            return None

    def get(self) -> T:
        """Return the object. It must be known."""
        if self._built is None:
            item = self._registry.get(self.name)
            assert item is not None, self.missing
            self._built = self._build(self._registry.plugin_of(self.name), item.target)
        return self._built

    def failed(self, error: Exception) -> PluginFailed:
        """Report what the object raised under the name of its plugin; the error to raise."""
        noun = f"the {self._registry.noun} {self.name!r}"
        return self._plugins.report(self._registry.plugin_of(self.name), noun, error)
