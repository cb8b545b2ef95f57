"""Write the table of docs/settings.md from the settings that the host and the built-in plugins declare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kb_framework.api import resolve
from kb_framework.api.settings import Section
from kb_framework.bootstrap import read_bootstrap
from kb_framework.discovery import HOST_DISTRIBUTION
from kb_framework.plugins import Plugins
from kb_framework.settings import HostSettings

TARGET = Path(__file__).parent / "settings.md"
HEAD = "| variable | default | meaning |\n|---|---|---|\n"


def render(page: str) -> str:
    """The page with its table made anew."""
    before, _, after = page.partition(HEAD)
    _, _, after = after.partition("\n\n")
    return before + HEAD + "".join(_rows()) + "\n" + after


def _rows() -> list[str]:
    plugins = Plugins(read_bootstrap({}))
    built_in = {info.name for info in plugins.infos if info.distribution == HOST_DISTRIBUTION}
    sections = [
        section
        for section in plugins.settings
        if plugins.settings.plugin_of(section.name) in built_in
    ]
    rows = _table("KB_", HostSettings)
    for section in sections:
        rows += _table(section.prefix, resolve(section.target))
    return rows


def _table(prefix: str, model: type[Section]) -> list[str]:
    fields = model.model_fields.items()
    return [
        f"| `{prefix}{name.upper()}` | {_shown(name, info.default)} | {info.description} |\n"
        for name, info in fields
    ]


def _shown(name: str, default: Any) -> str:
    if name == "data_dir":
        return "the platform's folder for user data"
    if default is None or default == []:
        return "–"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


if __name__ == "__main__":
    TARGET.write_text(render(TARGET.read_text(encoding="utf-8")), encoding="utf-8")
