"""Opening a PostgreSQL database. The driver is imported only here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_framework.api import StoreLocation
from kb_framework.api.messages import install_command
from kb_framework.errors import StoreUnusable

if TYPE_CHECKING:
    from kb_postgres.engine import PostgresEngine
    from kb_postgres.settings import PostgresSettings


def open_engine(location: StoreLocation, settings: PostgresSettings) -> PostgresEngine:
    try:
        from kb_postgres.engine import PostgresEngine
    except ImportError as error:
        raise StoreUnusable(
            f"KB_DATABASE_URL needs a driver that is not installed ({error.name})",
            hint=install_command("postgres"),
        ) from None
    assert location.url is not None
    replica = settings.replica_url.get_secret_value() if settings.replica_url else None
    return PostgresEngine(
        location.url,
        location.busy_timeout,
        settings.statement_timeout,
        settings.pool_size,
        replica,
    )
