"""Parts of the host and services for the parameters of hooks that name them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import pluggy

# What a parameter may name, beside settings and services.
PARTS = frozenset(
    [
        "access",
        "all_settings",
        "build",
        "dispatcher",
        "files",
        "host_settings",
        "mutation",
        "plugins",
        "retrieval",
        "selector",
        "store",
        "upkeep",
    ],
)

# Given a function's parameters, returns their values by name.
Fill = Callable[[Sequence[inspect.Parameter]], Mapping[str, Any]]


class Adapted:
    """Implementations of hooks that name parts, as functions that take only what their hooks give.

    Pluggy allows no other parameters than a hook's own, so it is given these functions in place of a plugin's.
    """

    def __init__(self, module: ModuleType, hooks: Mapping[str, Sequence[str]], fill: Fill) -> None:
        """`hooks` are the names of a plugin's in-flight hooks, with the parameters that each gives."""
        self.further = {
            name: found
            for name, own in hooks.items()
            if (found := _further(getattr(module, name), own))
        }
        self._fill = fill
        self._own = {name: hooks[name] for name in self.further}
        self.module = self._module(module) if self.further else module

    def _module(self, module: ModuleType) -> ModuleType:
        made = ModuleType(module.__name__)
        vars(made).update(vars(module))
        for name in self.further:
            vars(made)[name] = self._adapted(name, getattr(module, name))
        return made

    def _adapted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        further, given = self.further[name], self._given(name, function)

        def called(*arguments: Any, **named: Any) -> Any:
            own = dict(zip(given, arguments, strict=False)) | named
            return function(**own, **self._fill(further))

        def wrapping(*arguments: Any, **named: Any) -> Any:
            return (yield from called(*arguments, **named))

        adapted = wrapping if inspect.isgeneratorfunction(function) else called
        # The mark of hooks is an attribute.
        vars(adapted).update(vars(function), given=given)
        return adapted

    def _given(self, name: str, function: Callable[..., Any]) -> tuple[str, ...]:
        return tuple(
            item for item in inspect.signature(function).parameters if item in self._own[name]
        )

    def tell(self, manager: pluggy.PluginManager, plugin: str) -> None:
        """Say which parameters the registered functions take: pluggy reads them from the code, which has none."""
        for name in self.further:
            for implementation in getattr(manager.hook, name).get_hookimpls():
                if implementation.plugin_name == plugin:
                    implementation.argnames = implementation.function.given  # type: ignore[misc]


def _further(function: Callable[..., Any], own: Sequence[str]) -> list[inspect.Parameter]:
    code = getattr(function, "__code__", None)
    if code is None or not set(code.co_varnames[: code.co_argcount]) - set(own):
        return []
    parameters = inspect.signature(function).parameters
    return [item for name, item in parameters.items() if name not in own]
