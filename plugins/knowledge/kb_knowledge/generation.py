"""From a question to an answer with checked citations; without a generator the context is the result."""

from __future__ import annotations

from kb_framework.api import Actor
from kb_framework.errors import GeneratorUnavailable
from kb_framework.generation import Generation
from kb_knowledge.context import ContextService
from kb_knowledge.models import Asked, ContextIn
from kb_knowledge.settings import KnowledgeSettings
from kb_knowledge.snapshots import SnapshotsService


class GenerationService:
    def __init__(
        self,
        generation: Generation,
        settings: KnowledgeSettings,
        knowledge_context: ContextService,
        knowledge_snapshots: SnapshotsService,
    ) -> None:
        self._generation = generation
        self._name = settings.generator
        self._context = knowledge_context
        self._snapshots = knowledge_snapshots

    def ask(self, wanted: ContextIn, actor: Actor) -> Asked:
        # Whether a generator can be asked is known before anything is kept.
        generator = None if self._name == "none" else self._generation.get(self._name)
        context = self._context.assemble(wanted, actor)
        if generator is None:
            return Asked(answer=None, snapshot_id=context.snapshot_id, context=context)
        text = "".join(generator.generate(context.prompt)).strip()
        if not text:
            raise GeneratorUnavailable(f"the generator {self._name!r} gave an empty answer", snapshot_id=context.snapshot_id)
        answer = self._snapshots.answer(context.snapshot_id, text, generator.model, actor)
        return Asked(answer=answer, snapshot_id=context.snapshot_id, context=context)
