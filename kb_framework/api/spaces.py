"""Embedding spaces: which model made the vectors, and the index they are in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb_framework.api.tables import embedding_spaces
from kb_framework.api.times import now

if TYPE_CHECKING:
    from kb_framework.storage.store import Tx


@dataclass(frozen=True, slots=True)
class Space:
    """An embedding space: which model made the vectors, and where they are."""

    model: str
    dimensions: int
    index_name: str


_ACTIVE_SPACE = sa.select(
    embedding_spaces.c.model, embedding_spaces.c.dimensions, embedding_spaces.c.index_name
).where(embedding_spaces.c.active)


def active_space(tx: Tx) -> Space | None:
    row = tx.once("active space", lambda: tx.execute(_ACTIVE_SPACE).first())
    return Space(*row) if row else None


def create_space(
    tx: Tx, model: str, dimensions: int, *, active: bool = True, suffix: str = ""
) -> Space:
    """Record a new space with an empty index. One that is not active is being built beside the active one.

    Vectors are removed from every space, so that one being built never keeps what is gone. They are added to the
    active one only, and the builder catches up before it takes over.
    """
    tx.engine.take_turns(tx.connection, "embedding spaces")
    number = (tx.scalar(sa.select(sa.func.max(embedding_spaces.c.id))) or 0) + 1
    # A name is never used twice: the table of a former space may have been too damaged to be dropped.
    while sa.inspect(tx.connection).has_table(f"chunks_vec_{number}{suffix}"):
        number += 1
    space = Space(model, dimensions, f"chunks_vec_{number}{suffix}")
    if active:
        tx.execute(sa.update(embedding_spaces).values(active=False))
    tx.execute(
        sa.insert(embedding_spaces).values(
            model=model,
            dimensions=dimensions,
            index_name=space.index_name,
            active=active,
            created_at=now(),
        )
    )
    tx.engine.create_vectors(tx.connection, space.index_name, dimensions)
    show_active_space(tx)
    return space


def show_active_space(tx: Tx) -> None:
    """Make `vector_of` read from the active space. Call it in the transaction in which the space changes."""
    space = active_space(tx)
    tx.engine.show_vectors(tx.connection, space.index_name if space else None)


def spaces_being_built(tx: Tx) -> list[Space]:
    columns = embedding_spaces.c
    query = (
        sa.select(columns.model, columns.dimensions, columns.index_name)
        .where(~columns.active)
        .order_by(columns.id)
    )
    return [Space(*row) for row in tx.execute(query)]


def activate_space(tx: Tx, space: Space) -> None:
    """Let a space take over, and drop the one that was active."""
    former = active_space(tx)
    if former and former != space:
        drop_space(tx, former)
    tx.execute(
        sa.update(embedding_spaces)
        .where(embedding_spaces.c.index_name == space.index_name)
        .values(active=True)
    )
    show_active_space(tx)
    tx.corpus_changed(everywhere=True)


def drop_space(tx: Tx, space: Space) -> None:
    tx.execute(sa.delete(embedding_spaces).where(embedding_spaces.c.index_name == space.index_name))
    show_active_space(tx)
    tx.vector_index(space.index_name).maintenance.drop()


def vector_indexes(tx: Tx) -> list[str]:
    return list(tx.connection.scalars(sa.select(embedding_spaces.c.index_name)))


def remove_vectors(tx: Tx, chunks: sa.Select) -> None:
    """Remove the vectors of chunks, selected by number, from every space."""
    for name in vector_indexes(tx):
        tx.vector_index(name).remove(chunks)
