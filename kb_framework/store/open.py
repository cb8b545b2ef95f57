"""Which store: the one place that chooses."""

from __future__ import annotations

from kb_framework.errors import StoreUnusable
from kb_framework.settings import HostSettings
from kb_framework.store.backend import Backend


def open_backend(settings: HostSettings) -> Backend:
    """PostgreSQL where a database is named, else a SQLite file in the data folder. The other is never imported."""
    if settings.database_url is None:
        from kb_framework.store.sqlite import SqliteBackend

        return SqliteBackend(settings.data_dir / "kb.sqlite", settings.busy_timeout)
    try:
        from kb_framework.store.postgres.backend import PostgresBackend
    except ImportError as error:
        raise StoreUnusable(
            f"KB_DATABASE_URL needs a driver that is not installed ({error.name})",
            hint="pip install 'kb-framework[postgres]'",
        ) from None
    url = settings.database_url.get_secret_value()
    replica = settings.database_replica_url.get_secret_value() if settings.database_replica_url else None
    timeouts = settings.busy_timeout, settings.database_statement_timeout
    return PostgresBackend(url, *timeouts, settings.database_pool_size, replica)
