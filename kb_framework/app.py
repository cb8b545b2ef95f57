"""The one composition root: `open_kb()` puts the parts together. There is no module-level state."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kb_framework.access import Access
from kb_framework.api import Migration, StoreLocation, resolve
from kb_framework.api.data_folder import (
    DATABASE,
    finish_switch,
    is_empty,
    remove_leftovers,
    require_no_files,
)
from kb_framework.api.engine import Engine
from kb_framework.api.files import NoFiles, open_files
from kb_framework.bootstrap import Bootstrap, read_bootstrap
from kb_framework.errors import ConfigInvalid, FilesUnreachable, KBError, StoreUnusable
from kb_framework.hook_parts import PARTS
from kb_framework.operations import Dispatcher
from kb_framework.pipelines.mutation import Mutation
from kb_framework.pipelines.retrieval import Retrieval
from kb_framework.pipelines.selection import Selector, check_contributions
from kb_framework.plugins import Plugins
from kb_framework.private import make_private, private_files
from kb_framework.settings import HostSettings
from kb_framework.settings_loading import SettingMissing, Settings, load_settings
from kb_framework.storage.migrations import by_plugin, migrate
from kb_framework.storage.store import Store
from kb_framework.upkeep import Upkeep

log = logging.getLogger("kb")

# The scheme of a database in the data folder.
_DEFAULT_SCHEME = "sqlite"


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
        """Close the services that have a `close`."""
        # A service that ends its own thread may build others meanwhile; they are closed too.
        while self._built:
            _, service = self._built.popitem()
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
        self.files = open_files(
            plugins.file_stores, settings.host.files_url, settings.host.data_dir
        )
        self.selector = Selector(plugins)
        self.mutation = Mutation(store, plugins, settings.host)
        self.retrieval = Retrieval(plugins, settings.host, self.build)
        self.upkeep = Upkeep(store)
        self.dispatcher = Dispatcher(plugins, self._part, self.services)
        plugins.provide(self._parts)

    @property
    def all_settings(self) -> Settings:
        """The settings of the host and of every plugin, as a part that objects may ask for."""
        return self.settings

    @property
    def host_settings(self) -> HostSettings:
        return self.settings.host

    def build(self, plugin: str, target: str) -> Any:
        """Make a plugin's object, giving its constructor what its parameters name."""
        try:
            maker = resolve(target)
            return maker(**self._parts(plugin, [*inspect.signature(maker).parameters.values()]))
        except KBError:
            raise
        except Exception as error:
            raise self.plugins.report(plugin, target, error) from error

    def _parts(self, plugin: str, wanted: Sequence[inspect.Parameter]) -> dict[str, Any]:
        """Return what parameters name. One with a default may name a service of a plugin that is switched off."""
        known = self.plugins.part_names(plugin)
        return {
            item.name: self._part(plugin, item.name)
            for item in wanted
            if item.name in known or item.default is item.empty
        }

    def _part(self, plugin: str, name: str) -> Any:
        if name not in self.plugins.part_names(plugin):
            more = f"; {plugin!r} declares no settings" if name == "settings" else ""
            raise TypeError(
                f"nothing is called {name!r}: a parameter names a part of the host or a service{more}"
            )
        if name in PARTS:
            return getattr(self, name)
        if name == "settings":
            return self.settings.sections[self.plugins.sections_of(plugin)[0].name]
        if name in self.services:
            return self.services[name]
        return self.settings.sections[name.removesuffix("_settings")]

    def close(self) -> None:
        self.services.close()
        self.upkeep.close()
        self.store.close()
        self.files.close()


def load_plugin_settings(bootstrap: Bootstrap, plugins: Plugins) -> Settings:
    """Validate all settings. A plugin whose settings cannot be imported, or lack one without a default, has failed."""
    for section in list(plugins.settings):
        try:
            resolve(section.target)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            plugins.fail(plugins.settings.plugin_of(section.name), error)
    while True:
        sections = list(plugins.settings)
        owners = {section.name: plugins.settings.plugin_of(section.name) for section in sections}
        inactive = {info.name for info in plugins.infos if info.state != "active"}
        idle = plugins.idle_sections()
        try:
            return load_settings(bootstrap, sections, plugins=owners, inactive=inactive, idle=idle)
        except SettingMissing as error:
            plugins.fail(owners[error.section], error)


def open_kb(bootstrap: Bootstrap | None = None, plugins: Plugins | None = None) -> KB:
    """Load plugins, settings and the database, migrating it if need be."""
    bootstrap = bootstrap or read_bootstrap()
    plugins = plugins or Plugins(bootstrap)
    settings = load_plugin_settings(bootstrap, plugins)
    for name, near in settings.unknown_variables.items():
        # Others have variables of their own that begin so.
        if near:
            log.warning("%s is not a setting, and is ignored; did you mean %s?", name, near)
    check_contributions(plugins)
    return KB(settings, plugins, open_store(settings, plugins))


def open_store(settings: Settings, plugins: Plugins, *, beside_files: bool = False) -> Store:
    """Open the database and migrate it if need be.

    A new database is refused where files of another one are stored, unless `beside_files` is true.
    """
    host = settings.host
    data_dir = host.data_dir
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreUnusable(
            f"the data folder {data_dir} cannot be made: {error.strerror}", hint="set KB_DATA_DIR"
        ) from None
    finish_switch(data_dir)
    remove_leftovers(data_dir)
    files = open_files(plugins.file_stores, host.files_url, data_dir)

    def begin() -> None:
        # A storage that does not answer must not keep a new database from being begun.
        with contextlib.suppress(FilesUnreachable):
            if not beside_files:
                require_no_files(files, data_dir, on_sqlite=host.database_url is None)

    database = data_dir / DATABASE
    # Looked at again after the files, which are stored only once there is a database.
    on_sqlite = host.database_url is None and not isinstance(files, NoFiles)
    if on_sqlite and is_empty(database) and files.keys() and is_empty(database):
        begin()
    with private_files():
        store = Store(open_engine(settings, plugins))
        try:
            for step in migrate(store, plugin_steps(plugins), plugins.fail, begin):
                log.info("migrated: %s", step)
        except BaseException:
            store.close()
            raise
    make_private(data_dir)
    return store


def plugin_steps(plugins: Plugins) -> dict[str, list[Migration]]:
    return by_plugin(
        (plugins.migrations.plugin_of(key), item) for key, item in plugins.migrations.items()
    )


def open_engine(settings: Settings, plugins: Plugins) -> Engine:
    """Open the database by the scheme of KB_DATABASE_URL, or the one in the data folder. No other store is imported."""
    url = settings.host.database_url.get_secret_value() if settings.host.database_url else None
    scheme = url.partition("://")[0].lower() if url else _DEFAULT_SCHEME
    store = next((item for item in plugins.stores if item.scheme == scheme), None)
    if store is None:
        raise _no_store(scheme, url, plugins)
    sections = plugins.sections_of(plugins.stores.plugin_of(store.name))
    section = settings.sections[sections[0].name] if sections else None
    location = StoreLocation(url, settings.host.data_dir, settings.host.busy_timeout)
    return resolve(store.target)(location, section)


def _no_store(scheme: str, url: str | None, plugins: Plugins) -> ConfigInvalid:
    schemes = [item.scheme for item in plugins.stores if item.scheme != _DEFAULT_SCHEME]
    off = [info for info in plugins.infos if info.state == "disabled"]
    known = (
        f"; it may begin with {' or '.join(f'{other}://' for other in schemes)}" if schemes else ""
    )
    if url is None:
        message = "no database can be opened: no plugin provides a store for the data folder"
        hint = "install or enable a plugin that provides one" + (
            f", or set KB_DATABASE_URL{known}" if known else ""
        )
    else:
        message = (
            f"KB_DATABASE_URL begins with {scheme}://, for which no plugin provides a store{known}"
        )
        hint = "install or enable a plugin for it, or unset KB_DATABASE_URL to use the data folder"
    if owner := next(
        (info for info in off if info.name.startswith(scheme.removesuffix("ql"))), None
    ):
        hint = f"the plugin {owner.name} is switched off: kb plugins enable {plugins.handle(owner)}"
    return ConfigInvalid(message, hint=hint)
