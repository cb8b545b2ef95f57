"""The one composition root: `open_kb()` puts the parts together. There is no module-level state."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from kb_framework.access import Access
from kb_framework.api import Migration, resolve
from kb_framework.bootstrap import Bootstrap, read_bootstrap
from kb_framework.embedding import Embedding
from kb_framework.errors import KBError, StoreUnusable
from kb_framework.files import open_files
from kb_framework.generation import Generation
from kb_framework.mutation import Mutation
from kb_framework.plugins import Plugins
from kb_framework.retrieval import Retrieval
from kb_framework.selection import Selector, check_contributions
from kb_framework.settings import HostSettings, Settings, load_settings
from kb_framework.store.limits import Limiter
from kb_framework.store.migrations import by_plugin, migrate
from kb_framework.store.open import open_backend
from kb_framework.store.store import Store
from kb_framework.upkeep import Upkeep

log = logging.getLogger("kb")

# What a plugin's object may ask for by the name of a parameter, beside its settings and other services.
_PARTS = frozenset(
    [
        "store",
        "files",
        "plugins",
        "selector",
        "mutation",
        "retrieval",
        "embedding",
        "access",
        "generation",
        "limiter",
        "upkeep",
        "services",
        "build",
    ],
)


class Services(Mapping[str, Any]):
    """Plugins' services by name, built when first asked for."""

    def __init__(self, kb: KB) -> None:
        self._kb = kb
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            service = self._kb.plugins.services.get(name)
            if service is None:
                raise KeyError(name)
            plugin = self._kb.plugins.services.plugin_of(name)
            self._built[name] = self._kb.build(plugin, service.target)
        return self._built[name]

    def close(self) -> None:
        """Let those go that hold something: whoever has a `close`."""
        for service in self._built.values():
            if hasattr(service, "close"):
                service.close()

    def __iter__(self) -> Iterator[str]:
        return (service.name for service in self._kb.plugins.services)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class KB:
    """An open knowledge base."""

    def __init__(self, settings: Settings, plugins: Plugins, store: Store) -> None:
        self.settings = settings
        self.plugins = plugins
        self.store = store
        self.access = Access(store, plugins)
        self.services = Services(self)
        self.files = open_files(settings.host.files_url, settings.host.data_dir)
        self.embedding = Embedding(store, plugins, settings.host, self.build)
        self.selector = Selector(plugins)
        self.mutation = Mutation(store, plugins, settings.host, self.services)
        self.retrieval = Retrieval(plugins, settings.host, self.build)
        self.generation = Generation(plugins, self.build)
        self.limiter = Limiter(store)
        self.upkeep = Upkeep(store, settings.host)

    def build(self, plugin: str, target: str) -> Any:
        """Make a plugin's object, giving its constructor what its parameters name."""
        try:
            maker = resolve(target)
            wanted = inspect.signature(maker).parameters
            return maker(**{name: self._part(plugin, name) for name in wanted})
        except KBError:
            raise
        except Exception as error:
            raise self.plugins.report(plugin, target, error) from error

    def _part(self, plugin: str, name: str) -> Any:
        if name == "settings":
            names = self.plugins.settings.names_of(plugin)
            if not names:
                raise TypeError(f"{plugin!r} declares no settings")
            return self.settings.sections[names[0]]
        if name == "host_settings":
            return self.settings.host
        if name in _PARTS:
            return getattr(self, name)
        if name in self.services:
            return self.services[name]
        raise TypeError(f"nothing is called {name!r}: a parameter names a part of the host or a service")

    def close(self) -> None:
        self.services.close()
        self.upkeep.close()
        self.store.close()


def load_plugin_settings(bootstrap: Bootstrap, plugins: Plugins) -> Settings:
    """Validate all settings; a plugin whose settings cannot even be imported has failed."""
    for section in list(plugins.settings):
        try:
            resolve(section.target)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            plugins.fail(plugins.settings.plugin_of(section.name), error)
    return load_settings(bootstrap, list(plugins.settings))


def open_kb(bootstrap: Bootstrap | None = None, plugins: Plugins | None = None) -> KB:
    """Load plugins, settings and the database, migrating it if need be."""
    bootstrap = bootstrap or read_bootstrap()
    plugins = plugins or Plugins(bootstrap)
    settings = load_plugin_settings(bootstrap, plugins)
    check_contributions(plugins)
    return KB(settings, plugins, open_store(settings.host, plugins))


def open_store(settings: HostSettings, plugins: Plugins) -> Store:
    """The database, migrated if need be."""
    data_dir = settings.data_dir
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreUnusable(f"the data folder {data_dir} cannot be made: {error.strerror}", hint="set KB_DATA_DIR") from None
    store = Store(open_backend(settings))
    try:
        for step in migrate(store, plugin_steps(plugins), plugins.fail):
            log.info("migrated: %s", step)
    except BaseException:
        store.close()
        raise
    return store


def plugin_steps(plugins: Plugins) -> dict[str, list[Migration]]:
    return by_plugin((plugins.migrations.plugin_of(key), item) for key, item in plugins.migrations.items())
