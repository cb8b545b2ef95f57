"""The entry point of the postgres plugin: the store for databases named by KB_DATABASE_URL."""

from __future__ import annotations

from kb_framework import api, hookimpl


@hookimpl
def kb_stores() -> list[api.Store]:
    target = "kb_postgres.opening:open_engine"
    return [
        api.Store("postgresql", "postgresql", target),
        api.Store("postgres", "postgres", target),
    ]


@hookimpl
def kb_settings() -> list[api.SettingsSection]:
    return [api.SettingsSection("database", "kb_postgres.settings:PostgresSettings")]


@hookimpl
def kb_commands() -> list[api.Command]:
    return [
        api.Command(
            "db partition",
            "kb_postgres.commands:partition",
            "Divide large tables of PostgreSQL.",
            "Engine",
            about="Change how the database stores its tables.",
        )
    ]
