"""Templates and assets: those of the console, and those of plugins that add pages."""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
from collections.abc import Iterator
from typing import Any, NamedTuple

import jinja2

from kb_console import shown
from kb_framework import __version__
from kb_framework.api import PageAsset
from kb_framework.api.parts import Plugins
from kb_framework.errors import PluginFailed

_OWN = ("console.css", "fragments.js", "elements.js", "console.js")
_MEDIA = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


class Asset(NamedTuple):
    """A file that pages load; its address changes with its content."""

    name: str
    media: str
    content: bytes

    @property
    def path(self) -> str:
        return f"/console/assets/{hashlib.sha256(self.content).hexdigest()[:12]}/{self.name}"


class Templates:
    """Renders templates; every value is escaped unless it says that it is HTML."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self.assets = {asset.path: asset for asset in self._assets()}
        self._environment = jinja2.Environment(
            loader=jinja2.FunctionLoader(_source),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(
            assets=list(self.assets.values()), version=__version__, **shown.GLOBALS
        )
        self._environment.filters.update(shown.FILTERS)

    def render(self, template: str, **values: Any) -> str:
        return self._environment.get_template(template).render(values)

    def _assets(self) -> Iterator[Asset]:
        for name in _OWN:
            yield _asset(name, "kb_console", f"static/{name}")
        registry = self._plugins.registry(PageAsset)
        for item in list(registry):
            plugin = registry.plugin_of(item.name)
            package, _, path = item.file.partition(":")
            try:
                if not path.endswith((".css", ".js")):
                    raise PluginFailed(f"the page asset {item.name!r} must be a .css or a .js file")
                found = _asset(path.rpartition("/")[2], package, path)
            except Exception as error:  # noqa: BLE001 - a plugin may name anything
                self._plugins.report(plugin, item.file, error)
                continue
            yield found._replace(name=f"{plugin}-{found.name}")


def _asset(name: str, package: str, path: str) -> Asset:
    content = importlib.resources.files(package).joinpath(path).read_bytes()
    return Asset(name, _MEDIA["." + path.rpartition(".")[2]], content)


@functools.cache
def _source(name: str) -> str | None:
    """Return a template of the console by its name, or of another package by `"package:path"`."""
    package, colon, path = name.partition(":")
    if not colon:
        package, path = "kb_console", f"pages/templates/{name}"
    try:
        return importlib.resources.files(package).joinpath(path).read_text(encoding="utf-8")
    except (OSError, ImportError):
        return None
