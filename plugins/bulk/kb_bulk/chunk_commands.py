"""Commands: chunks get."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from kb_framework.console import Cli
from kb_framework.errors import ConfigInvalid


def get(
    *ids: str,
    embeddings: Annotated[bool, Parameter(negative=())] = False,
    source: Annotated[bool, Parameter(negative=())] = False,
    cli: Cli,
) -> int:
    """Show chunks by id, up to 100 at once.

    Parameters
    ----------
    ids
        The chunks, as search shows them.
    embeddings
        With their vectors; for --json.
    source
        With the job that each came from.

    Examples
    --------
    kb chunks get 6ba7b810-9dad-11d1-80b4-00c04fd430c8 --json
    """
    if not ids:
        raise ConfigInvalid("give the ids of chunks")
    found = cli.engine.get_chunks(list(ids), include_embeddings=embeddings or None, include_source=source or None)["data"]
    blocks = []
    for chunk in found["chunks"]:
        origin = f" from {chunk['source']['job_name']}" if source else ""
        blocks.append(f"# {chunk['id']} (chunk {chunk['chunk_index']}{origin})\n{chunk['content']}")
    if cli.json or blocks:
        cli.result(found, "\n\n".join(blocks))
    for missing in () if cli.json else found["not_found"]:
        cli.say(f"not found: {missing}")
    return 1 if found["not_found"] else 0
