"""What can be done to chunks, over a selection or to one: each is said here once."""

from __future__ import annotations

from kb_framework.api import MutationKind


def _kind(
    name: str, target: str, verb: str, help: str, example: str, permission: str = ""
) -> MutationKind:
    path = name.replace("_", "-")
    return MutationKind(
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


DEACTIVATE = _kind(
    "deactivate",
    "Deactivate",
    "deactivate",
    "Take chunks out of every search.",
    '--query "press release"',
)
ACTIVATE = _kind(
    "activate",
    "Activate",
    "activate",
    "Let chunks be found again.",
    "--tags reviewed",
    "knowledge.deactivate",
)
RECLASSIFY = _kind(
    "reclassify",
    "Reclassify",
    "reclassify",
    "Say what chunks are: fact, angle, example or quote.",
    "--tags mail --set-kind quote",
)
SET_POLICY = _kind(
    "set_policy",
    "SetPolicy",
    "set the policy of",
    "Say what chunks may be used for.",
    "--tags mail --set-policy never_generate",
)
DELETE_CHUNK = MutationKind(
    "delete_chunk",
    "kb_knowledge.mutations:DeleteChunk",
    verb="delete",
    help="Delete chunks for good.",
    destructive=True,
    bulk=False,
    over="chunks",
    permission="knowledge.delete_hard",
)
CHANGES = (DEACTIVATE, ACTIVATE, RECLASSIFY, SET_POLICY)
