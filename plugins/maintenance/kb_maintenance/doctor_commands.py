"""Command: doctor."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from kb_framework.api import Operation
from kb_framework.api.cli import Cli
from kb_framework.errors import DatabaseMissing, KBError
from kb_maintenance.operations import CHECK_ALL, REPAIR


def doctor(
    *,
    deep: Annotated[bool, Parameter(negative=())] = False,
    repair: Annotated[bool, Parameter(negative=())] = False,
    cli: Cli,
) -> int:
    """Check settings, plugins, database, full text, vectors and files. Exit 0 if all is well or only warnings, else 3.

    Each run compares another part of the stored files and chunks with their hashes; every file's size is always checked.

    Parameters
    ----------
    deep
        Compare all stored files and chunks with their hashes.
    repair
        Make anew what is derived from documents and chunks where it is wrong, say what was done, and check again.

    Examples
    --------
    kb doctor
    kb doctor --deep
    kb doctor --repair
    """
    done: list[str] = []
    try:
        if repair:
            done += _files_set_aside(cli)
        report = _repeated(cli, REPAIR, "repairing") if repair else {}
        done += report.get("repairs", [])
        if deep:
            report = _repeated(cli, CHECK_ALL, "checking")
        report = report or cli.engine.doctor()
    except KBError as error:
        report = {
            "status": "error",
            "checks": [{"name": "engine", "state": "error", "message": _with_hint(error)}],
        }
    if repair:
        report["repairs"] = done
    rows = [("repaired", "", sentence) for sentence in done]
    if repair and not rows and report["status"] != "error":
        rows = [("ok", "repair", "there was nothing to repair")]
    rows += [(check["state"], check["name"], check["message"]) for check in report["checks"]]
    cli.table(report, rows, ("state", "what", "finding"))
    return 3 if report["status"] == "error" else 0


def _with_hint(error: KBError) -> str:
    return f"{error.message}: {error.hint}" if error.hint else error.message


def _files_set_aside(cli: Cli) -> list[str]:
    """Set stored files aside where their database is missing, so that a new one can be made."""
    from kb_framework.api.files import open_files
    from kb_framework.api.opening import load_settings

    try:
        cli.engine  # noqa: B018 - it is opened here
    except DatabaseMissing:
        files_url = load_settings(cli.bootstrap).host.files_url
        files = open_files(cli.plugins.file_stores, files_url, cli.bootstrap.data_dir)
        keys = files.keys()
        folder = files.set_aside(keys)
        return [
            f"the database was missing: moved {len(keys)} stored files to {folder}; kb add reads them again from elsewhere"
        ]
    return []


def _repeated(cli: Cli, operation: Operation[Any, Any], doing: str) -> dict[str, Any]:
    with cli.counting(doing) as advance:
        while not (report := cli.engine.run(operation, {}))["finished"]:
            advance(report["done"], report["total"], f"{doing}: {report['what']}")
    return report
