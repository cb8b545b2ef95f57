"""Settings of the PostgreSQL store, beside KB_DATABASE_URL."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from kb_framework.api.parts import HostSettings
from kb_framework.api.settings import DatabaseUrl, Number, Section, WholeNumber, valid_database_url


def _postgres_url(value: Any) -> Any:
    if isinstance(value, str) and value and not value.startswith(("postgresql://", "postgres://")):
        raise ValueError("it must begin with postgresql://")
    return valid_database_url(value)


class PostgresSettings(Section):
    replica_url: Annotated[DatabaseUrl | None, BeforeValidator(_postgres_url)] = Field(
        None,
        description="postgresql://… of a read replica that answers searches; by default the database itself does.",
    )
    pool_size: WholeNumber = Field(
        8,
        ge=1,
        le=1000,
        description="Connections to PostgreSQL that are kept, for reading and for writing each.",
    )
    statement_timeout: Number = Field(
        600.0,
        gt=0,
        le=86_400,
        description="Seconds after which PostgreSQL gives up on a statement.",
    )

    def misfit(self, host: HostSettings) -> tuple[str, str] | None:
        if self.replica_url is not None and host.database_url is None:
            return (
                "replica_url",
                "there is nothing it could be a replica of: set KB_DATABASE_URL as well",
            )
        return None
