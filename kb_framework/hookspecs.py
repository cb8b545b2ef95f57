"""Every hook with its whole contract: start reading here.

Two kinds. A *registration* hook is asked once, at start, and returns frozen descriptions; names are unique across plugins
and a clash is an error that names both. An *in-flight* hook is called while an operation runs.
Implementations may leave out parameters they do not need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select

    from kb_framework import api
    from kb_framework.columns import Candidates
    from kb_framework.plugins import Plugins
    from kb_framework.settings import Settings
    from kb_framework.store.store import Tx

PROJECT = "kb_framework"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

# Registration


@hookspec
def kb_settings() -> Iterable[api.SettingsSection]:  # type: ignore[empty-body]
    """Declare the plugin's settings.

    Called once at start. Return sections; each is a model whose fields are read as `KB_<SECTION>_<FIELD>`, from `.env` and
    from the table `[section]` of the TOML file, and shown by `kb config`. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_settings():
        return [api.SettingsSection("weather", "kb_weather.settings:WeatherSettings")]
    ```
    """


@hookspec
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


@hookspec
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


@hookspec
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


@hookspec
def kb_routes(plugins: Plugins) -> Iterable[api.Routes]:  # type: ignore[empty-body]
    """Declare HTTP routes, mounted under `/api/v1`.

    Called at start, after the filters and kinds of all plugins are known. Return handlers; a path that two plugins claim is
    a clash. With `under`, the first words of all their paths, they are imported only where one of these is asked for. With
    `direct`, routes that do nothing but ask a service, a command in the engine's own process asks it without HTTP. An
    exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_routes():
        return [api.Routes("weather", "kb_weather.routes:handlers", under=("weather",))]
    ```
    """


@hookspec
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


@hookspec
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


@hookspec
def kb_client_methods(plugins: Plugins) -> Iterable[api.ClientMethod]:  # type: ignore[empty-body]
    """Declare methods of the engine client, shared by commands, tools and scripts.

    Called at start. Return methods: `client.weather(city="Oslo")` calls the target with the client first. An exception marks the
    plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_client_methods():
        return [api.ClientMethod("weather", "kb_weather.client:weather")]
    ```
    """


@hookspec
def kb_capabilities() -> Mapping[str, bool]:  # type: ignore[empty-body]
    """Say what this engine can do, for `GET /api/v1/schema` and `kb schema`.

    Called at start. Return names with True or False. An exception marks the plugin as failed.

    ```python
    from kb_framework import hookimpl

    @hookimpl
    def kb_capabilities():
        return {"weather": True}
    ```
    """


@hookspec
def kb_selection_filters() -> Iterable[api.SelectionFilter]:  # type: ignore[empty-body]
    """Declare filters on documents, or on chunks.

    Called at start. Return filters; each becomes a field of every selection body, a flag of every bulk command, a parameter
    of every bulk tool, and part of previews and job records. One with `over="chunks"` is offered only where chunks are
    selected. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_selection_filters():
        return [api.SelectionFilter("city", "kb_weather.filters:city", help="Only documents about this city.")]
    ```
    """


@hookspec
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


@hookspec
def kb_retrievers() -> Iterable[api.Retriever]:  # type: ignore[empty-body]
    """Declare ways of finding chunks.

    Called at start. Return retrievers; each selects from what `kb_framework.store.chunks.allowed_chunks(query, tx)` selects, and
    the host drops whatever else it gives. One that raises while searching is reported as degraded and the others answer. An
    exception here marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_retrievers():
        return [api.Retriever("radar", "kb_weather.retriever:RadarRetriever")]
    ```
    """


@hookspec
def kb_rerankers() -> Iterable[api.Reranker]:  # type: ignore[empty-body]
    """Declare ways of ordering the best hits anew; `KB_SEARCH_RERANKER` chooses one by name.

    Called at start. Return rerankers; the chosen one is given the best hits of each search that fused several lists, and
    answers with the same hits in a better order. What it leaves out follows in the former order, what it adds is ignored. One
    that raises while searching is reported as degraded and the order stays as it was. An exception here marks the plugin as
    failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_rerankers():
        return [api.Reranker("newest", "kb_weather.reranker:NewestFirst")]
    ```
    """


@hookspec
def kb_embedders() -> Iterable[api.Embedder]:  # type: ignore[empty-body]
    """Declare embedding models; `KB_EMBEDDER` chooses one by name.

    Called at start. Return embedders; the model is loaded when something is first embedded. An exception marks the
    plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_embedders():
        return [api.Embedder("clouds", "kb_weather.embedder:Clouds")]
    ```
    """


@hookspec
def kb_extractors() -> Iterable[api.Extractor]:  # type: ignore[empty-body]
    """Declare readers of file formats.

    Called at start. Return extractors; the function turns bytes into text or raises `ExtractionFailed` with a reason
    for the file's job. An exception here marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_extractors():
        return [api.Extractor("grib", "kb_weather.grib:extract", media="application/x-grib", suffixes=(".grib",))]
    ```
    """


@hookspec
def kb_chunkers() -> Iterable[api.Chunker]:  # type: ignore[empty-body]
    """Declare ways of cutting text into chunks; `KB_CHUNKER` chooses one by name.

    Called at start. Return chunkers. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_chunkers():
        return [api.Chunker("hourly", "kb_weather.chunker:hourly")]
    ```
    """


@hookspec
def kb_export_tables() -> Iterable[api.ExportTable]:  # type: ignore[empty-body]
    """Declare tables that `kb export` writes and `kb import` reads back, beside documents and chunks.

    Called at start. Return tables; columns that a plugin adds to `documents` and `chunks` are carried without asking. On import
    a row whose key is there already is left as it is. An exception marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_export_tables():
        return [api.ExportTable("readings", table="weather_readings", key="uuid")]
    ```
    """


@hookspec
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


@hookspec
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


@hookspec
def kb_generators() -> Iterable[api.Generator]:  # type: ignore[empty-body]
    """Declare models that turn an assembled context into an answer; `KB_KNOWLEDGE_GENERATOR` chooses one by name.

    Called at start. Return generators; one is built when a question is first answered with it. An exception marks the plugin
    as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_generators():
        return [api.Generator("oracle", "kb_weather.oracle:Oracle")]
    ```
    """


@hookspec
def kb_research_sources() -> Iterable[api.ResearchSource]:  # type: ignore[empty-body]
    """Declare places beyond the store that research searches.

    Called at start. Return sources; one is built when research first searches, and asked with every search. One that raises
    while searching is reported and the others answer. An exception here marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_research_sources():
        return [api.ResearchSource("almanac", "kb_weather.almanac:Almanac")]
    ```
    """


# In flight


@hookspec
def kb_narrow_selection(selection: api.Selection, actor: api.Actor, purpose: str, tx: Tx) -> ColumnElement[bool] | None:
    """Take documents out of every selection, asked for or not.

    Called when a selection becomes SQL (`purpose` is "mutation"), and when documents are listed or shown ("read"). Return a
    condition over `documents`, or None. All answers are combined with AND: a plugin can only take away. An exception stops
    the operation.

    ```python
    from kb_framework import hookimpl
    from kb_framework.store.tables import documents

    @hookimpl
    def kb_narrow_selection(purpose):
        return documents.c.doc_type != "secret"
    ```
    """


@hookspec
def kb_guard_mutation(plan: api.Plan, tx: Tx) -> Iterable[api.Objection]:  # type: ignore[empty-body]
    """Object to a mutation, or to single documents or chunks of it.

    Called inside the write transaction, on the frozen plan, every guard every time. Return objections: one with a document's
    id counts that document (where the kind acts on chunks: its chunks) as failed and lets the rest go through, one without an
    id refuses the plan. `plan.documents` are the documents concerned whatever the kind acts on. An exception refuses the plan.

    ```python
    import sqlalchemy as sa
    from kb_framework import api, hookimpl
    from kb_framework.store.tables import documents

    @hookimpl
    def kb_guard_mutation(plan, tx):
        secret = sa.select(documents.c.id).where(documents.c.id.in_(plan.documents), documents.c.doc_type == "secret")
        return [api.Objection("the document is secret", id) for (id,) in tx.execute(secret)]
    ```
    """


@hookspec(firstresult=True)
def kb_apply_mutation(plan: api.Plan, selected: Select, tx: Tx) -> bool | None:
    """Apply a mutation, or wrap the application.

    Called inside the write transaction and a savepoint, with the documents (or chunks, by number) that no guard objected to
    or, where applying to all of them failed, with parts of them. Return True when it is done; None leaves it to the host,
    which calls the kind's `apply`. Open to wrappers. An exception rolls those documents or chunks back.

    ```python
    from kb_framework import hookimpl

    @hookimpl(wrapper=True)
    def kb_apply_mutation(plan):
        done = yield
        return done
    ```
    """


@hookspec
def kb_documents_changed(changes: api.Changes, tx: Tx) -> None:
    """Follow what happened to documents, in the same transaction.

    Called after documents were added or a mutation was applied to them or to their chunks (`changes.chunks`), before the
    commit. An exception rolls everything back.

    ```python
    from kb_framework import hookimpl

    @hookimpl
    def kb_documents_changed(changes, tx):
        assert changes.count >= 0
    ```
    """


@hookspec
def kb_mutation_applied(result: api.MutationResult, services: Mapping[str, Any]) -> None:
    """Follow a mutation after its commit: files, notifications.

    Called once per mutation, plugin by plugin. An exception is logged and reported, and changes nothing.

    ```python
    from kb_framework import hookimpl

    @hookimpl
    def kb_mutation_applied(result):
        assert result.matched == result.succeeded + result.failed
    ```
    """


@hookspec
def kb_narrow_retrieval(query: api.RetrievalQuery, actor: api.Actor, purpose: str, tx: Tx) -> ColumnElement[bool] | None:
    """Take chunks out of every search, asked for or not.

    Called before retrievers run. Return a condition over `documents` and `chunks`, or None: without any condition a search can
    take a faster way. All answers are combined with AND. An exception stops the search.

    ```python
    from kb_framework import hookimpl
    from kb_framework.store.tables import documents

    @hookimpl
    def kb_narrow_retrieval(purpose):
        return documents.c.doc_type != "secret"
    ```
    """


@hookspec(firstresult=True)
def kb_fuse_hits(query: api.RetrievalQuery, lists: Mapping[str, list[api.Candidate]], tx: Tx) -> list[api.Hit] | None:
    """Make one ranking of the retrievers' lists.

    Called once per search with at least two lists. The first plugin that answers decides; None passes on. Return hits, best
    first. An exception stops the search.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_fuse_hits(lists):
        best = max(lists.values(), key=len)
        return [api.Hit(c.chunk, c.score, {}, {}) for c in best]
    ```
    """


@hookspec(firstresult=True)
def kb_fuse_many(
    queries: Sequence[api.RetrievalQuery], lists: Sequence[Mapping[str, Candidates]], tx: Tx
) -> list[Sequence[api.Hit]] | None:
    """Make a ranking for each of several searches at once.

    Called instead of `kb_fuse_hits`, for one search or for many, if the plugin that would be asked first for that has this hook
    too. Each item of `lists` is what `kb_fuse_hits` is given, but by columns (`kb_framework.columns`), which numpy can compute
    with. Return as many rankings as there are queries, each chunk once, the same that `kb_fuse_hits` returns; `Hits` are such
    rankings by columns. After None each search is fused alone. An exception is reported, and each search is fused alone.

    ```python
    from kb_framework import hookimpl
    from kb_framework.columns import Hits

    @hookimpl
    def kb_fuse_many(lists):
        return [Hits.alone(*max(found.items(), key=lambda item: len(item[1]))) for found in lists]
    ```
    """


@hookspec
def kb_gate_hits(
    query: api.RetrievalQuery, hits: list[api.ScoredChunk], services: Mapping[str, Any], tx: Tx
) -> Iterable[api.Rejection]:  # type: ignore[empty-body]
    """Reject hits that are not relevant to the question, before a context is made of them.

    Called once per context with the best hits, best first, every gate every time. Return rejections; what any gate rejects is
    left out, and its reason is kept with the snapshot. An exception stops the assembly.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_gate_hits(hits):
        return [api.Rejection(hit.chunk, "too short to say anything") for hit in hits if len(hit.content) < 10]
    ```
    """


@hookspec
def kb_serving(settings: Settings, services: Mapping[str, Any]) -> None:
    """Follow the start of `kb serve`.

    Called once per start, plugin by plugin, with the settings in force, when everything is open and before the first request
    is answered. An exception is logged and reported, and the engine serves all the same.

    ```python
    from kb_framework import hookimpl

    @hookimpl
    def kb_serving(settings):
        assert settings.host.data_dir.is_dir()
    ```
    """
