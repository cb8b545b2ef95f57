"""The operations of knowledge: curation of chunks and its log, contexts, answers and their snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb_framework.api import Command, Http, MutationKind, Operation, Tool
from kb_knowledge.kinds import ACTIVATE, DEACTIVATE, RECLASSIFY, SET_POLICY

if TYPE_CHECKING:
    from kb_framework.api.models import Body
    from kb_framework.api.paging import PageIn
    from kb_knowledge import models

VIEW = "knowledge.view"
_MODELS = "kb_knowledge.models"
_GROUP = "Knowledge"
_EXAMPLE = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

# Chunks

LIST: Operation[models.ChunksIn, models.ChunkPage] = Operation(
    "list_chunks",
    "knowledge.list",
    VIEW,
    Http("GET", "/knowledge/chunks"),
    input="kb_knowledge.inputs:chunks_model",
    output=f"{_MODELS}:ChunkPage",
    help="List chunks with their curation; by default those that are active.",
    command=Command(
        "chunks list",
        group=_GROUP,
        about="Curate chunks: what can be found, what each is, and what it may be used for.",
        render="kb_knowledge.render:chunks",
        examples=("kb chunks list --kind quote", "kb chunks list --status inactive --json"),
    ),
    tool=Tool(
        "kb_chunks_list",
        title="List chunks",
        profile="curate",
        read_only=True,
        idempotent=True,
        help=(
            "List chunks with their curation, whether they can be found or not. To find text for an answer, search instead."
        ),
    ),
)

SHOW: Operation[models.ChunkIn, models.ChunkDetail] = Operation(
    "get_chunk",
    "knowledge.get",
    VIEW,
    Http("GET", "/knowledge/chunks/{chunk_id:uuid}"),
    input=f"{_MODELS}:ChunkIn",
    output=f"{_MODELS}:ChunkDetail",
    help="Show a chunk with its text, curation and last 20 events.",
    command=Command(
        "chunks show",
        group=_GROUP,
        positional=("chunk_id",),
        render="kb_knowledge.render:chunk",
        examples=(f"kb chunks show {_EXAMPLE}",),
    ),
    tool=Tool(
        "kb_chunks_show", title="Show a chunk", profile="curate", read_only=True, idempotent=True
    ),
)

# The flags of an example, by kind.
_SAID = {
    "deactivate": ' --reason "out of date"',
    "reclassify": " --kind example",
    "set_policy": " --policy never_generate",
}


def _change(kind: MutationKind, name: str, title: str) -> Operation[Body, models.ChunkChanged]:
    """Return the change of one chunk; its command takes several, one after the other."""
    word = kind.name.replace("_", "-")
    example = f"kb chunks {word} {_EXAMPLE}{_SAID.get(kind.name, '')}"
    return Operation(
        name,
        "knowledge.curate",
        kind.permission,
        Http("POST", f"/knowledge/chunks/{{chunk_id:uuid}}/{word}"),
        input="kb_knowledge.inputs:change_model",
        output=f"{_MODELS}:ChunkChanged",
        help=kind.help,
        subject=kind,
        command=Command(
            f"chunks {word}",
            "kb_knowledge.commands:change",
            group=_GROUP,
            omit=("chunk_id",),
            flags={"chunk_kind": "--kind", "usage_policy": "--policy"},
            examples=(example,),
        ),
        tool=Tool(f"kb_chunks_{kind.name}", title=title, profile="curate", idempotent=True),
    )


DEACTIVATE_CHUNK = _change(DEACTIVATE, "deactivate_chunk", "Deactivate a chunk")
ACTIVATE_CHUNK = _change(ACTIVATE, "activate_chunk", "Activate a chunk")
RECLASSIFY_CHUNK = _change(RECLASSIFY, "reclassify_chunk", "Reclassify a chunk")
SET_CHUNK_POLICY = _change(SET_POLICY, "set_chunk_policy", "Set a chunk's policy")

DELETE: Operation[models.DeleteIn, None] = Operation(
    "delete_chunk",
    "knowledge.delete",
    "knowledge.delete_hard",
    Http("DELETE", "/knowledge/chunks/{chunk_id:uuid}", status=204),
    input=f"{_MODELS}:DeleteIn",
    help="Delete a chunk for good, where that is allowed.",
    command=Command(
        "chunks delete",
        "kb_knowledge.commands:delete",
        help="Delete a chunk for good.\nOnly where KB_KNOWLEDGE_HARD_DELETE is set.",
        group=_GROUP,
        positional=("chunk_id",),
        omit=("confirm",),
        examples=(f"kb chunks delete {_EXAMPLE} --yes",),
    ),
    tool=Tool(
        "kb_chunks_delete",
        "kb_knowledge.tools:delete",
        "Delete a chunk",
        "admin",
        destructive=True,
        help="Delete a chunk for good; `confirm` must be true. Ask the person first; deactivating can be undone.",
    ),
)

# The log

HISTORY: Operation[models.AboutChunkIn, models.ChunkEventPage] = Operation(
    "chunk_history",
    "knowledge_events.history",
    VIEW,
    Http("GET", "/knowledge/chunks/{chunk_id:uuid}/events"),
    input=f"{_MODELS}:AboutChunkIn",
    output=f"{_MODELS}:ChunkEventPage",
    help="Show every event of a chunk, newest first: who changed what, and why.",
    command=Command(
        "chunks history",
        group=_GROUP,
        positional=("chunk_id",),
        render="kb_knowledge.render:events",
        examples=(f"kb chunks history {_EXAMPLE}",),
    ),
    tool=Tool(
        "kb_chunks_history",
        title="Show a chunk's history",
        profile="curate",
        read_only=True,
        idempotent=True,
    ),
)

EVENTS: Operation[models.EventsIn, models.ChunkEventPage] = Operation(
    "list_events",
    "knowledge_events.list",
    VIEW,
    Http("GET", "/knowledge/events"),
    input=f"{_MODELS}:EventsIn",
    output=f"{_MODELS}:ChunkEventPage",
    help="List who changed what, newest first.",
    command=Command(
        "chunks events",
        "kb_knowledge.commands:list_events",
        help="List events, newest first; or write all of them as lines of JSON, oldest first.",
        group=_GROUP,
        flags={"user_id": "--user", "chunk_id": "--chunk", "event_type": "--type"},
        examples=("kb chunks events --since 2026-01-31",),
    ),
)

EXPORT_EVENTS: Operation[models.EventFilters, Any] = Operation(
    "export_events",
    "knowledge_events.export",
    VIEW,
    Http("GET", "/knowledge/events/export", download="application/x-ndjson"),
    input=f"{_MODELS}:EventFilters",
    help="Export events as lines of JSON, oldest first, however many there are.",
)

LEFT_OVER: Operation[PageIn, models.LeftOverPage] = Operation(
    "list_left_over",
    "knowledge_left_over.list",
    VIEW,
    Http("GET", "/knowledge/left-over"),
    input="kb_framework.api.paging:PageIn",
    output=f"{_MODELS}:LeftOverPage",
    help="List the curation of chunks that are gone; it is applied again if the same text returns.",
    command=Command(
        "chunks left-over",
        group=_GROUP,
        render="kb_knowledge.render:left_over",
        examples=("kb chunks left-over",),
    ),
)

# Contexts and answers

CONTEXT: Operation[models.ContextIn, models.Context] = Operation(
    "knowledge_context",
    "knowledge_context.assemble",
    VIEW,
    Http("POST", "/knowledge/context"),
    input="kb_knowledge.inputs:context_model",
    output=f"{_MODELS}:Context",
    help=(
        "Assemble the knowledge to answer a question from: facts, angles, examples, quotes, "
        "and a prompt with the rules for each. It is kept as a snapshot."
    ),
    tool=Tool(
        "kb_context",
        title="Assemble a context",
        help=(
            "Knowledge to answer from: facts, angles, examples, quotes, and a prompt with the rules for each.\n\n"
            "Cite the labels, such as [F1], and name the snapshot_id."
        ),
        omit=("caps",),
        brief=("filters",),
    ),
)

ASK: Operation[models.ContextIn, models.Asked] = Operation(
    "ask",
    "knowledge_generation.ask",
    VIEW,
    Http("POST", "/knowledge/ask"),
    input="kb_knowledge.inputs:context_model",
    output=f"{_MODELS}:Asked",
    help=(
        "Answer a question with citations; where no generator is configured, the context is the result."
    ),
    command=Command(
        "ask",
        "kb_knowledge.ask_commands:ask",
        help=(
            "Answer a question from the knowledge base.\n"
            "The answer has citations; without a generator the assembled context is printed."
        ),
        group="Search",
        words="query",
        only=("query", "top_k", "max_tokens", "tags", "doc_type", "pin", "exclude"),
        examples=("kb ask how often are keys rotated",),
    ),
    tool=Tool(
        "kb_ask",
        "kb_knowledge.tools:ask",
        "Answer a question",
        open_world=True,
        samples=True,
        help=(
            "Answer a question from the knowledge base, with checked citations; "
            "without a generator, the context comes back."
        ),
        omit=("caps",),
        brief=("filters",),
    ),
)

STREAM_ANSWER: Operation[models.ContextIn, models.AnswerPart] = Operation(
    "stream_answer",
    "knowledge_generation.stream",
    VIEW,
    Http("POST", "/knowledge/ask/stream", lines=True),
    input="kb_knowledge.inputs:context_model",
    output=f"{_MODELS}:AnswerPart",
    help=(
        "Answer a question as lines of JSON: each piece of `text` as it comes, at last what `/knowledge/ask` answers as `asked`. "
        "An error after the first line is the last line, as `error`."
    ),
)

SNAPSHOTS: Operation[PageIn, models.SnapshotPage] = Operation(
    "list_snapshots",
    "knowledge_snapshots.list",
    VIEW,
    Http("GET", "/knowledge/snapshots"),
    input="kb_framework.api.paging:PageIn",
    output=f"{_MODELS}:SnapshotPage",
    help="List the contexts made for questions, newest first.",
    command=Command(
        "snapshots",
        group=_GROUP,
        render="kb_knowledge.render:snapshots",
        examples=("kb snapshots",),
    ),
)

SHOW_SNAPSHOT: Operation[models.SnapshotIn, models.Snapshot] = Operation(
    "get_snapshot",
    "knowledge_snapshots.get",
    VIEW,
    Http("GET", "/knowledge/snapshots/{snapshot_id:uuid}"),
    input=f"{_MODELS}:SnapshotIn",
    output=f"{_MODELS}:Snapshot",
    help="Show what a context was made of, and the answer if there is one.",
    command=Command(
        "snapshots show",
        group=_GROUP,
        positional=("snapshot_id",),
        render="kb_knowledge.render:snapshot",
        examples=(f"kb snapshots show {_EXAMPLE}",),
    ),
)

ANSWER_SNAPSHOT: Operation[models.AnswerIn, models.Answer] = Operation(
    "answer_snapshot",
    "knowledge_snapshots.answer",
    VIEW,
    Http("PUT", "/knowledge/snapshots/{snapshot_id:uuid}/answer"),
    input=f"{_MODELS}:AnswerIn",
    output=f"{_MODELS}:Answer",
    help="Keep what a generator elsewhere made of a snapshot's prompt; its citations are checked.",
)

IMPACT: Operation[models.AboutChunkIn, models.SnapshotPage] = Operation(
    "chunk_impact",
    "knowledge_snapshots.impact",
    VIEW,
    Http("GET", "/knowledge/chunks/{chunk_id:uuid}/impact"),
    input=f"{_MODELS}:AboutChunkIn",
    output=f"{_MODELS}:SnapshotPage",
    help="List the snapshots that a chunk was used for, newest first.",
    command=Command(
        "impact",
        group=_GROUP,
        positional=("chunk_id",),
        render="kb_knowledge.render:snapshots",
        examples=(f"kb impact {_EXAMPLE}",),
    ),
    tool=Tool("kb_impact", title="What a chunk was used for", read_only=True, idempotent=True),
)

OPERATIONS: list[Operation[Any, Any]] = [
    LIST,
    SHOW,
    DEACTIVATE_CHUNK,
    ACTIVATE_CHUNK,
    RECLASSIFY_CHUNK,
    SET_CHUNK_POLICY,
    DELETE,
    HISTORY,
    EVENTS,
    EXPORT_EVENTS,
    LEFT_OVER,
    CONTEXT,
    ASK,
    STREAM_ANSWER,
    SNAPSHOTS,
    SHOW_SNAPSHOT,
    ANSWER_SNAPSHOT,
    IMPACT,
]
