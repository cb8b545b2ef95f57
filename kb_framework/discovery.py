"""Finding plugins by their entry points, in the order of loading, and what pluggy would pass over."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from kb_framework import api, hookspecs
from kb_framework.errors import PluginFailed
from kb_framework.registry import Registry

if TYPE_CHECKING:
    pass


# `absent`: only the running engine has it.
State = Literal["active", "disabled", "failed", "absent"]


HOST_DISTRIBUTION = "kb-framework"


@dataclass(slots=True)
class PluginInfo:
    """A plugin as `kb plugins` shows it."""

    name: str
    distribution: str
    version: str
    state: State = "active"
    reason: str | None = None
    hooks: list[str] = field(default_factory=list)
    contributes: dict[str, list[str]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    # Milliseconds of the processor that importing its entry point took.
    import_ms: int = 0
    # What of it another plugin comes before.
    shadowed: list[str] = field(default_factory=list)
    # How the running engine's plugin differs from this one, if it does.
    engine: str | None = None


def specs_of(module: Any) -> list[ModuleType]:
    """Import the modules of hook specifications that a plugin names."""
    answer = module.kb_hookspecs() if hasattr(module, "kb_hookspecs") else []
    registry = Registry("module of hook specifications", api.Hookspecs)
    return [import_module(item.module) for _, item in registry.named("kb_hookspecs", answer)]


def check_marks(module: Any, marked: set[str], hooks: set[str]) -> None:
    """Refuse a hook that pluggy would pass over without a word: nobody would notice that a guard is not there."""
    own = getattr(module, "__name__", None)
    for name, value in vars(module).items():
        if name in hooks and name not in marked and callable(value):
            foreign = next(
                (mark for mark in getattr(value, "__dict__", ()) if mark.endswith("_impl")), None
            )
            marker = (
                f"it is marked by HookimplMarker({foreign.removesuffix('_impl')!r})"
                if foreign
                else "it is not marked"
            )
            raise PluginFailed(
                f"{name} is no hook: {marker}; use @hookimpl (from kb_framework import hookimpl)"
            )
        if (
            isinstance(value, type)
            and value.__module__ == own
            and (inside := hooks & vars(value).keys())
        ):
            raise PluginFailed(
                f"{min(inside)} is inside the class {name}: hooks are functions of the module"
            )


def found() -> Iterable[importlib.metadata.EntryPoint]:
    return importlib.metadata.entry_points(group=hookspecs.PROJECT)


def in_order(
    entry_points: Iterable[importlib.metadata.EntryPoint],
) -> list[tuple[PluginInfo, importlib.metadata.EntryPoint]]:
    """Plugins as found, in the order of loading, which is never that of installing.

    On a clash the plugin that arrives second fails, and a stranger must not be able to knock out one that ships with the host.
    """
    # A distribution reads its whole metadata, README and all, each time that it is asked for its name.
    known: dict[int, tuple[str, str]] = {}
    found = []
    for entry_point in entry_points:
        distribution = entry_point.dist
        if id(distribution) not in known:
            known[id(distribution)] = _name_and_version(distribution)
        found.append((PluginInfo(entry_point.name, *known[id(distribution)]), entry_point))
    return sorted(
        found,
        key=lambda pair: (
            pair[0].distribution != HOST_DISTRIBUTION,
            pair[0].name,
            pair[0].distribution,
        ),
    )


def _name_and_version(distribution: importlib.metadata.Distribution | None) -> tuple[str, str]:
    if distribution is None:
        return "unknown", "unknown"
    metadata = distribution.metadata
    return metadata["Name"], metadata["Version"]
