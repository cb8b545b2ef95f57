"""The entry point of the legal hold plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb_framework import api, hookimpl

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

    from kb_framework.api.parts import Tx


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
    return [api.Service("legalhold", "kb_legalhold.service:LegalHoldService", ("legal_hold",))]


@hookimpl
def kb_operations() -> list[api.Operation[Any, Any]]:
    from kb_legalhold.operations import OPERATIONS

    return OPERATIONS


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


# The console may be switched off, and then nobody knows its hooks.
@hookimpl(optionalhook=True)
def kb_pages() -> list[api.Page]:
    return [
        api.Page(
            "legal_holds",
            "/legal-holds",
            "Legal holds",
            "Curate",
            operation="list_holds",
            template="kb_legalhold:console/holds.html",
        )
    ]


@hookimpl(optionalhook=True)
def kb_panels() -> list[api.Panel]:
    return [
        api.Panel(
            "legal_hold",
            "document",
            "Legal hold",
            "kb_legalhold.console:of_document",
            permission="legalhold.view",
        )
    ]


@hookimpl(optionalhook=True)
def kb_page_assets() -> list[api.PageAsset]:
    return [api.PageAsset("legal_hold", "kb_legalhold:console/holds.css")]


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
