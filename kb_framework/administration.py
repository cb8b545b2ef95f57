"""Plugins and settings of the engine, for those who look after it."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from pydantic import Field

from kb_framework.api import Actor
from kb_framework.api.models import Body, Model, Question
from kb_framework.bootstrap import current_name, disable_plugin, switched_off
from kb_framework.errors import NotFound
from kb_framework.plugins import Plugins
from kb_framework.settings_loading import Settings
from kb_framework.targets import did_you_mean

PluginName = Annotated[str, Field(description="The plugin, or distribution:plugin.")]


class SwitchIn(Body):
    """A plugin, and whether it is loaded at the next start."""

    name: PluginName
    enabled: Annotated[bool, Field(description="false switches the plugin off.")]


class PluginState(Model):
    """A plugin: its version, its state, and what it contributes."""

    name: str
    distribution: str
    version: str
    state: Annotated[str, Field(description="active, disabled or failed, since the last start.")]
    enabled: Annotated[bool, Field(description="Whether it is loaded at the next start.")]
    reason: Annotated[str | None, Field(description="Why it failed.")]
    contributes: dict[str, list[str]]
    errors: Annotated[list[str], Field(description="What it raised since the last start.")]
    shadowed: Annotated[list[str], Field(description="What another plugin comes before.")]


class PluginList(Model):
    data: list[PluginState]


class SettingState(Model):
    """A setting: its value, with secrets masked, and where the value came from."""

    variable: str
    key: Annotated[str, Field(description="Its place in kb.toml.")]
    value: Any
    source: str
    description: str


class SettingList(Model):
    data: list[SettingState]
    unknown: Annotated[
        list[str], Field(description="Variables that look like settings, and are none.")
    ]


class AdministrationService:
    def __init__(self, plugins: Plugins, all_settings: Settings) -> None:
        self._plugins = plugins
        self._settings = all_settings

    def list_plugins(self, _: Question, actor: Actor) -> PluginList:
        off = switched_off(self._plugins.bootstrap)
        return PluginList(data=[_state(info, off) for info in self._plugins.infos])

    def set_plugin(self, asked: SwitchIn, actor: Actor) -> PluginState:
        """Keep whether a plugin is loaded at the next start; the running engine stays as it is."""
        name = current_name(asked.name)
        info = next(
            (item for item in self._plugins.infos if name in (item.name, _full_name(item))), None
        )
        if info is None:
            known = sorted(item.name for item in self._plugins.infos)
            raise NotFound(f"there is no plugin {name!r}" + did_you_mean(name, known))
        bootstrap = self._plugins.bootstrap
        disable_plugin(bootstrap, name, disabled=not asked.enabled)
        return _state(info, switched_off(bootstrap))

    def list_settings(self, _: Question, actor: Actor) -> SettingList:
        return SettingList(
            data=[
                SettingState(
                    variable=item.variable,
                    key=item.key,
                    value=item.shown,
                    source=item.origin,
                    description=item.description,
                )
                for item in self._settings.values
            ],
            unknown=list(self._settings.unknown_variables),
        )


def _full_name(info: Any) -> str:
    return f"{info.distribution}:{info.name}"


def _state(info: Any, off: frozenset[str]) -> PluginState:
    enabled = not {info.name, _full_name(info)} & off
    return PluginState.model_validate({**dataclasses.asdict(info), "enabled": enabled})
