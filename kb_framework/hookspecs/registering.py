"""Hooks that are called once, at start, and return frozen descriptions; names are unique across plugins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kb_framework import api
from kb_framework.api.hooks import registration

if TYPE_CHECKING:
    from kb_framework.api.parts import Plugins


@registration(api.Hookspecs, "module of hook specifications")
def kb_hookspecs() -> Iterable[api.Hookspecs]:  # type: ignore[empty-body]
    """Declare hooks that this plugin calls and others implement.

    Called first at start. Return modules whose functions are marked with `hookspec`, or with `registration(kind)` where
    implementations return descriptions; these are collected, checked and shown as those of the host. `plugins.registry(kind)`
    gives them, `plugins.ask(hook, …)` calls a hook of the other sort. While a plugin from outside is switched off, nobody knows
    its hooks: implement them with `@hookimpl(optionalhook=True)`. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_hookspecs():
        return [api.Hookspecs("kb_weather.hookspecs")]
    ```
    """


@registration(api.SettingsSection, "settings section")
def kb_settings() -> Iterable[api.SettingsSection]:  # type: ignore[empty-body]
    """Declare the plugin's settings.

    Called once at start. Return sections; each is a model whose fields are read as `KB_<SECTION>_<FIELD>` from the environment,
    and from the table `[section]` of the TOML file, and shown by `kb config`. Lists are comma-separated in a variable. Give
    every field a default: one without, not set, marks the plugin as failed. An exception
    does, too.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_settings():
        return [api.SettingsSection("weather", "kb_weather.settings:WeatherSettings")]
    ```
    """


@registration(api.Migration)
def kb_migrations() -> Iterable[api.Migration]:  # type: ignore[empty-body]
    """Declare the steps that bring a database to this plugin's schema.

    Called at start. Return them numbered from 1; each runs once per database, in order, under the write lock. A step never
    changes after its release. An exception rolls back what this plugin's steps did and marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_migrations():
        return [api.Migration(1, "readings", "kb_weather.migrations:create_readings")]
    ```
    """


@registration(api.Store)
def kb_stores() -> Iterable[api.Store]:  # type: ignore[empty-body]
    """Declare the kinds of databases that the plugin can open.

    Called at start. Return stores; the one whose `scheme` is that of KB_DATABASE_URL is opened, `sqlite` where none is set.
    The target, called as `target(location, settings)` with an `api.StoreLocation` and the plugin's settings, returns a
    `kb_framework.api.engine.Engine`. `kb_testing.stores.check_store` tests one. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_stores():
        return [api.Store("balloon", "balloon", "kb_weather.balloon:BalloonEngine")]
    ```
    """


@registration(api.Permission)
def kb_permissions() -> Iterable[api.Permission]:  # type: ignore[empty-body]
    """Declare what a key may be allowed to do, beyond the permissions that are there.

    Called at start. Return permissions; `role` is the least of viewer, editor and admin that has it. A route names the one it
    needs in its `opt`, a tool in its `permission`; roles are made of them. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_permissions():
        return [api.Permission("weather.view", "See the weather.", role="viewer")]
    ```
    """


@registration(api.Service)
def kb_services() -> Iterable[api.Service]:  # type: ignore[empty-body]
    """Declare classes that do the plugin's work, free of any web, command-line or MCP framework.

    Called at start. Return services; a class is imported and built when something first asks for it, and handlers receive it
    by its name. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_services():
        return [api.Service("weather", "kb_weather.service:WeatherService")]
    ```
    """


@registration(api.Operation)
def kb_operations(plugins: Plugins) -> Iterable[api.Operation[Any, Any]]:  # type: ignore[empty-body]
    """Declare operations: each is stated once and becomes a route, a client method, a command and a tool.

    Called at start, after the filters and kinds of all plugins are known. Return operations. Two with one name, route,
    command or tool are a clash. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_operations():
        return [
            api.Operation(
                "forecast",
                "kb_weather.forecast:forecast",
                "documents.read",
                api.Http("GET", "/weather/forecast"),
                help="Return the forecast.",
                command=api.Command("forecast", group="Search"),
                tool=api.Tool("kb_forecast", title="Forecast"),
            )
        ]
    ```
    """


@registration(api.Routes, "routes")
def kb_routes(plugins: Plugins) -> Iterable[api.Routes]:  # type: ignore[empty-body]
    """Declare HTTP routes, mounted under `/api/v1`.

    Called at start, after the filters and kinds of all plugins are known. Return handlers; a path that two plugins claim is
    a clash. Operations make their own routes: write one by hand only for a page, an upload, or an answer that streams. An
    exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_routes():
        return [api.Routes("weather", "kb_weather.routes:handlers")]
    ```
    """


@registration(api.Command)
def kb_commands(plugins: Plugins) -> Iterable[api.Command]:  # type: ignore[empty-body]
    """Declare commands of `kb`.

    Called at start, after the filters and kinds of all plugins are known. Return commands; the module is imported when the
    command runs, so give the help line here. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_commands():
        return [api.Command("weather", "kb_weather.commands:weather", help="Show the weather.", group="Search")]
    ```
    """


@registration(api.Tool)
def kb_tools(plugins: Plugins) -> Iterable[api.Tool]:  # type: ignore[empty-body]
    """Declare MCP tools.

    Called at start. Return tools; the function's parameters, but for the first, are the tool's; its docstring is what a
    model reads. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_tools():
        return [api.Tool("kb_weather", "kb_weather.tools:weather", "Weather", profile="read", read_only=True)]
    ```
    """


@registration(api.SelectionFilter)
def kb_selection_filters() -> Iterable[api.SelectionFilter]:  # type: ignore[empty-body]
    """Declare filters on documents, or on chunks.

    Called at start. Return filters; each becomes a field, a flag and a parameter of every change, search, list, count and
    export that selects documents, and part of views, previews and job records. One with `over="chunks"` is offered only
    where chunks are selected, unless it `lifts`. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_selection_filters():
        return [api.SelectionFilter("city", "kb_weather.filters:city", help="Only documents about this city.")]
    ```
    """


@registration(api.MutationKind)
def kb_mutation_kinds() -> Iterable[api.MutationKind]:  # type: ignore[empty-body]
    """Declare operations on a selection of documents, or with `over="chunks"` of chunks.

    Called at start. Return kinds. The host selects, freezes, guards, checks the threshold, applies, records the job and
    commits; the kind only says what changes. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_mutation_kinds():
        return [api.MutationKind("freeze", "kb_weather.mutations:Freeze", verb="freeze", help="Freeze documents.")]
    ```
    """


@registration(api.Retriever)
def kb_retrievers() -> Iterable[api.Retriever]:  # type: ignore[empty-body]
    """Declare ways of finding chunks.

    Called at start. Return retrievers; each selects from what `kb_framework.api.chunks.allowed_chunks(query, tx)`
    selects, and the host drops whatever else it gives. One that raises while searching, or returns anything but
    candidates, is reported as degraded and the others answer. An exception here marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_retrievers():
        return [api.Retriever("radar", "kb_weather.retriever:RadarRetriever")]
    ```
    """


@registration(api.Reranker)
def kb_rerankers() -> Iterable[api.Reranker]:  # type: ignore[empty-body]
    """Declare ways of ordering the best hits anew; `KB_SEARCH_RERANKER` chooses one by name.

    Called at start. Return rerankers; the chosen one is given the best hits of each search that fused several lists, and
    answers with the same hits in a better order. What it leaves out follows in the former order, what it adds is ignored. One
    that raises while searching, or returns anything but hits, is reported as degraded and the order stays as it was. An
    exception here marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_rerankers():
        return [api.Reranker("newest", "kb_weather.reranker:NewestFirst")]
    ```
    """


@registration(api.WireObject)
def kb_wire_objects() -> Iterable[api.WireObject]:  # type: ignore[empty-body]
    """Declare what the plugin sends under a name and a version of its own.

    Called at start. Return objects; the JSON Schema of each model is published at `/api/v1/wire/{name}` and by `kb schema`. A
    released version never changes: what is sent otherwise has another name. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_wire_objects():
        return [api.WireObject("weather_report.v1", "kb_weather.models:Report")]
    ```
    """


@registration(api.ChunkColumn)
def kb_chunk_columns() -> Iterable[api.ChunkColumn]:  # type: ignore[empty-body]
    """Declare columns that the plugin's migration added to `chunks`.

    Called at start. Return columns; whoever reads a chunk, and whoever searches, is given those that say so, under their name,
    as long as the plugin is switched on. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_chunk_columns():
        return [api.ChunkColumn("weather", type="text", in_hits=True)]
    ```
    """


@registration(api.FileStore)
def kb_file_stores() -> Iterable[api.FileStore]:  # type: ignore[empty-body]
    """Declare places for stored files; the scheme of `KB_FILES_URL` chooses one.

    Called at start. Return file stores. The target of the chosen one is called with the address and the data folder
    when a knowledge base is opened, and returns an object with the methods of `kb_framework.api.parts.Files`. Two stores
    for one scheme are refused when an address has that scheme. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_file_stores():
        return [api.FileStore("balloon", "balloon", "kb_weather.balloon:BalloonFiles")]
    ```
    """
