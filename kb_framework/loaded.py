"""The plugins of this process, and in what state they are."""

from __future__ import annotations

from typing import Any

from kb_framework import api
from kb_framework.discovery import HOST_DISTRIBUTION, PluginInfo
from kb_framework.errors import PluginFailed
from kb_framework.hook_parts import PARTS
from kb_framework.registry import HOST, Registry
from kb_framework.targets import stamp


class LoadedPlugins:
    """What was found, whether it is active, and why not."""

    infos: list[PluginInfo]
    services: Registry[api.Service]
    settings: Registry[api.SettingsSection]
    _modules: dict[str, Any]

    def active(self) -> list[PluginInfo]:
        return [info for info in self.infos if info.state == "active"]

    def handle(self, info: PluginInfo) -> str:
        """Return how to name a plugin to `kb plugins disable`, also where two have the same name."""
        alone = sum(other.name == info.name for other in self.infos) == 1
        return info.name if alone else f"{info.distribution}:{info.name}"

    def module(self, plugin: str) -> Any:
        """The module of an active plugin."""
        return self._modules[plugin]

    def load_order(self, name: str) -> int:
        return [HOST, *(info.name for info in self.active())].index(name)

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

    @property
    def capabilities(self) -> dict[str, bool]:
        """What an engine with these plugins can do."""
        return dict.fromkeys(
            sorted(name for service in self.services for name in service.capabilities), True
        )

    def part_names(self, plugin: str) -> frozenset[str]:
        """Return what a plugin's hooks and constructors may name as parameters."""
        own = [section.name for section in self.sections_of(plugin)]
        settings = ["settings", *(f"{name}_settings" for name in own)] if own else []
        return PARTS.union(settings, (service.name for service in self.services))

    def sections_of(self, plugin: str) -> list[api.SettingsSection]:
        """Return the settings sections of a plugin, in the order in which it declares them."""
        return [
            item
            for item in self.settings.as_declared()
            if self.settings.plugin_of(item.name) == plugin
        ]
