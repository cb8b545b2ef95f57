"""The entry point of the maintenance plugin."""

from __future__ import annotations

from typing import Any

from kb_framework import api, hookimpl


@hookimpl
def kb_hookspecs() -> list[api.Hookspecs]:
    return [api.Hookspecs("kb_maintenance.hookspecs")]


@hookimpl
def kb_settings() -> list[api.SettingsSection]:
    return [api.SettingsSection("maintenance", "kb_maintenance.settings:MaintenanceSettings")]


@hookimpl
def kb_permissions() -> list[api.Permission]:
    return [
        api.Permission("maintenance.export", "Export the organization's documents."),
        api.Permission("maintenance.import", "Import an archive into the organization."),
    ]


@hookimpl
def kb_services() -> list[api.Service]:
    return [
        api.Service("doctor", "kb_maintenance.doctor:DoctorService"),
        api.Service("reindexing", "kb_maintenance.service:ReindexService", ("reindex",)),
        api.Service("backups", "kb_maintenance.backup:BackupService", ("backup",)),
        api.Service("exports", "kb_maintenance.exporting:ExportService", ("export",)),
        api.Service("imports", "kb_maintenance.importing:ImportService"),
    ]


@hookimpl
def kb_operations() -> list[api.Operation[Any, Any]]:
    from kb_maintenance.operations import OPERATIONS

    return OPERATIONS


@hookimpl
def kb_export_tables() -> list[api.ExportTable]:
    return [
        api.ExportTable(
            "jobs", table="jobs", key="uuid", adapt="kb_maintenance.importing:adapt_job"
        )
    ]


@hookimpl
def kb_commands() -> list[api.Command]:
    def command(name: str, function: str, group: str, help: str) -> api.Command:
        return api.Command(name, f"kb_maintenance.commands:{function}", help=help, group=group)

    return [
        api.Command(
            "doctor",
            "kb_maintenance.doctor_commands:doctor",
            "Check everything, and say what to do.",
            "Engine",
        ),
        command(
            "export",
            "export",
            "Documents",
            "Write documents, files, chunks, tags and jobs to one archive.",
        ),
        command(
            "import",
            "import_archive",
            "Documents",
            "Add what an archive holds and is not here yet.",
        ),
        command(
            "backup", "backup", "Engine", "Write a copy of everything, while others go on writing."
        ),
        command(
            "restore",
            "restore",
            "Engine",
            "Put a backup in the place of the data folder's content.",
        ),
        command(
            "migrate-store",
            "migrate_store",
            "Engine",
            "Copy a SQLite database into an empty PostgreSQL database.",
        ),
        command(
            "reindex",
            "reindex",
            "Engine",
            "Embed all chunks anew, or make the vector index smaller.",
        ),
    ]


@hookimpl
def kb_checks() -> list[api.Check]:
    return [
        api.Check("settings", "kb_maintenance.checks:SettingsCheck", rank=10),
        api.Check("disk", "kb_maintenance.checks:DiskCheck", rank=30),
        api.Check("plugins", "kb_maintenance.checks:PluginsCheck", rank=40),
        api.Check("database", "kb_maintenance.database:DatabaseCheck", rank=50),
        api.Check("side index", "kb_maintenance.side_index:SideIndexCheck", rank=70),
    ]
