"""One typed method per hook: what a hook's answers become, and what an exception does.

Collecting hooks are called plugin by plugin, not through pluggy's multicall: one plugin's exception must not keep the others
from being called, it must be reported by name, and no wrapper may edit what guards and narrowings answered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

from kb_framework import api
from kb_framework.discovery import PluginInfo
from kb_framework.errors import KBError, MutationRefused, PluginFailed, WrongType
from kb_framework.loaded import LoadedPlugins
from kb_framework.registry import Registry

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select

    from kb_framework.pipelines.columns import Candidates
    from kb_framework.storage.store import Tx

T = TypeVar("T")

log = logging.getLogger("kb.plugins")


class HookCalls(LoadedPlugins):
    """The hooks of all active plugins, called."""

    permissions: Registry[api.Permission]
    _manager: pluggy.PluginManager
    _trace: bool
    _provided: Callable[[str, Sequence[Parameter]], Mapping[str, Any]] | None = None

    def provide(self, parts: Callable[[str, Sequence[Parameter]], Mapping[str, Any]]) -> None:
        """Let hooks name parts of an open knowledge base: `parts` fills the parameters of a plugin's function."""
        self._provided = parts

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
        return [info.name for info in self.active() if hook in info.hooks]

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

    def mutation_applied(self, result: api.MutationResult) -> None:
        for plugin in self._each("kb_mutation_applied"):
            try:
                self._call(plugin, "kb_mutation_applied", result=result)
            except Exception as error:  # noqa: BLE001 - the mutation has happened; an observer cannot undo it
                self.report(plugin, "kb_mutation_applied", error)

    def serving(self) -> None:
        for plugin in self._each("kb_serving"):
            try:
                self._call(plugin, "kb_serving")
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
