"""Opening the store that the settings choose."""

from __future__ import annotations

from kb_framework.api import StoreLocation, resolve
from kb_framework.errors import ConfigInvalid
from kb_framework.plugins import Plugins
from kb_framework.settings_loading import Settings
from kb_framework.storage.contract import Engine

# The scheme of a database in the data folder.
_DEFAULT = "sqlite"


def open_engine(settings: Settings, plugins: Plugins) -> Engine:
    """Open the database by the scheme of KB_DATABASE_URL, or the one in the data folder. No other store is imported."""
    url = settings.host.database_url.get_secret_value() if settings.host.database_url else None
    scheme = url.partition("://")[0].lower() if url else _DEFAULT
    store = next((item for item in plugins.stores if item.scheme == scheme), None)
    if store is None:
        raise _no_store(scheme, url, plugins)
    sections = plugins.sections_of(plugins.stores.plugin_of(store.name))
    section = settings.sections[sections[0].name] if sections else None
    location = StoreLocation(url, settings.host.data_dir, settings.host.busy_timeout)
    return resolve(store.target)(location, section)


def _no_store(scheme: str, url: str | None, plugins: Plugins) -> ConfigInvalid:
    schemes = [item.scheme for item in plugins.stores if item.scheme != _DEFAULT]
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
