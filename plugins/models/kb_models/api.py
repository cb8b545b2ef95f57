"""What other plugins may import."""

from __future__ import annotations

from kb_models.embedding import NO_EMBEDDING, Embedding
from kb_models.generation import Generation
from kb_models.texts import embedded_text
from kb_models.vectors import Step, VectorRebuild

__all__ = ["NO_EMBEDDING", "Embedding", "Generation", "Step", "VectorRebuild", "embedded_text"]
