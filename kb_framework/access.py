"""Who asks: the rule that holds whatever plugins authenticate.

Once a key was made, a request that no plugin authenticates is refused, also while the plugin that made the key is
switched off. Before that it comes from the local person, whom the HTTP edge recognises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb_framework.api import DEFAULT_ORGANIZATION, Actor, Credentials
from kb_framework.errors import Unauthorized

if TYPE_CHECKING:
    from kb_framework.plugins import Plugins
    from kb_framework.storage.store import Store, Tx

# The access plugin's table of keys. A row stays when its key is revoked.
_KEYS = sa.table("api_keys", sa.column("id"))


class Access:
    def __init__(self, store: Store, plugins: Plugins) -> None:
        self._store = store
        self._plugins = plugins
        self._on = False

    def is_on(self) -> bool:
        """Return whether a key was ever made. Revoking the last key does not change it."""
        return self._on or self._store.look(DEFAULT_ORGANIZATION, self._any_key)

    def actor(self, credentials: Credentials) -> Actor | None:
        """Return the actor that a plugin recognises; None for the local person, where no key was ever made."""

        def recognised(tx: Tx) -> tuple[Actor | None, bool]:
            found = self._plugins.authenticate(credentials, tx)
            return found, found is None and self._any_key(tx)

        found, refused = self._store.look(DEFAULT_ORGANIZATION, recognised)
        if refused and credentials.key is None:
            raise Unauthorized("a key is needed", hint="send it as: Authorization: Bearer KEY")
        if found is None and credentials.key is not None:
            raise Unauthorized(
                "no active plugin recognises this key",
                hint="kb plugins shows which plugins are switched off",
            )
        return found

    def used(self, times: Mapping[str, str]) -> None:
        """Tell plugins when keys were last used."""
        if self._plugins.notes_uses:
            with self._store.write(queue="keys used") as tx:
                self._plugins.keys_used(times, tx)

    def _any_key(self, tx: Tx) -> bool:
        if not self._on and sa.inspect(tx.connection).has_table(_KEYS.name):
            self._on = tx.execute(sa.select(_KEYS.c.id).limit(1)).first() is not None
        return self._on
