"""Discovery of plugins and one typed method per hook: the only user of the PluginManager.

Collecting hooks are called plugin by plugin, not through pluggy's multicall: one plugin's exception must not keep the others
from being asked, it must be reported by name, and no wrapper may edit what guards and narrowings answered.
"""

from __future__ import annotations

import importlib.metadata
import logging
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import pluggy

from kb_framework import api, hookspecs
from kb_framework.bootstrap import Bootstrap
from kb_framework.errors import ConfigInvalid, KBError, MutationRefused, PluginFailed

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select

    from kb_framework.columns import Candidates
    from kb_framework.settings import Settings
    from kb_framework.store.store import Tx

log = logging.getLogger("kb.plugins")

T = TypeVar("T")
State = Literal["active", "disabled", "failed"]
HOST = "host"
HOST_DISTRIBUTION = "kb-framework"


HOST_COMMANDS = (
    api.Command("serve", "kb_framework.commands:serve", "Serve the knowledge base over HTTP.", "Engine"),
    api.Command("mcp", "kb_framework.commands:mcp", "Serve MCP tools over standard input and output.", "Engine"),
    api.Command("doctor", "kb_framework.commands:doctor", "Check everything, and say what to do.", "Engine"),
    api.Command("db partition", "kb_framework.commands:partition", "Divide large tables of PostgreSQL.", "Engine"),
    api.Command("config", "kb_framework.commands:config", "Show every setting and where it came from.", "Engine"),
    api.Command("schema", "kb_framework.commands:schema", "Show version, capabilities and schemas.", "Engine"),
    api.Command("plugins", "kb_framework.commands:plugins", "List plugins and what they contribute.", "Engine"),
    api.Command("plugins disable", "kb_framework.commands:disable", "Switch a plugin off.", "Engine"),
    api.Command("plugins enable", "kb_framework.commands:enable", "Switch a plugin on again.", "Engine"),
)


HOST_PERMISSIONS = (
    api.Permission("engine.view", "See health, version and schemas.", "viewer"),
    api.Permission("engine.operate", "Check, repair, back up and reindex the whole engine.", engine=True),
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


class Clash(PluginFailed):
    """Two plugins contribute the same name."""

    def __init__(self, message: str, first: str, second: str) -> None:
        super().__init__(message)
        self.first = first
        self.second = second


class Registry(Generic[T]):
    """Contributions by name, each with the plugin that answers for it."""

    def __init__(self, noun: str, kind: type[T]) -> None:
        self.noun = noun
        self.kind = kind
        self._items: dict[str, tuple[str, T]] = {}

    def add(self, plugin: str, name: str, item: T) -> None:
        if not isinstance(item, self.kind):
            raise PluginFailed(f"a {self.noun} must be a {self.kind.__name__}, not {item!r}")
        if name in self._items:
            first = self._items[name][0]
            raise Clash(f"the {self.noun} {name!r} is contributed by both {first!r} and {plugin!r}", first, plugin)
        self._items[name] = (plugin, item)

    def clear(self) -> None:
        self._items = {name: pair for name, pair in self._items.items() if pair[0] == HOST}

    def plugin_of(self, name: str) -> str:
        return self._items[name][0]

    def names_of(self, plugin: str) -> list[str]:
        return sorted(name for name, pair in self._items.items() if pair[0] == plugin)

    def get(self, name: str) -> T | None:
        pair = self._items.get(name)
        return pair[1] if pair else None

    def items(self) -> list[tuple[str, T]]:
        return [(name, self._items[name][1]) for name in sorted(self._items)]

    def __iter__(self) -> Iterator[T]:
        return (self._items[name][1] for name in sorted(self._items))


class _HostHooks:
    """The host's own implementations, asked last."""

    @hookspecs.hookimpl(trylast=True)
    def kb_apply_mutation(self, plan: api.Plan, selected: Select, tx: Tx) -> bool:
        plan.operation.apply(tx, selected)
        return True


class Plugins:
    """All plugins of this process. There is no global one: whoever opens a knowledge base makes it."""

    def __init__(self, bootstrap: Bootstrap, entry_points: Iterable[importlib.metadata.EntryPoint] | None = None) -> None:
        self._trace = bootstrap.trace_hooks
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._manager.register(_HostHooks(), HOST)
        self._modules: dict[str, Any] = {}
        self.infos: list[PluginInfo] = []

        self.settings: Registry[api.SettingsSection] = Registry("settings section", api.SettingsSection)
        self.migrations: Registry[api.Migration] = Registry("migration", api.Migration)
        self.permissions: Registry[api.Permission] = Registry("permission", api.Permission)
        self.services: Registry[api.Service] = Registry("service", api.Service)
        self.filters: Registry[api.SelectionFilter] = Registry("selection filter", api.SelectionFilter)
        self.kinds: Registry[api.MutationKind] = Registry("mutation kind", api.MutationKind)
        self.retrievers: Registry[api.Retriever] = Registry("retriever", api.Retriever)
        self.rerankers: Registry[api.Reranker] = Registry("reranker", api.Reranker)
        self.embedders: Registry[api.Embedder] = Registry("embedder", api.Embedder)
        self.extractors: Registry[api.Extractor] = Registry("extractor", api.Extractor)
        self.chunkers: Registry[api.Chunker] = Registry("chunker", api.Chunker)
        self.export_tables: Registry[api.ExportTable] = Registry("export table", api.ExportTable)
        self.chunk_columns: Registry[api.ChunkColumn] = Registry("chunk column", api.ChunkColumn)
        self.generators: Registry[api.Generator] = Registry("generator", api.Generator)
        self.research_sources: Registry[api.ResearchSource] = Registry("research source", api.ResearchSource)
        self.wire_objects: Registry[api.WireObject] = Registry("wire object", api.WireObject)
        self.capabilities: Registry[bool] = Registry("capability", bool)
        self.routes: Registry[api.Routes] = Registry("routes", api.Routes)
        self.commands: Registry[api.Command] = Registry("command", api.Command)
        self.tools: Registry[api.Tool] = Registry("tool", api.Tool)
        self.client_methods: Registry[api.ClientMethod] = Registry("client method", api.ClientMethod)
        self._parts: dict[str, Registry[Any]] = {
            "kb_settings": self.settings,
            "kb_migrations": self.migrations,
            "kb_permissions": self.permissions,
            "kb_services": self.services,
            "kb_selection_filters": self.filters,
            "kb_mutation_kinds": self.kinds,
            "kb_retrievers": self.retrievers,
            "kb_rerankers": self.rerankers,
            "kb_embedders": self.embedders,
            "kb_extractors": self.extractors,
            "kb_chunkers": self.chunkers,
            "kb_export_tables": self.export_tables,
            "kb_chunk_columns": self.chunk_columns,
            "kb_generators": self.generators,
            "kb_research_sources": self.research_sources,
            "kb_wire_objects": self.wire_objects,
            "kb_capabilities": self.capabilities,
        }
        # Asked second: bulk makes a route, a command and a tool of every kind that any plugin contributed.
        self._surfaces: dict[str, Registry[Any]] = {
            "kb_routes": self.routes,
            "kb_commands": self.commands,
            "kb_tools": self.tools,
            "kb_client_methods": self.client_methods,
        }

        for command in HOST_COMMANDS:
            self.commands.add(HOST, command.name, command)
        for permission in HOST_PERMISSIONS:
            self.permissions.add(HOST, permission.name, permission)
        self._required = bootstrap.required_plugins
        self._load(bootstrap, _found() if entry_points is None else entry_points)
        self._register()
        self._check_required()

    # Loading

    def _load(self, bootstrap: Bootstrap, entry_points: Iterable[importlib.metadata.EntryPoint]) -> None:
        for info, entry_point in _in_order(entry_points):
            self.infos.append(info)
            if {info.name, f"{info.distribution}:{info.name}"} & bootstrap.disabled_plugins:
                info.state = "disabled"
                continue
            first = next(
                (other for other in self.infos[:-1] if other.name == info.name and other.state == "active"),
                None,
            )
            try:
                if first:
                    raise PluginFailed(
                        f"the plugin name {info.name!r} is used by both {first.distribution} and {info.distribution}; "
                        f"disable one of them: kb plugins disable {info.distribution}:{info.name}"
                    )
                module = entry_point.load()
                info.hooks = self._hooks_of(module)
                self._manager.register(module, info.name)
                self._modules[info.name] = module
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
                self._mark_failed(info, error)

    def _hooks_of(self, module: Any) -> list[str]:
        names = [name for name in dir(module) if self._manager.parse_hookimpl_opts(module, name) is not None]
        for name in names:
            if not hasattr(hookspecs, name):
                raise PluginFailed(f"there is no hook named {name!r}")
        return names

    def _register(self) -> None:
        """Ask every active plugin for its contributions; whenever one fails, all over again without it.

        Nothing of a failed plugin may live on in what others derived from it.
        """
        registries = (*self._parts.values(), *self._surfaces.values())
        while True:
            for registry in registries:
                registry.clear()
            failed = next((name for info in self._active() if (name := self._collect(info, self._parts))), None)
            failed = failed or next((name for info in self._active() if (name := self._collect(info, self._surfaces))), None)
            if failed is None:
                break
        for info in self._active():
            every = {**self._parts, **self._surfaces}
            info.contributes = {
                hook.removeprefix("kb_"): names for hook, registry in every.items() if (names := registry.names_of(info.name))
            }

    def _collect(self, info: PluginInfo, registries: Mapping[str, Registry[Any]]) -> str | None:
        """Add what a plugin contributes; the name of the plugin that failed over it, if any."""
        for hook, registry in registries.items():
            if hook not in info.hooks:
                continue
            try:
                answer = self._call(info.name, hook, plugins=self)
                items = answer.items() if isinstance(answer, Mapping) else [(item.name, item) for item in answer or ()]
                for name, item in items:
                    owner = getattr(item, "contributed_by", "") or info.name
                    # Migration names need only be unique within their plugin.
                    registry.add(owner, f"{info.name}:{name}" if hook == "kb_migrations" else name, item)
            except Clash as clash:
                return self._switch_off(self._later(clash.first, clash.second), clash)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
                return self._switch_off(info.name, error)
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
        info.reason = error.message if isinstance(error, KBError) else f"{type(error).__name__}: {error}"
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

    def handle(self, info: PluginInfo) -> str:
        """How to name a plugin to `kb plugins disable`, also where two have the same name."""
        alone = sum(other.name == info.name for other in self.infos) == 1
        return info.name if alone else f"{info.distribution}:{info.name}"

    def load_order(self, name: str) -> int:
        return [HOST, *(info.name for info in self._active())].index(name)

    @property
    def failed(self) -> list[PluginInfo]:
        return [info for info in self.infos if info.state == "failed"]

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
        if answer is not None and not isinstance(answer, Mapping | list | tuple) and hasattr(answer, "__next__"):
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
        info.errors = [*info.errors[-9:], sentence]
        reason = error.message if isinstance(error, KBError) else type(error).__name__
        return PluginFailed(f"plugin {plugin!r} failed in {hook}: {reason}", hint=self._help_with(info), plugin=plugin)

    def _help_with(self, info: PluginInfo) -> str:
        return f"kb plugins and the log tell more; fix it, or switch it off: kb plugins disable {self.handle(info)}"

    def _conditions(self, hook: str, **arguments: Any) -> list[ColumnElement[bool]]:
        conditions = []
        for plugin in self._each(hook):
            try:
                condition = self._call(plugin, hook, **arguments)
            except Exception as error:
                raise self.report(plugin, hook, error) from error
            if condition is not None:
                conditions.append(condition)
        return conditions

    def narrow_selection(self, selection: api.Selection, actor: api.Actor, purpose: str, tx: Tx) -> list[ColumnElement[bool]]:
        return self._conditions("kb_narrow_selection", selection=selection, actor=actor, purpose=purpose, tx=tx)

    def narrow_retrieval(self, query: api.RetrievalQuery, actor: api.Actor, purpose: str, tx: Tx) -> list[ColumnElement[bool]]:
        return self._conditions("kb_narrow_retrieval", query=query, actor=actor, purpose=purpose, tx=tx)

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

    def fuse_hits(self, query: api.RetrievalQuery, lists: Mapping[str, Iterable[api.Candidate]], tx: Tx) -> list[api.Hit]:
        for plugin in self._fusers():
            try:
                given = {name: list(found) for name, found in lists.items()}
                hits = self._call(plugin, "kb_fuse_hits", query=query, lists=given, tx=tx)
            except Exception as error:
                raise self.report(plugin, "kb_fuse_hits", error) from error
            if hits is not None:
                return hits
        raise PluginFailed(f"no plugin fuses the lists of {', '.join(sorted(lists))}; ask one retriever at a time")

    def fuse_many(
        self, queries: Sequence[api.RetrievalQuery], lists: Sequence[Mapping[str, Candidates]], tx: Tx
    ) -> list[Sequence[api.Hit]] | None:
        """A ranking for each query, if the plugin that is asked first can do it for all at once; else None."""
        first = next(iter(self._fusers()), None)
        if first is None or first not in self._each("kb_fuse_many"):
            return None
        try:
            made = self._call(first, "kb_fuse_many", queries=queries, lists=lists, tx=tx)
        except Exception as error:  # noqa: BLE001 - one of them may be the reason, so each is asked for alone
            self.report(first, "kb_fuse_many", error)
            return None
        return made if made is not None and len(made) == len(queries) else None

    def _fusers(self) -> Iterator[str]:
        # Pluggy's own order, so that `tryfirst` counts and what is installed on top of the host is asked before it.
        for implementation in reversed(self._manager.hook.kb_fuse_hits.get_hookimpls()):
            yield implementation.plugin_name

    def gate_hits(
        self, query: api.RetrievalQuery, hits: list[api.ScoredChunk], services: Mapping[str, Any], tx: Tx
    ) -> dict[int, str]:
        """Why hits are rejected, by number; where several gates reject one, what the first of them says."""
        reasons: dict[int, str] = {}
        for plugin in self._each("kb_gate_hits"):
            try:
                arguments = {"query": query, "hits": hits, "services": services, "tx": tx}
                for rejection in self._call(plugin, "kb_gate_hits", **arguments) or ():
                    reasons.setdefault(rejection.chunk, rejection.reason)
            except Exception as error:
                raise self.report(plugin, "kb_gate_hits", error) from error
        return reasons


def _objections(answer: Any) -> list[api.Objection]:
    items = [] if answer is None else [answer] if isinstance(answer, api.Objection) else list(answer)
    for item in items:
        if not isinstance(item, api.Objection):
            raise TypeError(f"a guard answers with objections, not {item!r}")
    return items


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
    return sorted(found, key=lambda pair: (pair[0].distribution != HOST_DISTRIBUTION, pair[0].name, pair[0].distribution))


def _name_and_version(distribution: importlib.metadata.Distribution | None) -> tuple[str, str]:
    if distribution is None:
        return "unknown", "unknown"
    metadata = distribution.metadata
    return metadata["Name"], metadata["Version"]
