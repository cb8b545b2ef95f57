"""`kb plugins check`: everything that can be said of plugins by importing all that they declare."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kb_framework import api, hookspecs
from kb_framework.api import ANY_KEY, PUBLIC, resolve
from kb_framework.discovery import HOST_DISTRIBUTION, PluginInfo
from kb_framework.plugins import Plugins
from kb_framework.targets import did_you_mean, targets_of

if TYPE_CHECKING:
    from types import ModuleType

State = Literal["ok", "warning", "error"]

# An import that takes longer is felt in every command.
_SLOW_MILLISECONDS = 200
_BUILT = (
    api.Service,
    api.Retriever,
    api.Reranker,
    api.Embedder,
    api.Generator,
    api.ResearchSource,
    api.Check,
)


class Finding(NamedTuple):
    plugin: str
    state: State
    message: str


def check_plugins(plugins: Plugins, name: str | None = None) -> list[Finding]:
    """What is wrong with the plugins, or with the one of that name; one line that all is well for those without a finding."""
    findings: list[Finding] = []
    permissions = _route_permissions(plugins)
    for info in plugins.infos:
        if name in (None, info.name, f"{info.distribution}:{info.name}"):
            found = list(_check(plugins, info, permissions))
            counted = f"{sum(len(names) for names in info.contributes.values())} contributions, imported in {info.import_ms} ms"
            findings += found or [
                Finding(info.name, "ok", counted if info.state == "active" else info.state)
            ]
    return findings


def _check(
    plugins: Plugins, info: PluginInfo, permissions: dict[str, list[tuple[str, str]]]
) -> Iterator[Finding]:
    if info.state == "failed":
        yield Finding(info.name, "error", f"failed: {info.reason}")
    if info.state != "active":
        return
    shadowed: list[tuple[State, str]] = [("warning", sentence) for sentence in info.shadowed]
    for state, message in (
        *_unmarked(plugins.module(info.name), plugins.hook_names),
        *_targets(plugins, info),
        *_permissions(plugins, info, permissions.get(info.name, [])),
        *shadowed,
        *_import_time(info),
    ):
        yield Finding(info.name, state, message)


def _import_time(info: PluginInfo) -> Iterator[tuple[State, str]]:
    if info.import_ms > _SLOW_MILLISECONDS and info.distribution != HOST_DISTRIBUTION:
        yield (
            "warning",
            f"importing its entry point takes {info.import_ms} ms, in every command: import inside functions",
        )


def _unmarked(module: ModuleType, hooks: list[str]) -> Iterator[tuple[State, str]]:
    """Functions that are named as hooks are, and are none."""
    for name, value in vars(module).items():
        own = inspect.isfunction(value) and value.__module__ == module.__name__
        optional = (getattr(value, hookspecs.MARK, None) or {}).get("optionalhook")
        if own and name.startswith("kb_") and name not in hooks and not optional:
            yield (
                "error",
                f"{name} has no @hookimpl, and there is no hook of that name"
                + did_you_mean(name, hooks),
            )


def _targets(plugins: Plugins, info: PluginInfo) -> Iterator[tuple[State, str]]:
    for registry in plugins.registries:
        for name in registry.names_of(info.name):
            item = registry.get(name)
            if getattr(item, "contributed_by", ""):
                continue
            for target in targets_of(item):
                try:
                    found = resolve(target)
                except BaseException as error:  # noqa: BLE001 - a module may raise anything while it is imported
                    words = f"{type(error).__name__}: {error}"
                    yield (
                        "error",
                        f"{registry.noun} {name!r}: the target {target!r} cannot be imported: {words}",
                    )
                    continue
                if not isinstance(item, api.Routes) and not _is_type(found):
                    yield (
                        "error",
                        f"{registry.noun} {name!r}: the target {target!r} is not callable",
                    )
                elif isinstance(item, _BUILT):
                    for state, sentence in _parameters(plugins, info, found):
                        yield state, f"{registry.noun} {name!r}: {sentence}"


def _is_type(found: Any) -> bool:
    """Return whether it can be called, or is a union of models, as an answer may be."""
    return callable(found) or isinstance(found, UnionType)


def _parameters(plugins: Plugins, info: PluginInfo, maker: Any) -> Iterator[tuple[State, str]]:
    """Parameters of a constructor that nothing can fill; a warning where a disabled plugin may be what fills them."""
    disabled = ", ".join(other.name for other in plugins.infos if other.state == "disabled")
    known = plugins.part_names(info.name) | {"settings"}
    try:
        wanted = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):
        return
    for parameter in (
        item.name for item in wanted if item.default is item.empty or item.name in known
    ):
        if parameter not in known:
            sentence = f"nothing is called {parameter!r}, which its constructor asks for"
            if near := did_you_mean(parameter, sorted(known)):
                yield "error", sentence + near
            elif disabled:
                yield "warning", f"{sentence}; a disabled plugin may offer it: {disabled}"
            else:
                yield "error", sentence
        elif parameter == "settings" and not plugins.settings.names_of(info.name):
            yield "error", "its constructor asks for settings, but the plugin declares none"


def _route_permissions(plugins: Plugins) -> dict[str, list[tuple[str, str]]]:
    """The routes of each plugin with the permission that each names."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, routes in plugins.routes.items():
        try:
            target = resolve(routes.target)
            handlers = target(plugins) if routes.build else target
            for handler in handlers if isinstance(handlers, list | tuple) else [handlers]:
                pair = (
                    f"{min(handler.http_methods)} {min(handler.paths)}",
                    handler.opt.get("permission") or "",
                )
                found.setdefault(plugins.routes.plugin_of(name), []).append(pair)
        except Exception:  # noqa: BLE001 - what cannot be imported is told of the target
            continue
    return found


def _permissions(
    plugins: Plugins, info: PluginInfo, routes: list[tuple[str, str]]
) -> Iterator[tuple[State, str]]:
    declared = {item.name for item in plugins.permissions}
    named = [
        (f"the route {path}", permission)
        for path, permission in routes
        if permission not in (PUBLIC, ANY_KEY)
    ]
    tools = [
        tool
        for tool in plugins.tools
        if plugins.tools.plugin_of(tool.name) == info.name and not tool.contributed_by
    ]
    named += [(f"the tool {tool.name}", tool.permission) for tool in tools]
    named += [
        (f"the operation {kind.name}", kind.permission)
        for kind in plugins.kinds
        if plugins.kinds.plugin_of(kind.name) == info.name
    ]
    for what, permission in named:
        if not permission:
            yield "error", f"{what} names no permission: with keys, nobody may use it"
        elif permission not in declared:
            words = did_you_mean(permission, sorted(declared))
            yield (
                "error",
                f"{what} names the permission {permission!r}, which no plugin declares{words}",
            )
    own = {permission for _, permission in routes}
    for tool in tools:
        if (
            routes
            and tool.permission in declared
            and tool.permission not in own
            and info.distribution != HOST_DISTRIBUTION
        ):
            yield (
                "warning",
                f"the tool {tool.name} needs {tool.permission}, but no route of the plugin does: do they agree?",
            )
