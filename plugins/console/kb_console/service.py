"""What all pages share: calls of operations, templates, the menu, panels and assets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from markupsafe import Markup
from pydantic import BaseModel

from kb_console.settings import ConsoleSettings
from kb_console.templates import Templates
from kb_framework.api import ANY_KEY, PUBLIC, Actor, Operation, Page, Panel, Slot, resolve
from kb_framework.api.parts import Dispatcher, Plugins
from kb_framework.errors import NotFound

log = logging.getLogger("kb.console")


class Shown(NamedTuple):
    """A panel as it is shown, or the plugin that failed to give it."""

    title: str
    html: Markup = Markup("")
    failed: str = ""


class Console:
    """Calls operations as the person who looks, and renders what they answer."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        plugins: Plugins,
        settings: ConsoleSettings,
        access_sessions: Any = None,
    ) -> None:
        self.dispatcher = dispatcher
        self.plugins = plugins
        # The service of the access plugin, where it is active.
        self.sessions = access_sessions
        self.per_page = settings.per_page
        self.templates = Templates(plugins)

    def render(self, template: str, **values: Any) -> str:
        return self.templates.render(template, **values)

    # Operations

    def operation(self, name: str) -> Operation[Any, Any] | None:
        return self.plugins.operations.get(name)

    def may(self, actor: Actor, name: str) -> bool:
        """Return whether there is such an operation and the actor may call it."""
        operation = self.operation(name)
        return operation is not None and (
            operation.permission in (PUBLIC, ANY_KEY) or actor.may(operation.permission)
        )

    def call(self, actor: Actor, name: str, values: Mapping[str, Any], content: Any = None) -> Any:
        """Return what an operation answers, as JSON would have it."""
        operation = self.operation(name)
        if operation is None:
            raise NotFound(
                f"there is no operation {name!r}",
                hint="the plugin that offers it is switched off: see kb plugins",
            )
        answer = self.dispatcher.dispatch(operation, values, actor, content)
        return plain(answer)

    # Menu

    def pages(self, actor: Actor) -> list[Page]:
        """The pages that an actor sees, as the menu lists them."""
        groups: dict[str, list[Page]] = {}
        every = sorted(self.plugins.registry(Page).as_declared(), key=lambda item: item.rank)
        own = [item for item in every if self.plugin_of(item) == "console"]
        for item in [*own, *(item for item in every if item not in own)]:
            if self.sees(actor, item):
                groups.setdefault(item.group, []).append(item)
        return [item for items in groups.values() for item in items]

    def sees(self, actor: Actor, page: Page) -> bool:
        if page.permission and not actor.may(page.permission):
            return False
        return not page.operation or self.may(actor, page.operation)

    def plugin_of(self, page: Page) -> str:
        return self.plugins.registry(Page).plugin_of(page.name)

    # Panels

    def panels(self, actor: Actor, slot: Slot, subject: Mapping[str, Any]) -> list[Shown]:
        """What plugins show in a slot. A panel that raises costs its own card."""
        registry = self.plugins.registry(Panel)
        found = []
        for panel in sorted(registry, key=lambda item: item.rank):
            if panel.slot != slot or (panel.permission and not actor.may(panel.permission)):
                continue
            try:
                values = resolve(panel.target)(self.caller(actor), subject)
                if values is not None:
                    # Rendered here, so that a template that fails costs its own panel alone.
                    text = self.render(
                        panel.template or "panel_values.html", values=values, **values
                    )
                    found.append(Shown(panel.title, Markup(text)))
            except Exception as error:
                plugin = registry.plugin_of(panel.name)
                log.warning("the panel %s of %s failed", panel.name, plugin, exc_info=error)
                found.append(Shown(panel.title, failed=plugin))
        return found

    def caller(self, actor: Actor) -> Callable[..., Any]:
        """Return the function that calls operations as an actor, for a plugin's page or panel."""

        def call(operation: str, /, **fields: Any) -> Any:
            return self.call(actor, operation, fields)

        return call


def plain(answer: Any) -> Any:
    """Return an answer as JSON would have it; a download and a stream stay as they are."""
    return answer.model_dump(mode="json") if isinstance(answer, BaseModel) else answer
