"""Loading plugins and collecting what they register. `hook_calls.py` calls their other hooks."""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import logging
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

from kb_framework import api, hookspecs
from kb_framework.bootstrap import Bootstrap
from kb_framework.contributions import (
    HOST_COMMANDS,
    HOST_OPERATIONS,
    HOST_PERMISSIONS,
    HOST_SERVICES,
)
from kb_framework.discovery import (
    HOST_DISTRIBUTION,
    PluginInfo,
    check_marks,
    found,
    in_order,
    specs_of,
)
from kb_framework.errors import ConfigInvalid, KBError, PluginFailed
from kb_framework.hook_calls import HookCalls
from kb_framework.hook_parts import Adapted
from kb_framework.registry import HOST, Clash, Registry
from kb_framework.targets import did_you_mean, missing_target, targets_of

if TYPE_CHECKING:
    from sqlalchemy import Select

    from kb_framework.storage.store import Tx

log = logging.getLogger("kb.plugins")

T = TypeVar("T")
_SURFACES = ("kb_operations", "kb_routes", "kb_commands", "kb_tools")


class _HostHooks:
    """The host's own implementations, asked last."""

    @hookspecs.hookimpl(trylast=True)
    def kb_apply_mutation(self, plan: api.Plan, selected: Select, tx: Tx) -> bool:
        apply = plan.operation.apply
        if "actor" in inspect.signature(apply).parameters:
            apply(tx, selected, actor=plan.actor)
        else:
            apply(tx, selected)
        return True


class Plugins(HookCalls):
    """All plugins of this process. There is no global one: whoever opens a knowledge base makes it."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        entry_points: Iterable[importlib.metadata.EntryPoint] | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self._trace = bootstrap.trace_hooks
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.register(_HostHooks(), HOST)
        self._modules: dict[str, Any] = {}
        # The hooks that each plugin implements, with pluggy's options.
        self._implemented: dict[str, dict[str, Any]] = {}
        # The parameters that implementations of in-flight hooks have beyond those of the hook.
        self._asked_for: dict[str, Mapping[str, Sequence[inspect.Parameter]]] = {}
        self.infos: list[PluginInfo] = []

        self._registries: dict[str, Registry[Any]] = {}
        self._specs: set[str] = set()
        self._bring(hookspecs)
        self.settings = self.registry(api.SettingsSection)
        self.stores = self.registry(api.Store)
        self.migrations = self.registry(api.Migration)
        self.permissions = self.registry(api.Permission)
        self.services = self.registry(api.Service)
        self.filters = self.registry(api.SelectionFilter)
        self.kinds = self.registry(api.MutationKind)
        self.retrievers = self.registry(api.Retriever)
        self.rerankers = self.registry(api.Reranker)
        self.chunk_columns = self.registry(api.ChunkColumn)
        self.wire_objects = self.registry(api.WireObject)
        self.file_stores = self.registry(api.FileStore)
        self.operations = self.registry(api.Operation)
        self.routes = self.registry(api.Routes)
        self.commands = self.registry(api.Command)
        self.tools = self.registry(api.Tool)

        self.operation_of_command: dict[str, api.Operation[Any, Any]] = {}
        self.operation_of_tool: dict[str, api.Operation[Any, Any]] = {}

        for command in HOST_COMMANDS:
            self.commands.add(HOST, command.name, command)
        for permission in HOST_PERMISSIONS:
            self.permissions.add(HOST, permission.name, permission)
        for service in HOST_SERVICES:
            self.services.add(HOST, service.name, service)
        for operation in HOST_OPERATIONS:
            self.operations.add(HOST, operation.name, operation)
            self._add_surfaces(HOST, operation)
        self._required = bootstrap.required_plugins
        self._load(bootstrap, found() if entry_points is None else entry_points)
        self._register()
        self._check_required()

    # Loading

    def _load(
        self, bootstrap: Bootstrap, entry_points: Iterable[importlib.metadata.EntryPoint]
    ) -> None:
        """Import the plugins; then learn all hooks that they bring; then check and register what they implement."""
        idle: list[importlib.metadata.EntryPoint] = []
        for info, entry_point in in_order(entry_points):
            self.infos.append(info)
            if {info.name, f"{info.distribution}:{info.name}"} & bootstrap.disabled_plugins:
                info.state = "disabled"
                idle += [entry_point] if info.distribution == HOST_DISTRIBUTION else []
                continue
            self._attempt(info, self._import, entry_point)
        for info in self.active():
            self._attempt(info, self._bring_specs)
        if any(self._unknown_hooks(info.name) for info in self.active()):
            # They may be hooks of a plugin that is switched off.
            for entry_point in idle:
                for module in specs_of(entry_point.load()):
                    self._bring(module)
        for info in self.active():
            self._attempt(info, self._register_module)

    def _attempt(self, info: PluginInfo, step: Callable[..., None], *arguments: Any) -> None:
        try:
            step(info, *arguments)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
            self._mark_failed(info, error)
            self._modules.pop(info.name, None) if self._has_own_name(info) else None

    def _has_own_name(self, info: PluginInfo) -> bool:
        return not any(other.name == info.name and other.state == "active" for other in self.infos)

    def _import(self, info: PluginInfo, entry_point: importlib.metadata.EntryPoint) -> None:
        first = next(
            (other for other in self.active() if other.name == info.name and other is not info),
            None,
        )
        if first:
            raise PluginFailed(
                f"the plugin name {info.name!r} is used by both {first.distribution} and {info.distribution}; "
                f"disable one of them: kb plugins disable {info.distribution}:{info.name}"
            )
        started = time.thread_time()
        self._modules[info.name] = entry_point.load()
        info.import_ms = round((time.thread_time() - started) * 1000)
        self._implemented[info.name] = self._hooks_in(self._modules[info.name])

    def _bring_specs(self, info: PluginInfo) -> None:
        for module in specs_of(self._modules[info.name]):
            self._bring(module)

    def _bring(self, module: ModuleType) -> None:
        """Add the hooks that a module specifies, with a registry for each that registers."""
        named = [name for name in vars(module) if name.startswith("kb_")]
        own = [
            name for name in named if self._manager.parse_hookspec_opts(module, name) is not None
        ]
        if known := self._specs.intersection(own):
            raise PluginFailed(f"{module.__name__} specifies {min(known)}, which is a hook already")
        self._manager.add_hookspecs(module)
        self._specs.update(own)
        for name in own:
            if registers := getattr(vars(module)[name], "registers", None):
                kind, noun = registers
                self._registries[name] = Registry(noun, kind)

    def _hooks_in(self, module: Any) -> dict[str, Any]:
        """Return the hooks that a module implements, with pluggy's options of each."""
        # Pluggy looks at one name at a time and long; most names of a module have no mark of ours.
        marked = (
            name
            for name, value in sorted(vars(module).items())
            if isinstance(getattr(value, hookspecs.MARK, None), dict)
        )
        options = ((name, self._manager.parse_hookimpl_opts(module, name)) for name in marked)
        return {name: given for name, given in options if given is not None}

    def _unknown_hooks(self, plugin: str) -> list[str]:
        found = self._implemented[plugin].items()
        return [
            name
            for name, options in found
            if name not in self._specs and not options["optionalhook"]
        ]

    def _register_module(self, info: PluginInfo) -> None:
        module = self._modules[info.name]
        for name in self._unknown_hooks(info.name):
            raise PluginFailed(
                f"there is no hook named {name!r}" + did_you_mean(name, sorted(self._specs))
            )
        implemented = self._implemented[info.name]
        check_marks(module, set(implemented), self._specs)
        if not implemented:
            raise PluginFailed(
                "it has no hooks: mark the functions of its entry point with @hookimpl"
            )
        info.hooks = [name for name in implemented if name in self._specs]
        own = {
            name: self._arguments_of(name) for name in info.hooks if name not in self._registries
        }
        adapted = Adapted(module, own, functools.partial(self._parts_for, info.name))
        self._manager.register(adapted.module, info.name)
        adapted.tell(self._manager, info.name)
        self._asked_for[info.name] = adapted.further

    def _arguments_of(self, hook: str) -> Sequence[str]:
        spec = getattr(self._manager.hook, hook).spec
        return spec.argnames if spec else ()

    def _parts_for(self, plugin: str, wanted: Sequence[inspect.Parameter]) -> Mapping[str, Any]:
        if self._provided is None:
            names = ", ".join(item.name for item in wanted)
            raise PluginFailed(f"no knowledge base is open, so there is no {names}")
        return self._provided(plugin, wanted)

    @property
    def hook_names(self) -> list[str]:
        """The hooks of the host and those that plugins bring."""
        return sorted(self._specs)

    def registry(self, kind: type[T]) -> Registry[T]:
        """Return the contributions of a kind; none where nobody specifies their hook."""
        found = (registry for registry in self._registries.values() if registry.kind is kind)
        return next(found, None) or Registry(kind.__name__.lower(), kind)

    def names_of(self, noun: str) -> list[str]:
        """Return the names of the contributions that a registry's noun stands for: "embedder"."""
        return [
            item.name
            for registry in self._registries.values()
            if registry.noun == noun
            for item in registry
        ]

    def _register(self) -> None:
        """Ask every active plugin for its contributions; whenever one fails, all over again without it.

        Nothing of a failed plugin may live on in what others derived from it.
        """
        parts = {
            hook: registry for hook, registry in self._registries.items() if hook not in _SURFACES
        }
        # Asked second: bulk makes a route, a command and a tool of every kind that any plugin contributed.
        surfaces = {hook: self._registries[hook] for hook in _SURFACES}
        every = {**parts, **surfaces}
        while True:
            for registry in every.values():
                registry.clear()
            self.operation_of_command = self._left(self.operation_of_command)
            self.operation_of_tool = self._left(self.operation_of_tool)
            failed = next(
                (name for info in self.active() if (name := self._collect(info, parts))), None
            )
            failed = failed or next(
                (name for info in self.active() if (name := self._collect(info, surfaces))), None
            )
            failed = failed or next(
                (info.name for info in self.active() if self._lacks_target(info)), None
            )
            failed = failed or next(
                (info.name for info in self.active() if self._lacks_part(info)), None
            )
            failed = failed or self._tied()
            if failed is None:
                break
        shadowed = [registry.shadowed() for registry in every.values()]
        for info in self.active():
            info.shadowed = [
                sentence for of_kind in shadowed for sentence in of_kind.get(info.name, [])
            ]
            info.contributes = {
                hook.removeprefix("kb_"): names
                for hook, registry in every.items()
                if (names := registry.names_of(info.name))
            }

    def _collect(self, info: PluginInfo, registries: Mapping[str, Registry[Any]]) -> str | None:
        """Add what a plugin contributes; the name of the plugin that failed over it, if any."""
        for hook, registry in registries.items():
            if hook not in info.hooks:
                continue
            try:
                for name, item in registry.named(hook, self._call(info.name, hook, plugins=self)):
                    owner = getattr(item, "contributed_by", "") or info.name
                    # Migration names need only be unique within their plugin.
                    registry.add(
                        owner, f"{info.name}:{name}" if hook == "kb_migrations" else name, item
                    )
                    if isinstance(item, api.Operation):
                        self._add_surfaces(owner, item)
            except Clash as clash:
                return self._switch_off(self._later(clash.first, clash.second), clash)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
                return self._switch_off(info.name, error)
        return None

    def _left(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return the surfaces of operations that are still registered."""
        return {
            name: item for name, item in named.items() if self.operations.get(item.name) is item
        }

    def has_method(self, name: str) -> bool:
        """Return whether the engine client has this method."""
        return self.operations.get(name) is not None

    def _add_surfaces(self, owner: str, operation: api.Operation[Any, Any]) -> None:
        """Register the command and the tool that an operation names."""
        if operation.command:
            command = operation.command
            self.commands.add(
                owner, command.name, command._replace(help=command.help or operation.help)
            )
            self.operation_of_command[command.name] = operation
        if operation.tool:
            self.tools.add(
                owner, operation.tool.name, operation.tool._replace(permission=operation.permission)
            )
            self.operation_of_tool[operation.tool.name] = operation

    def _lacks_target(self, info: PluginInfo) -> bool:
        """Fail a plugin whose targets cannot be found, so that its state is the same for every command and server.

        The targets of the plugins that ship with the host are there: tests resolve them all.
        """
        if info.distribution == HOST_DISTRIBUTION:
            return False
        for registry in self.registries:
            for name in registry.names_of(info.name):
                item = registry.get(name)
                if getattr(item, "contributed_by", ""):
                    continue
                for target in targets_of(item):
                    if problem := missing_target(target):
                        self._switch_off(
                            info.name, PluginFailed(f"{registry.noun} {name!r}: {problem}")
                        )
                        return True
        return False

    def _lacks_part(self, info: PluginInfo) -> bool:
        """Fail a plugin with a hook that names something that nobody has."""
        known = self.part_names(info.name)
        for hook, wanted in self._asked_for[info.name].items():
            for item in wanted:
                if item.name not in known and item.default is item.empty:
                    problem = (
                        f"{hook} names {item.name!r}, which is no part of the host and no service"
                    )
                    near = did_you_mean(item.name, sorted({*known, *self._arguments_of(hook)}))
                    self._switch_off(info.name, PluginFailed(problem + near))
                    return True
        return False

    def _tied(self) -> str | None:
        """Fail the later of two plugins whose contributions claim one thing with the same precedence."""
        for registry in self._registries.values():
            if clash := registry.tied():
                return self._switch_off(self._later(clash.first, clash.second), clash)
        return None

    def _later(self, first: str, second: str) -> str:
        """Of two plugins the one that loads later: on a clash the newcomer yields, whoever was asked first."""
        return max(first, second, key=self.load_order)

    def _check_required(self) -> None:
        for name in sorted(self._required):
            info = next((info for info in self.infos if info.name == name), None)
            if info is None or info.state != "active":
                why = (
                    "is not installed"
                    if info is None
                    else "is disabled"
                    if info.state == "disabled"
                    else f"failed: {info.reason}"
                )
                raise ConfigInvalid(f"KB_REQUIRED_PLUGINS names {name!r}, which {why}")

    def _mark_failed(self, info: PluginInfo, error: BaseException) -> None:
        info.state = "failed"
        info.reason = (
            error.message if isinstance(error, KBError) else f"{type(error).__name__}: {error}"
        )
        info.contributes = {}
        log.warning("plugin %s (%s) failed to load: %s", info.name, info.distribution, info.reason)
        log.debug("%s", "".join(traceback.format_exception(error)))

    def _switch_off(self, plugin: str, error: BaseException) -> str:
        info = next(info for info in self.infos if info.name == plugin and info.state == "active")
        self._mark_failed(info, error)
        self._modules.pop(plugin)
        self._manager.unregister(name=plugin)
        return plugin

    def fail(self, plugin: str, error: BaseException) -> None:
        """Switch off a plugin that cannot do what it registered, and forget all that came of it."""
        self._switch_off(plugin, error)
        self._register()
        self._check_required()

    def disabled_owner(self, command: str) -> str | None:
        """The disabled plugin that a command is of, by its first word. Of those from outside only the name is known."""
        off = [info for info in self.infos if info.state == "disabled"]
        shipped = {info.name for info in off if info.distribution == HOST_DISTRIBUTION}
        if shipped:
            whole = self._with_all_shipped(shipped)
            owners = {
                whole.commands.plugin_of(item.name)
                for item in whole.commands
                if item.name.split()[0] == command
            }
            if owners & shipped:
                return min(owners & shipped)
        return next((info.name for info in off if info.name == command), None)

    def idle_sections(self) -> list[api.SettingsSection]:
        """Return the sections of disabled plugins that ship with the host. Disabled plugins from outside are not imported."""
        off = {
            info.name
            for info in self.infos
            if info.state == "disabled" and info.distribution == HOST_DISTRIBUTION
        }
        if not off:
            return []
        whole = self._with_all_shipped(off)
        return [section for name in sorted(off) for section in whole.sections_of(name)]

    def _with_all_shipped(self, off: set[str]) -> Plugins:
        """Return the plugins as they would be with those that ship with the host switched on."""
        left = (
            self.bootstrap.disabled_plugins - off - {f"{HOST_DISTRIBUTION}:{name}" for name in off}
        )
        return Plugins(replace(self.bootstrap, disabled_plugins=left, required_plugins=frozenset()))

    @property
    def registries(self) -> list[Registry[Any]]:
        return list(self._registries.values())
