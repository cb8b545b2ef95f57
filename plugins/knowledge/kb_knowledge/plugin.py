"""The entry point of the knowledge plugin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kb_framework import api, hookimpl

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select

    from kb_framework.api.parts import Tx
    from kb_knowledge.gate import Gate


@hookimpl
def kb_hookspecs() -> list[api.Hookspecs]:
    return [api.Hookspecs("kb_knowledge.hookspecs")]


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
        api.ChunkColumn("source_ref", in_hits=True),
        api.ChunkColumn("source_title", in_hits=True),
    ]


@hookimpl
def kb_permissions() -> list[api.Permission]:
    return [
        api.Permission(
            "knowledge.view",
            "See chunks, their kinds, policies and events, and make contexts of them.",
            "viewer",
        ),
        api.Permission("knowledge.edit", "Change chunks.", "editor"),
        api.Permission("knowledge.deactivate", "Deactivate and activate chunks.", "editor"),
        api.Permission("knowledge.reclassify", "Change the kind of chunks.", "editor"),
        api.Permission("knowledge.set_policy", "Change how chunks may be used.", "editor"),
        api.Permission("knowledge.delete_hard", "Delete chunks for good."),
    ]


@hookimpl
def kb_services() -> list[api.Service]:
    return [
        api.Service("knowledge", "kb_knowledge.service:KnowledgeService", ("knowledge",)),
        api.Service("knowledge_events", "kb_knowledge.events:EventsService"),
        api.Service("knowledge_left_over", "kb_knowledge.carry:LeftOverService"),
        api.Service("knowledge_adding", "kb_knowledge.adding:AddingService"),
        api.Service("knowledge_gate", "kb_knowledge.gate:Gate"),
        api.Service("knowledge_context", "kb_knowledge.context:ContextService"),
        api.Service("knowledge_snapshots", "kb_knowledge.snapshots:SnapshotsService"),
        api.Service("knowledge_generation", "kb_knowledge.generation:GenerationService"),
    ]


@hookimpl
def kb_operations() -> list[api.Operation[Any, Any]]:
    from kb_knowledge.operations import OPERATIONS

    return OPERATIONS


@hookimpl
def kb_narrow_retrieval(actor: api.Actor, purpose: str, tx: Tx) -> ColumnElement[bool] | None:
    from kb_knowledge.conditions import narrow

    return narrow(actor, purpose, tx)


@hookimpl
def kb_gate_hits(
    query: api.RetrievalQuery, hits: list[api.ScoredChunk], knowledge_gate: Gate
) -> list[api.Rejection]:
    return knowledge_gate.reject(query.text, hits)


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
    def named(name: str, help: str) -> api.SelectionFilter:
        return api.SelectionFilter(name, f"kb_knowledge.conditions:{name}", help, over="chunks")

    return [
        named("kind", "Selects chunks of this kind: fact, angle, example or quote."),
        named(
            "policy", "Selects chunks with this policy: normal, inspiration_only or never_generate."
        ),
        named("status", "Selects chunks that are active or inactive, or all of them."),
        named("source_type", "Selects chunks from this type of source."),
    ]


@hookimpl
def kb_mutation_kinds() -> list[api.MutationKind]:
    from kb_knowledge.kinds import CHANGES, DELETE_CHUNK

    return [*CHANGES, DELETE_CHUNK]
