"""The tour: add a sample folder, search it, preview a bulk change, and say how to go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kb_framework.api.cli import Cli
from kb_framework.errors import EngineError, InvalidInput

SAMPLE = Path(__file__).parent / "sample"
TAG = "quickstart"
QUESTION = "how often are access keys rotated"


def quickstart(*, cli: Cli) -> None:
    """Add a small sample folder, search it, preview a bulk change, and show what to do next.

    Everything happens offline in your data folder. The sample is tagged "quickstart":
    kb bulk-remove --tags quickstart --force removes it again.

    Examples
    --------
    kb quickstart
    """
    for needed in ("add_file", "search", "bulk_preview"):
        if not cli.plugins.has_method(needed):
            raise InvalidInput(
                f"the tour needs {needed!r}, which a switched-off plugin provides",
                hint="see kb plugins",
            )
    added = [_add(cli, path) for path in sorted(SAMPLE.rglob("*.md"))]
    found = cli.engine.search(QUESTION, k=3, tags=[TAG])
    preview = cli.engine.bulk_preview("delete", tags=[TAG, "draft"])
    if cli.json:
        cli.result(
            {"added": added, "search": found, "preview": preview, "mcp": _mcp_configuration(cli)}
        )
        return
    _tell(cli, added, found, preview)


def _add(cli: Cli, path: Path) -> dict[str, Any]:
    tags = [TAG, "draft"] if "draft" in path.name else [TAG]
    try:
        added = cli.engine.add_file(
            path.name, path.read_bytes(), path=f"sample/{path.name}", tags=tags
        )
    except EngineError as error:
        raise InvalidInput(f"{path.name} could not be added: {error.message}") from error
    return {
        "id": added["document"]["id"],
        "title": added["document"]["title"],
        "unchanged": added["duplicate"],
    }


def _tell(
    cli: Cli, added: list[dict[str, Any]], found: dict[str, Any], preview: dict[str, Any]
) -> None:
    new = sum(not item["unchanged"] for item in added)
    cli.print(f"1. kb add sample: {new} added, {len(added) - new} already there")
    for item in added:
        cli.print(f"     {item['id']}  {item['title']}")
    cli.print(f'2. kb search "{QUESTION}"')
    for hit in found["hits"]:
        cli.print(f"     {hit['title']}  ({hit['citation']})")
        cli.print(f"       {' '.join(hit['snippet'].split())[:150]}")
    cli.print(
        f"3. kb bulk-remove --tags {TAG},draft would delete {preview['matched']} of {preview['total']} documents:"
    )
    for item in preview["sample"]:
        cli.print(f"     {item['id']}  {item['title']}")
    cli.print(
        "   Nothing was deleted: it asks first, and refuses above a share of all documents unless forced."
    )
    cli.print("\nWhat next:")
    cli.print("  kb add ~/notes          your own folder")
    cli.print("  kb serve                pages, HTTP API and MCP on http://127.0.0.1:8420")
    cli.print("  an agent                add this to your MCP client's configuration:")
    for line in json.dumps(_mcp_configuration(cli), indent=2).splitlines():
        cli.print(f"    {line}")
    if cli.plugins.commands.get("console") is not None:
        running = cli.engine.url
        cli.print(
            f"\nSee it in a browser: {running}/console (kb console opens it)"
            if running
            else "\nSee it in a browser: kb serve, and in another terminal kb console"
        )


def _mcp_configuration(cli: Cli) -> dict[str, Any]:
    return {
        "mcpServers": {
            "kb": {
                "command": "kb",
                "args": ["mcp"],
                "env": {"KB_DATA_DIR": str(cli.bootstrap.data_dir.resolve())},
            }
        }
    }
