"""What the host contributes itself: commands and permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_framework import api

if TYPE_CHECKING:
    pass


HOST_COMMANDS = (
    api.Command(
        "serve",
        "kb_framework.edges.cli.host_commands:serve",
        "Serve the knowledge base over HTTP.",
        "Engine",
    ),
    api.Command(
        "mcp",
        "kb_framework.edges.cli.host_commands:mcp",
        "Serve MCP tools over standard input and output.",
        "Engine",
    ),
    api.Command(
        "config",
        "kb_framework.edges.cli.host_commands:config",
        "Show every setting and where it came from.",
        "Engine",
    ),
    api.Command(
        "config set",
        "kb_framework.edges.cli.host_commands:set_config",
        "Keep a setting in kb.toml.",
        "Engine",
    ),
    api.Command(
        "config unset",
        "kb_framework.edges.cli.host_commands:unset_config",
        "Remove a setting from kb.toml.",
        "Engine",
    ),
    api.Command(
        "schema",
        "kb_framework.edges.cli.host_commands:schema",
        "Show version, capabilities and schemas.",
        "Engine",
    ),
    api.Command(
        "plugins",
        "kb_framework.edges.cli.host_commands:plugins",
        "List plugins and what they contribute.",
        "Engine",
    ),
    api.Command(
        "plugins check",
        "kb_framework.edges.cli.host_commands:check",
        "Check everything that plugins declare.",
        "Engine",
    ),
    api.Command(
        "plugins disable",
        "kb_framework.edges.cli.host_commands:disable",
        "Switch a plugin off.",
        "Engine",
    ),
    api.Command(
        "plugins enable",
        "kb_framework.edges.cli.host_commands:enable",
        "Switch a plugin on again.",
        "Engine",
    ),
)


HOST_PERMISSIONS = (
    api.Permission("engine.view", "See health, version and schemas.", "viewer"),
    api.Permission(
        "engine.operate", "Check, repair, back up and reindex the whole engine.", engine=True
    ),
    api.Permission("documents.read", "Read and search documents.", "viewer"),
    api.Permission("documents.write", "Add documents, and change their fields and tags.", "editor"),
    api.Permission("documents.delete", "Delete documents for good."),
)
