"""Discovery of plugins and one typed method per hook: the only user of the PluginManager.

Collecting hooks are called plugin by plugin, not through pluggy's multicall: one plugin's exception must not keep the others
from being asked, it must be reported by name, and no wrapper may edit what guards and narrowings answered.
"""

from __future__ import annotations

import importlib.metadata
import logging
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pluggy

from kb_framework import api, hookspecs
from kb_framework.bootstrap import Bootstrap
from kb_framework.errors import ConfigInvalid, KBError, MutationRefused, PluginFailed, WrongType
from kb_framework.registry import HOST, Clash, Registry
from kb_framework.targets import did_you_mean, missing_target, stamp, targets_of

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select

    from kb_framework.pipelines.columns import Candidates
    from kb_framework.settings import Settings
    from kb_framework.storage.store import Tx

log = logging.getLogger("kb.plugins")

T = TypeVar("T")
# `absent`: only the running engine has it.
State = Literal["active", "disabled", "failed", "absent"]
HOST_DISTRIBUTION = "kb-framework"
_MARK = f"{hookspecs.PROJECT}_impl"
_SURFACES = ("kb_operations", "kb_routes", "kb_commands", "kb_tools", "kb_client_methods")


HOST_COMMANDS = (
    api.Command(
        "serve",
        "kb_framework.edges.cli.host_commands:serve",
        "Serve the knowledge base over HTTP.",
        "Engine",
    ),
    api.Command(
        "mcp",
        "kb_framework.edges.cli.host_commands:mcp",
        "Serve MCP tools over standard input and output.",
        "Engine",
    ),
    api.Command(
        "config",
        "kb_framework.edges.cli.host_commands:config",
        "Show every setting and where it came from.",
        "Engine",
    ),
    api.Command(
        "config set",
        "kb_framework.edges.cli.host_commands:set_config",
        "Keep a setting in kb.toml.",
        "Engine",
    ),
    api.Command(
        "config unset",
        "kb_framework.edges.cli.host_commands:unset_config",
        "Remove a setting from kb.toml.",
        "Engine",
    ),
    api.Command(
        "schema",
        "kb_framework.edges.cli.host_commands:schema",
        "Show version, capabilities and schemas.",
        "Engine",
    ),
    api.Command(
        "plugins",
        "kb_framework.edges.cli.host_commands:plugins",
        "List plugins and what they contribute.",
        "Engine",
    ),
    api.Command(
        "plugins check",
        "kb_framework.edges.cli.host_commands:check",
        "Check everything that plugins declare.",
        "Engine",
    ),
    api.Command(
        "plugins disable",
        "kb_framework.edges.cli.host_commands:disable",
        "Switch a plugin off.",
        "Engine",
    ),
    api.Command(
        "plugins enable",
        "kb_framework.edges.cli.host_commands:enable",
        "Switch a plugin on again.",
        "Engine",
    ),
)


HOST_PERMISSIONS = (
    api.Permission("engine.view", "See health, version and schemas.", "viewer"),
    api.Permission(
        "engine.operate", "Check, repair, back up and reindex the whole engine.", engine=True
    ),
    api.Permission("documents.read", "Read and search documents.", "viewer"),
    api.Permission("documents.write", "Add documents, and change their fields and tags.", "editor"),
    api.Permission("documents.delete", "Delete documents for good."),
)


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


class _HostHooks:
    """The host's own implementations, asked last."""

    @hookspecs.hookimpl(trylast=True)
    def kb_apply_mutation(self, plan: api.Plan, selected: Select, tx: Tx) -> bool:
        plan.operation.apply(tx, selected)
        return True


class Plugins:
    """All plugins of this process. There is no global one: whoever opens a knowledge base makes it."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        entry_points: Iterable[importlib.metadata.EntryPoint] | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._trace = bootstrap.trace_hooks
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.register(_HostHooks(), HOST)
        self._modules: dict[str, Any] = {}
        # The hooks that each plugin implements, with pluggy's options.
        self._implemented: dict[str, dict[str, Any]] = {}
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
        self.client_methods = self.registry(api.ClientMethod)

        self.operation_of_command: dict[str, api.Operation[Any, Any]] = {}
        self.operation_of_tool: dict[str, api.Operation[Any, Any]] = {}

        for command in HOST_COMMANDS:
            self.commands.add(HOST, command.name, command)
        for permission in HOST_PERMISSIONS:
            self.permissions.add(HOST, permission.name, permission)
        self._required = bootstrap.required_plugins
        self._load(bootstrap, _found() if entry_points is None else entry_points)
        self._register()
        self._check_required()

    # Loading

    def _load(
        self, bootstrap: Bootstrap, entry_points: Iterable[importlib.metadata.EntryPoint]
    ) -> None:
        """Import the plugins; then learn all hooks that they bring; then check and register what they implement."""
        idle: list[importlib.metadata.EntryPoint] = []
        for info, entry_point in _in_order(entry_points):
            self.infos.append(info)
            if {info.name, f"{info.distribution}:{info.name}"} & bootstrap.disabled_plugins:
                info.state = "disabled"
                idle += [entry_point] if info.distribution == HOST_DISTRIBUTION else []
                continue
            self._attempt(info, self._import, entry_point)
        for info in self._active():
            self._attempt(info, self._bring_specs)
        if any(self._unknown_hooks(info.name) for info in self._active()):
            # They may be hooks of a plugin that is switched off.
            for entry_point in idle:
                for module in _specs_of(entry_point.load()):
                    self._bring(module)
        for info in self._active():
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
            (other for other in self._active() if other.name == info.name and other is not info),
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
        for module in _specs_of(self._modules[info.name]):
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
            if isinstance(getattr(value, _MARK, None), dict)
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
        _check_marks(module, set(implemented), self._specs)
        if not implemented:
            raise PluginFailed(
                "it has no hooks: mark the functions of its entry point with @hookimpl"
            )
        info.hooks = [name for name in implemented if name in self._specs]
        self._manager.register(module, info.name)

    @property
    def hook_names(self) -> list[str]:
        """The hooks of the host and those that plugins bring."""
        return sorted(self._specs)

    def registry(self, kind: type[T]) -> Registry[T]:
        """Return the contributions of a kind; none where nobody specifies their hook."""
        found = (registry for registry in self._registries.values() if registry.kind is kind)
        return next(found, None) or Registry(kind.__name__.lower(), kind)

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
            self.operation_of_command.clear()
            self.operation_of_tool.clear()
            failed = next(
                (name for info in self._active() if (name := self._collect(info, parts))), None
            )
            failed = failed or next(
                (name for info in self._active() if (name := self._collect(info, surfaces))), None
            )
            failed = failed or next(
                (info.name for info in self._active() if self._lacks_target(info)), None
            )
            failed = failed or self._tied()
            if failed is None:
                break
        shadowed = [registry.shadowed() for registry in every.values()]
        for info in self._active():
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

    def has_method(self, name: str) -> bool:
        """Return whether the engine client has this method."""
        return self.operations.get(name) is not None or self.client_methods.get(name) is not None

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

    def _active(self) -> list[PluginInfo]:
        return [info for info in self.infos if info.state == "active"]

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
        self._manager.unregister(self._modules.pop(plugin))
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

    def sections_of(self, plugin: str) -> list[api.SettingsSection]:
        """Return the settings sections of a plugin, in the order in which it declares them."""
        return [
            item
            for item in self.settings.as_declared()
            if self.settings.plugin_of(item.name) == plugin
        ]

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
            self._bootstrap.disabled_plugins - off - {f"{HOST_DISTRIBUTION}:{name}" for name in off}
        )
        return Plugins(
            replace(self._bootstrap, disabled_plugins=left, required_plugins=frozenset())
        )

    def module(self, plugin: str) -> Any:
        """The module of an active plugin."""
        return self._modules[plugin]

    @property
    def capabilities(self) -> dict[str, bool]:
        """What an engine with these plugins can do."""
        return dict.fromkeys(
            sorted(name for service in self.services for name in service.capabilities), True
        )

    @property
    def registries(self) -> list[Registry[Any]]:
        return list(self._registries.values())

    def handle(self, info: PluginInfo) -> str:
        """How to name a plugin to `kb plugins disable`, also where two have the same name."""
        alone = sum(other.name == info.name for other in self.infos) == 1
        return info.name if alone else f"{info.distribution}:{info.name}"

    def load_order(self, name: str) -> int:
        return [HOST, *(info.name for info in self._active())].index(name)

    @property
    def failed(self) -> list[PluginInfo]:
        return [info for info in self.infos if info.state == "failed"]

    @property
    def prints(self) -> dict[str, str]:
        """What tells the plugins of two processes apart: state, version and, of outside ones, a stamp of the source."""
        return {
            self.handle(info): " ".join([info.state, info.version, *self._stamp(info)])
            for info in self.infos
        }

    def _stamp(self, info: PluginInfo) -> list[str]:
        # Those that ship with the host change with its version.
        module = self._modules.get(info.name) if info.distribution != HOST_DISTRIBUTION else None
        return [stamp(module)] if module is not None else []

    def require_all_loaded(self) -> None:
        """A plugin that failed to load might be the one that guards these documents."""
        if self.failed:
            names = ", ".join(info.name for info in self.failed)
            raise PluginFailed(
                f"documents cannot be changed while a plugin has failed to load: {names} ({self.failed[0].reason})",
                hint=f"fix it, or switch it off: kb plugins disable {self.handle(self.failed[0])}",
                plugins=[info.name for info in self.failed],
            )

    # Calling

    def _call(self, plugin: str, hook: str, **arguments: Any) -> Any:
        caller = getattr(self._manager.hook, hook)
        implementation = next(impl for impl in caller.get_hookimpls() if impl.plugin_name == plugin)
        given = {name: arguments[name] for name in implementation.argnames}
        answer = implementation.function(**given)
        if (
            answer is not None
            and not isinstance(answer, Mapping | list | tuple)
            and hasattr(answer, "__next__")
        ):
            answer = list(answer)
        if self._trace:
            log.info("hook %s of %s(%s) -> %r", hook, plugin, ", ".join(given), answer)
        return answer

    def _each(self, hook: str) -> list[str]:
        return [info.name for info in self._active() if hook in info.hooks]

    def report(self, plugin: str, hook: str, error: BaseException) -> PluginFailed:
        """Record and log that a plugin's hook raised; what to tell the caller: not the text, which may hold paths or SQL."""
        sentence = f"plugin {plugin!r} raised in {hook}: {type(error).__name__}: {error}"
        log.error("%s", sentence, exc_info=error)
        info = next(info for info in self.infos if info.name == plugin)
        # A lost connection to the database is not the plugin's fault.
        if not getattr(error, "connection_invalidated", False):
            info.errors = [*info.errors[-9:], sentence]
        reason = error.message if isinstance(error, KBError) else type(error).__name__
        if isinstance(error, WrongType):
            reason = str(error)
        return PluginFailed(
            f"plugin {plugin!r} failed in {hook}: {reason}",
            hint=self._help_with(info),
            plugin=plugin,
        )

    def _help_with(self, info: PluginInfo) -> str:
        return f"kb plugins and the log tell more; fix it, or switch it off: kb plugins disable {self.handle(info)}"

    def _conditions(self, hook: str, **arguments: Any) -> list[ColumnElement[bool]]:
        from sqlalchemy import ColumnElement

        conditions = []
        for plugin in self._each(hook):
            try:
                condition = self._call(plugin, hook, **arguments)
                if condition is not None and not isinstance(condition, ColumnElement):
                    raise WrongType(
                        f"expected a condition (a SQL expression) or None, not {type(condition).__name__}"
                    )
            except Exception as error:
                raise self.report(plugin, hook, error) from error
            if condition is not None:
                conditions.append(condition)
        return conditions

    def narrow_selection(
        self, selection: api.Selection, actor: api.Actor, purpose: str, tx: Tx
    ) -> list[ColumnElement[bool]]:
        return self._conditions(
            "kb_narrow_selection", selection=selection, actor=actor, purpose=purpose, tx=tx
        )

    def narrow_retrieval(
        self, query: api.RetrievalQuery, actor: api.Actor, purpose: str, tx: Tx
    ) -> list[ColumnElement[bool]]:
        return self._conditions(
            "kb_narrow_retrieval", query=query, actor=actor, purpose=purpose, tx=tx
        )

    def authenticate(self, credentials: api.Credentials, tx: Tx) -> api.Actor | None:
        """Return the actor of the first plugin that recognises a request, outside plugins first."""
        from sqlalchemy.exc import SQLAlchemyError

        permissions = list(self.permissions)
        for implementation in reversed(self._manager.hook.kb_authenticate.get_hookimpls()):
            plugin = implementation.plugin_name
            given = {"credentials": credentials, "permissions": permissions, "tx": tx}
            try:
                actor = self._call(plugin, "kb_authenticate", **given)
                if actor is not None and not isinstance(actor, api.Actor):
                    raise WrongType(f"expected Actor or None, not {type(actor).__name__}")
            except (KBError, SQLAlchemyError):
                # A refusal, or the database, whose errors the store translates.
                raise
            except Exception as error:
                raise self.report(plugin, "kb_authenticate", error) from error
            if actor is not None:
                return actor
        return None

    @property
    def notes_uses(self) -> bool:
        return bool(self._each("kb_keys_used"))

    def keys_used(self, times: Mapping[str, str], tx: Tx) -> None:
        from sqlalchemy.exc import SQLAlchemyError

        for plugin in self._each("kb_keys_used"):
            try:
                self._call(plugin, "kb_keys_used", times=times, tx=tx)
            except (KBError, SQLAlchemyError):
                raise
            except Exception as error:
                raise self.report(plugin, "kb_keys_used", error) from error

    @property
    def has_guards(self) -> bool:
        return bool(self._each("kb_guard_mutation"))

    def guard_mutation(self, plan: api.Plan, tx: Tx) -> list[api.Objection]:
        objections: list[api.Objection] = []
        for plugin in self._each("kb_guard_mutation"):
            try:
                answer = self._call(plugin, "kb_guard_mutation", plan=plan, tx=tx)
                objections.extend(_objections(answer))
            except Exception as error:
                told = self.report(plugin, "kb_guard_mutation", error)
                refusal = f"refused, because a guard could not be asked: {told.message}"
                raise MutationRefused(refusal, hint=told.hint, plugin=plugin) from error
        return objections

    def apply_mutation(self, plan: api.Plan, selected: Select, tx: Tx) -> None:
        self._manager.hook.kb_apply_mutation(plan=plan, selected=selected, tx=tx)
        if self._trace:
            log.info("hook kb_apply_mutation(%s)", plan.kind)

    def documents_changed(self, changes: api.Changes, tx: Tx) -> None:
        for plugin in self._each("kb_documents_changed"):
            try:
                self._call(plugin, "kb_documents_changed", changes=changes, tx=tx)
            except Exception as error:
                raise self.report(plugin, "kb_documents_changed", error) from error

    def mutation_applied(self, result: api.MutationResult, services: Mapping[str, Any]) -> None:
        for plugin in self._each("kb_mutation_applied"):
            try:
                self._call(plugin, "kb_mutation_applied", result=result, services=services)
            except Exception as error:  # noqa: BLE001 - the mutation has happened; an observer cannot undo it
                self.report(plugin, "kb_mutation_applied", error)

    def serving(self, settings: Settings, services: Mapping[str, Any]) -> None:
        for plugin in self._each("kb_serving"):
            try:
                self._call(plugin, "kb_serving", settings=settings, services=services)
            except Exception as error:  # noqa: BLE001 - an observer does not keep the engine from serving
                self.report(plugin, "kb_serving", error)

    @property
    def narrows_by_query(self) -> bool:
        """Whether what a plugin takes out of searches may depend on what is searched for."""
        narrowings = self._manager.hook.kb_narrow_retrieval.get_hookimpls()
        return any("query" in implementation.argnames for implementation in narrowings)

    def fuse_hits(
        self,
        queries: Sequence[api.RetrievalQuery],
        lists: Sequence[Mapping[str, Candidates]],
        tx: Tx,
        degraded: Sequence[dict[str, str]],
    ) -> list[Sequence[api.Hit] | PluginFailed]:
        """Return the ranking of each search, by the first plugin that gives one; failures on the way go to `degraded`."""
        made: dict[int, Sequence[api.Hit]] = {}
        failed: dict[int, PluginFailed] = {}
        for plugin in self._fusers():
            left = [number for number in range(len(queries)) if number not in made]
            if not left:
                break
            for number, hits in zip(
                left, self._fuse(plugin, left, queries, lists, tx), strict=True
            ):
                if isinstance(hits, Exception):
                    failed[number] = self.report(plugin, "kb_fuse_hits", hits)
                    degraded[number][f"fusion by {plugin}"] = failed[number].message
                elif hits is not None:
                    made[number] = hits
        return [
            made[n] if n in made else failed.get(n) or _nobody_fuses(lists[n])
            for n in range(len(queries))
        ]

    def _fuse(
        self,
        plugin: str,
        part: Sequence[int],
        queries: Sequence[api.RetrievalQuery],
        lists: Sequence[Mapping[str, Candidates]],
        tx: Tx,
    ) -> Sequence[Sequence[api.Hit] | Exception | None]:
        """Return a plugin's rankings of some searches: of all at once, or one by one where one of them makes it fail."""
        from kb_framework.pipelines.columns import checked_hits

        # A plugin may change what it is given.
        given = [{name: found.copy() for name, found in lists[number].items()} for number in part]
        try:
            answer = self._call(
                plugin,
                "kb_fuse_hits",
                queries=[queries[number] for number in part],
                lists=given,
                tx=tx,
            )
            if answer is None:
                return [None] * len(part)
            if not isinstance(answer, list | tuple):
                raise WrongType(f"expected a list of rankings, not {type(answer).__name__}")
            if len(answer) != len(part):
                raise WrongType(f"expected {len(part)} rankings, not {len(answer)}")
            return [checked_hits(hits) for hits in answer]
        except Exception as error:  # noqa: BLE001 - another plugin may fuse them
            if len(part) == 1:
                return [error]
            return [
                hits for number in part for hits in self._fuse(plugin, [number], queries, lists, tx)
            ]

    def _fusers(self) -> Iterator[str]:
        # Pluggy's own order, so that `tryfirst` counts and what is installed on top of the host is asked before it.
        for implementation in reversed(self._manager.hook.kb_fuse_hits.get_hookimpls()):
            yield implementation.plugin_name

    def ask(self, hook: str, checked: Callable[[Any], T], **arguments: Any) -> Iterator[T]:
        """Call a hook that a plugin brings, plugin by plugin. `checked` turns an answer into what is yielded, or raises."""
        for plugin in self._each(hook):
            try:
                answer = checked(self._call(plugin, hook, **arguments))
            except Exception as error:
                raise self.report(plugin, hook, error) from error
            yield answer


def _objections(answer: Any) -> list[api.Objection]:
    if answer is None:
        return []
    if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Iterable):
        raise WrongType(f"expected a list of Objection, not {type(answer).__name__}")
    items = [answer] if isinstance(answer, api.Objection) else list(answer)
    for item in items:
        if not isinstance(item, api.Objection):
            raise WrongType(f"expected Objection, not {type(item).__name__}")
        for name, value, kind in (
            ("reason", item.reason, str),
            ("document_id", item.document_id, int),
            ("chunk_id", item.chunk_id, str),
        ):
            if type(value) is not kind and (value is not None or name == "reason"):
                raise WrongType(
                    f"Objection({name}=…) must be of type {kind.__name__}, not {type(value).__name__}"
                )
    return items


def _nobody_fuses(lists: Mapping[str, Candidates]) -> PluginFailed:
    return PluginFailed(
        f"no plugin fuses the lists of {', '.join(sorted(lists))}; ask one retriever at a time"
    )


def _specs_of(module: Any) -> list[ModuleType]:
    """Import the modules of hook specifications that a plugin names."""
    answer = module.kb_hookspecs() if hasattr(module, "kb_hookspecs") else []
    registry = Registry("module of hook specifications", api.Hookspecs)
    return [import_module(item.module) for _, item in registry.named("kb_hookspecs", answer)]


def _check_marks(module: Any, marked: set[str], hooks: set[str]) -> None:
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


def _found() -> Iterable[importlib.metadata.EntryPoint]:
    return importlib.metadata.entry_points(group=hookspecs.PROJECT)


def _in_order(
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
