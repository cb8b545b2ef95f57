"""What commands print of chunks."""

from __future__ import annotations

from typing import Any

from kb_framework.api.cli import Cli


def found_chunks(cli: Cli, answer: dict[str, Any], _: dict[str, Any]) -> int:
    found = answer["data"]
    blocks = []
    for chunk in found["chunks"]:
        origin = f" from {chunk['source']['job_name']}" if "source" in chunk else ""
        blocks.append(f"# {chunk['id']} (chunk {chunk['chunk_index']}{origin})\n{chunk['content']}")
    if cli.json or blocks:
        cli.result(found, "\n\n".join(blocks))
    for missing in () if cli.json else found["not_found"]:
        cli.say(f"not found: {missing}")
    return 1 if found["not_found"] else 0
