"""The entry point of the knowledge plugin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kb_framework import api, hookimpl

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select

    from kb_framework.store.store import Tx


@hookimpl
def kb_settings() -> list[api.SettingsSection]:
    return [api.SettingsSection("knowledge", "kb_knowledge.settings:KnowledgeSettings")]


@hookimpl
def kb_migrations() -> list[api.Migration]:
    return [
        api.Migration(1, "curation", "kb_knowledge.migrations:add_curation"),
        api.Migration(2, "events", "kb_knowledge.migrations:create_events"),
        api.Migration(3, "snapshots", "kb_knowledge.migrations:create_snapshots"),
    ]


@hookimpl
def kb_chunk_columns() -> list[api.ChunkColumn]:
    return [
        api.ChunkColumn("is_active", type="boolean"),
        api.ChunkColumn("chunk_kind", in_hits=True),
        api.ChunkColumn("usage_policy", in_hits=True),
    ]


@hookimpl
def kb_permissions() -> list[api.Permission]:
    return [
        api.Permission("knowledge.view", "See chunks, their kinds, policies and events, and make contexts of them.", "viewer"),
        api.Permission("knowledge.edit", "Change chunks.", "editor"),
        api.Permission("knowledge.deactivate", "Deactivate and activate chunks.", "editor"),
        api.Permission("knowledge.reclassify", "Change the kind of chunks.", "editor"),
        api.Permission("knowledge.set_policy", "Change how chunks may be used.", "editor"),
        api.Permission("knowledge.delete_hard", "Delete chunks for good."),
    ]


@hookimpl
def kb_services() -> list[api.Service]:
    return [
        api.Service("knowledge", "kb_knowledge.service:KnowledgeService"),
        api.Service("knowledge_events", "kb_knowledge.events:EventsService"),
        api.Service("knowledge_left_over", "kb_knowledge.carry:LeftOverService"),
        api.Service("knowledge_adding", "kb_knowledge.adding:AddingService"),
        api.Service("knowledge_gate", "kb_knowledge.gate:Gate"),
        api.Service("knowledge_context", "kb_knowledge.context:ContextService"),
        api.Service("knowledge_snapshots", "kb_knowledge.snapshots:SnapshotsService"),
        api.Service("knowledge_generation", "kb_knowledge.generation:GenerationService"),
    ]


@hookimpl
def kb_routes() -> list[api.Routes]:
    return [
        api.Routes("knowledge", "kb_knowledge.routes:handlers", under=("knowledge",)),
        api.Routes("knowledge_context", "kb_knowledge.context_routes:handlers", build=True, under=("knowledge",)),
    ]


@hookimpl
def kb_capabilities() -> Mapping[str, bool]:
    return {"knowledge": True}


@hookimpl
def kb_narrow_retrieval(actor: api.Actor, purpose: str, tx: Tx) -> ColumnElement[bool] | None:
    from kb_knowledge.conditions import narrow

    return narrow(actor, purpose, tx)


@hookimpl
def kb_gate_hits(query: api.RetrievalQuery, hits: list[api.ScoredChunk], services: Mapping[str, Any]) -> list[api.Rejection]:
    return services["knowledge_gate"].reject(query.text, hits)


@hookimpl
def kb_generators() -> list[api.Generator]:
    return [api.Generator("openai", "kb_knowledge.openai:OpenAI")]


@hookimpl(wrapper=True)
def kb_apply_mutation(plan: api.Plan, selected: Select, tx: Tx) -> Iterator[Any]:
    from kb_knowledge.carry import followed

    with followed(plan, selected, tx):
        return (yield)


@hookimpl
def kb_documents_changed(changes: api.Changes, tx: Tx) -> None:
    from kb_knowledge.carry import follow_added

    follow_added(changes, tx)


@hookimpl
def kb_export_tables() -> list[api.ExportTable]:
    return [
        api.ExportTable("knowledge_events", table="knowledge_chunk_events", key="id"),
        api.ExportTable("knowledge_left_over", table="knowledge_left_over", key="id"),
        api.ExportTable("knowledge_snapshots", table="knowledge_snapshots", key="id"),
        api.ExportTable("knowledge_snapshot_chunks", table="knowledge_snapshot_chunks", key="id"),
    ]


@hookimpl
def kb_selection_filters() -> list[api.SelectionFilter]:
    def named(name: str, help: str, flag: str = "") -> api.SelectionFilter:
        return api.SelectionFilter(name, f"kb_knowledge.conditions:{name}", help=help, flag=flag, over="chunks")

    return [
        named("kind", "Selects chunks of this kind: fact, angle, example or quote."),
        named("policy", "Selects chunks with this policy: normal, inspiration_only or never_generate."),
        named("status", "Selects chunks that are active or inactive, or all of them."),
        named("source_type", "Selects chunks from this type of source."),
        named("source_ref", "Selects chunks from this source."),
        named("query", "Selects chunks that have all of these words in their text or title."),
    ]


@hookimpl
def kb_mutation_kinds() -> list[api.MutationKind]:
    def kind(name: str, target: str, verb: str, help: str, example: str, permission: str = "") -> api.MutationKind:
        path = name.replace("_", "-")
        return api.MutationKind(
            name,
            f"kb_knowledge.mutations:{target}",
            verb=verb,
            help=help,
            over="chunks",
            route=f"/knowledge/bulk/{path}",
            command=f"chunks bulk-{path}",
            tool=f"kb_chunks_bulk_{name}",
            permission=permission or f"knowledge.{name}",
            example=example,
        )

    return [
        kind("deactivate", "Deactivate", "deactivate", "Take chunks out of every search.", '--query "press release"'),
        kind("activate", "Activate", "activate", "Let chunks be found again.", "--tags reviewed", "knowledge.deactivate"),
        kind(
            "reclassify",
            "Reclassify",
            "reclassify",
            "Say what chunks are: fact, angle, example or quote.",
            "--tags mail --kind quote",
        ),
        kind(
            "set_policy",
            "SetPolicy",
            "set the policy of",
            "Say what chunks may be used for.",
            "--tags mail --policy never_generate",
        ),
        api.MutationKind(
            "delete_chunk",
            "kb_knowledge.mutations:DeleteChunk",
            verb="delete",
            help="Delete chunks for good.",
            destructive=True,
            bulk=False,
            over="chunks",
            permission="knowledge.delete_hard",
        ),
    ]


@hookimpl
def kb_commands() -> list[api.Command]:
    def command(name: str, function: str, help: str) -> api.Command:
        return api.Command(name, f"kb_knowledge.commands:{function}", help=help, group="Knowledge")

    return [
        command("chunks list", "list_chunks", "List chunks with their curation."),
        command("chunks show", "show", "Show a chunk with its text, curation and last events."),
        command("chunks deactivate", "deactivate", "Take chunks out of every search."),
        command("chunks activate", "activate", "Let chunks be found again."),
        command("chunks reclassify", "reclassify", "Say what chunks are: fact, angle, example or quote."),
        command("chunks set-policy", "set_policy", "Say what chunks may be used for."),
        command("chunks delete", "delete", "Delete a chunk for good."),
        command("chunks history", "history", "Show every event of a chunk, also of one that is gone."),
        command("chunks events", "list_events", "List events, or write them as lines of JSON."),
        api.Command("ask", "kb_knowledge.ask_commands:ask", help="Answer a question from the knowledge base.", group="Search"),
        api.Command(
            "impact", "kb_knowledge.ask_commands:impact", help="List the snapshots that a chunk was used for.", group="Knowledge"
        ),
        api.Command("snapshots", "kb_knowledge.ask_commands:snapshots", help="List snapshots of contexts.", group="Knowledge"),
        api.Command(
            "snapshots show",
            "kb_knowledge.ask_commands:show_snapshot",
            help="Show what a context was made of.",
            group="Knowledge",
        ),
        command("chunks left-over", "left_over", "List curation whose text is gone, and which waits for it to come back."),
    ]


@hookimpl
def kb_tools() -> list[api.Tool]:
    def reads(name: str, function: str, title: str, profile: api.Profile = "curate") -> api.Tool:
        target = f"kb_knowledge.tools:{function}"
        return api.Tool(name, target, title, profile, read_only=True, idempotent=True, permission="knowledge.view")

    def changes(function: str, title: str, permission: str) -> api.Tool:
        target = f"kb_knowledge.tools:{function}"
        return api.Tool(f"kb_chunks_{function}", target, title, "curate", idempotent=True, permission=permission)

    def answers(function: str, title: str, *, samples: bool = False) -> api.Tool:
        target = f"kb_knowledge.ask_tools:{function}"
        return api.Tool(f"kb_{function}", target, title, "read", open_world=samples, samples=samples, permission="knowledge.view")

    return [
        reads("kb_chunks_list", "list_chunks", "List chunks"),
        reads("kb_chunks_show", "show", "Show a chunk"),
        changes("deactivate", "Deactivate a chunk", "knowledge.deactivate"),
        changes("activate", "Activate a chunk", "knowledge.deactivate"),
        changes("reclassify", "Reclassify a chunk", "knowledge.reclassify"),
        changes("set_policy", "Set a chunk's policy", "knowledge.set_policy"),
        reads("kb_chunks_history", "history", "Show a chunk's history"),
        answers("context", "Assemble a context"),
        answers("ask", "Answer a question", samples=True),
        reads("kb_impact", "impact", "What a chunk was used for", "read"),
        api.Tool(
            "kb_chunks_delete",
            "kb_knowledge.tools:delete",
            "Delete a chunk",
            "admin",
            destructive=True,
            permission="knowledge.delete_hard",
        ),
    ]


@hookimpl
def kb_client_methods() -> list[api.ClientMethod]:
    names = (
        "list_chunks get_chunk deactivate_chunk activate_chunk reclassify_chunk set_chunk_policy delete_chunk "
        "chunk_history list_events export_events list_left_over knowledge_context ask list_snapshots get_snapshot "
        "answer_snapshot chunk_impact"
    )
    return [api.ClientMethod(name, f"kb_knowledge.client:{name}") for name in names.split()]
