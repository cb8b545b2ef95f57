"""The entry point of the legal hold plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kb_framework import api, hookimpl

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

    from kb_framework.store.store import Tx


@hookimpl
def kb_settings() -> list[api.SettingsSection]:
    return [api.SettingsSection("legalhold", "kb_legalhold.settings:LegalHoldSettings")]


@hookimpl
def kb_migrations() -> list[api.Migration]:
    return [
        api.Migration(1, "legal_holds", "kb_legalhold.migrations:create_holds"),
        api.Migration(2, "legal_hold_log", "kb_legalhold.migrations:create_log"),
    ]


@hookimpl
def kb_permissions() -> list[api.Permission]:
    return [
        api.Permission("legalhold.view", "See the holds in force.", "viewer"),
        api.Permission("legalhold.place", "Put documents on hold.", "editor"),
        api.Permission("legalhold.release", "Release documents from hold."),
    ]


@hookimpl
def kb_services() -> list[api.Service]:
    return [api.Service("legalhold", "kb_legalhold.service:LegalHoldService")]


@hookimpl
def kb_routes() -> list[api.Routes]:
    return [api.Routes("legalhold", "kb_legalhold.routes:handlers")]


@hookimpl
def kb_commands() -> list[api.Command]:
    def command(name: str, function: str, help: str) -> api.Command:
        return api.Command(name, f"kb_legalhold.commands:{function}", help=help, group="Legal hold")

    return [
        command("hold place", "place", "Put documents on hold."),
        command("hold release", "release", "Release documents from hold."),
        command("hold list", "list_holds", "List the holds in force."),
    ]


@hookimpl
def kb_tools() -> list[api.Tool]:
    return [
        api.Tool(
            "kb_hold_list",
            "kb_legalhold.tools:list_holds",
            "List legal holds",
            "read",
            read_only=True,
            idempotent=True,
            permission="legalhold.view",
        ),
        api.Tool(
            "kb_hold_place",
            "kb_legalhold.tools:place",
            "Place a legal hold",
            "curate",
            idempotent=True,
            permission="legalhold.place",
        ),
    ]


@hookimpl
def kb_client_methods() -> list[api.ClientMethod]:
    return [api.ClientMethod(name, f"kb_legalhold.client:{name}") for name in ("list_holds", "place_hold", "release_hold")]


@hookimpl
def kb_capabilities() -> Mapping[str, bool]:
    return {"legal_hold": True}


@hookimpl
def kb_selection_filters() -> list[api.SelectionFilter]:
    return [
        api.SelectionFilter(
            "on_hold",
            "kb_legalhold.filters:on_hold",
            help="Selects documents that are on legal hold; false: those that are not.",
            flag="--on-hold",
        )
    ]


@hookimpl
def kb_narrow_selection(tx: Tx) -> ColumnElement[bool] | None:
    from kb_legalhold.filters import not_sealed

    return not_sealed(tx)


@hookimpl
def kb_narrow_retrieval(tx: Tx) -> ColumnElement[bool] | None:
    from kb_legalhold.filters import not_sealed

    return not_sealed(tx)


@hookimpl
def kb_guard_mutation(plan: api.Plan, tx: Tx) -> list[api.Objection]:
    from kb_legalhold.guard import objections

    return objections(plan, tx)


@hookimpl
def kb_documents_changed(changes: api.Changes, tx: Tx) -> None:
    from kb_legalhold.log import record_changes

    record_changes(changes, tx)
