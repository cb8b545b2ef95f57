"""The doctor's checks of settings, the disk and plugins."""

from __future__ import annotations

from collections.abc import Iterator

from kb_framework.api import Finding
from kb_framework.api.data_folder import LOG_FILE, disk_problem
from kb_framework.api.parts import HostSettings, Plugins, Settings
from kb_framework.api.plugins import check_plugins


class SettingsCheck:
    """Check for variables that no setting has."""

    def __init__(self, all_settings: Settings) -> None:
        self._settings = all_settings

    def check(self) -> Iterator[Finding]:
        if unknown := self._settings.unknown_variables:
            named = (
                f"{name} (did you mean {near}?)" if near else name for name, near in unknown.items()
            )
            yield Finding("warning", "settings", f"no setting is called {', '.join(named)}")
        else:
            words = f"data in {self._settings.host.data_dir}, log in {LOG_FILE} there"
            yield Finding("ok", "settings", words)


class DiskCheck:
    """Check that the disk of the data folder has room."""

    def __init__(self, host_settings: HostSettings) -> None:
        self._settings = host_settings

    def check(self) -> Iterator[Finding]:
        if problem := disk_problem(self._settings.data_dir, self._settings.disk_reserve_bytes):
            hint = f"free some space where {self._settings.data_dir} is"
            yield Finding("error", "disk", problem, hint)


class PluginsCheck:
    """Check what plugins declare, and report those that failed or raised."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins

    def check(self) -> list[Finding]:
        found = [*self._failures(), *self._declarations()]
        return found or [Finding("ok", "plugins", f"{len(self._plugins.infos)} found")]

    def _failures(self) -> Iterator[Finding]:
        for info in self._plugins.infos:
            if info.state == "failed":
                words = f"{info.name} failed: {info.reason}; kb plugins disable {self._plugins.handle(info)}"
                yield Finding("error", "plugins", words)
            for sentence in info.errors[-1:]:
                yield Finding("warning", "plugins", sentence)

    def _declarations(self) -> Iterator[Finding]:
        for item in check_plugins(self._plugins):
            # Failed plugins are reported by `_failures`.
            if item.state != "ok" and not item.message.startswith("failed: "):
                yield Finding(item.state, "plugins", f"{item.plugin}: {item.message}")
