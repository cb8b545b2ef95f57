"""The commands that show and change settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb_framework.edges.cli.console import Cli
from kb_framework.errors import InvalidInput
from kb_framework.plugins import Plugins

if TYPE_CHECKING:
    from kb_framework.settings_loading import Setting

# They are read before kb.toml is found.
_NEEDED_BEFORE = {"KB_DATA_DIR", "KB_CONFIG_FILE"}


def config(*, cli: Cli) -> None:
    """Show every setting, its value and where it came from; secrets are masked.

    Examples
    --------
    kb config
    """
    from kb_framework.app import load_plugin_settings

    settings = load_plugin_settings(cli.bootstrap, cli.plugins)
    shown = [
        {
            "variable": item.variable,
            "value": item.shown,
            "source": item.origin,
            "description": item.description,
            "key": item.key,
        }
        for item in settings.values
    ]
    data = {"settings": shown, "unknown": list(settings.unknown_variables)}
    cli.table(
        data,
        [list(item.values())[:4] for item in shown],
        ("variable", "value", "source", "description"),
    )
    for name, near in settings.unknown_variables.items():
        cli.say(f"kb: {name} is not a setting" + (f"; did you mean {near}?" if near else ""))


def set_config(name: str, value: str, /, *, cli: Cli) -> None:
    """Keep a setting in kb.toml of the data folder. Comments and other entries stay.

    A running `kb serve` reads it at its next start.

    Parameters
    ----------
    name
        The setting: embedder, bulk.plan_seconds or KB_BULK_PLAN_SECONDS.
    value
        Its value, validated before anything is written. Lists are comma-separated.

    Examples
    --------
    kb config set embedder wordllama
    kb config set bulk.safety_percent 50
    """
    _keep(cli, name, value)


def unset_config(name: str, /, *, cli: Cli) -> None:
    """Remove a setting from kb.toml of the data folder, so that its default is used again.

    Parameters
    ----------
    name
        The setting: embedder, bulk.plan_seconds or KB_BULK_PLAN_SECONDS.

    Examples
    --------
    kb config unset embedder
    """
    _keep(cli, name, None)


def _keep(cli: Cli, name: str, value: str | None) -> None:
    from kb_framework import config_file
    from kb_framework.api.messages import nearest
    from kb_framework.app import load_plugin_settings

    path = cli.bootstrap.config_file
    known = {
        item.variable: item for item in load_plugin_settings(cli.bootstrap, cli.plugins).values
    }
    variable = name.upper().replace(".", "_").replace("-", "_")
    variable = variable if variable.startswith("KB_") else f"KB_{variable}"
    if variable not in known:
        near = nearest(variable, known)
        raise InvalidInput(
            f"{name} is not a setting",
            hint=f"did you mean {known[near].key}?" if near else "kb config lists them",
        )
    if variable in _NEEDED_BEFORE:
        raise InvalidInput(
            f"{name} decides which file is read, so the file cannot set it",
            hint=f"set {variable} instead",
        )
    checked: Any = None
    if value is not None:
        # As if the environment said so: this validates it, and gives it its type.
        given = cli.bootstrap.with_values({variable: value}, "given to this command")
        tried = load_plugin_settings(given, cli.plugins)
        setting = next(item for item in tried.values if item.variable == variable)
        _require_name(setting, cli.plugins)
        checked = setting.value
        checked = checked if isinstance(checked, bool | int | float | list) else value
    before = config_file.read(path)
    after = config_file.changed(before, variable, known[variable].key, checked)
    if after != before:
        config_file.write(path, after)
    state = "unchanged" if after == before else "unset" if value is None else "set"
    shown = "is not set" if value is None else "is set"
    cli.result(
        {"variable": variable, "key": known[variable].key, "file": str(path), "state": state},
        f"{known[variable].key} {shown} in {path}",
    )
    if variable in cli.bootstrap.sources[0].values:
        cli.say(f"kb: the environment has {variable} too, and wins")


def _require_name(setting: Setting, plugins: Plugins) -> None:
    """Refuse a name that nothing has which plugins contribute."""
    if setting.names is None:
        return
    known = [*plugins.names_of(setting.names), *(["none"] if setting.may_be_none else [])]
    if setting.value not in known:
        raise InvalidInput(
            f"there is no {setting.names} {setting.value!r}", hint=f"there are: {', '.join(known)}"
        )
