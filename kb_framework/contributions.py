"""What the host contributes itself: commands, permissions, a service and operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb_framework import api

if TYPE_CHECKING:
    from kb_framework.administration import PluginList, PluginState, SettingList, SwitchIn
    from kb_framework.api.models import Body
    from kb_framework.system import WireIn


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
        "kb_framework.edges.cli.config_commands:config",
        "Show every setting and where it came from.",
        "Engine",
    ),
    api.Command(
        "config set",
        "kb_framework.edges.cli.config_commands:set_config",
        "Keep a setting in kb.toml.",
        "Engine",
    ),
    api.Command(
        "config unset",
        "kb_framework.edges.cli.config_commands:unset_config",
        "Remove a setting from kb.toml.",
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

HOST_SERVICES = (
    api.Service("system", "kb_framework.system:SystemService"),
    api.Service("administration", "kb_framework.administration:AdministrationService"),
)

_VIEW, _OPERATE = "engine.view", "engine.operate"
_ADMINISTRATION = "kb_framework.administration"
_OBJECT = "builtins:dict"

HEALTH: api.Operation[Body, dict[str, Any]] = api.Operation(
    "health",
    "system.health",
    _VIEW,
    api.Http("GET", "/health"),
    output=_OBJECT,
    help="Return whether the engine is well: version, plugins that failed, counts.",
)

SCHEMA: api.Operation[Body, dict[str, Any]] = api.Operation(
    "schema",
    "system.schema",
    _VIEW,
    api.Http("GET", "/schema"),
    output=_OBJECT,
    help=(
        "Return version, capabilities, error codes, models, filters, mutation kinds, counts, "
        "and the JSON Schema of every wire object."
    ),
    command=api.Command(
        "schema",
        help="Show version, capabilities and schemas.",
        group="Engine",
        render="kb_framework.edges.cli.host_commands:schema",
        examples=("kb schema --json",),
    ),
)

LIST_WIRE: api.Operation[Body, dict[str, Any]] = api.Operation(
    "list_wire",
    "system.wire_names",
    _VIEW,
    api.Http("GET", "/wire"),
    output=_OBJECT,
    help="List the names of all wire objects, each with a JSON Schema at `/wire/{name}`.",
)

GET_WIRE: api.Operation[WireIn, dict[str, Any]] = api.Operation(
    "get_wire",
    "system.wire_object",
    _VIEW,
    api.Http("GET", "/wire/{name:str}"),
    input="kb_framework.system:WireIn",
    output=_OBJECT,
    help="Return the JSON Schema of one wire object, complete in itself: `search_response.v1`, or a model of the API.",
)

LIST_PLUGINS: api.Operation[Body, PluginList] = api.Operation(
    "list_plugins",
    "administration.list_plugins",
    _OPERATE,
    api.Http("GET", "/plugins"),
    output=f"{_ADMINISTRATION}:PluginList",
    help="List plugins: version, state, what each contributes, and why one failed.",
)

SET_PLUGIN: api.Operation[SwitchIn, PluginState] = api.Operation(
    "set_plugin",
    "administration.set_plugin",
    _OPERATE,
    api.Http("PUT", "/plugins/{name:str}"),
    input=f"{_ADMINISTRATION}:SwitchIn",
    output=f"{_ADMINISTRATION}:PluginState",
    help="Switch a plugin off or on. It takes effect when the engine starts again.",
)

LIST_SETTINGS: api.Operation[Body, SettingList] = api.Operation(
    "list_settings",
    "administration.list_settings",
    _OPERATE,
    api.Http("GET", "/settings"),
    output=f"{_ADMINISTRATION}:SettingList",
    help="List every setting, its value and where it came from; secrets are masked.",
)

HOST_OPERATIONS = (HEALTH, SCHEMA, LIST_WIRE, GET_WIRE, LIST_PLUGINS, SET_PLUGIN, LIST_SETTINGS)
