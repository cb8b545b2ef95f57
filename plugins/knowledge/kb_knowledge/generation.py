"""From a question to an answer with checked citations; without a generator the context is the result."""

from __future__ import annotations

from collections.abc import Iterator

from kb_models.api import Generation

from kb_framework.api import Actor
from kb_framework.errors import GeneratorUnavailable
from kb_knowledge.context import ContextService
from kb_knowledge.models import AnswerPart, Asked, ContextIn
from kb_knowledge.settings import KnowledgeSettings
from kb_knowledge.snapshots import SnapshotsService


class GenerationService:
    def __init__(
        self,
        settings: KnowledgeSettings,
        knowledge_context: ContextService,
        knowledge_snapshots: SnapshotsService,
        generation: Generation | None = None,
    ) -> None:
        self._generation = generation
        self._name = settings.generator
        self._context = knowledge_context
        self._snapshots = knowledge_snapshots

    def ask(self, wanted: ContextIn, actor: Actor) -> Asked:
        """Answer a question; without a generator the context is the result."""
        *_, last = self.stream(wanted, actor)
        assert last.asked
        return last.asked

    def stream(self, wanted: ContextIn, actor: Actor) -> Iterator[AnswerPart]:
        """Yield the generator's answer as it comes, then the result: the answer with its citations checked."""
        # A generator that cannot be used is an error before anything is kept.
        generator = None if self._name == "none" else self._generators().get(self._name)
        context = self._context.assemble(wanted, actor)
        if generator is None:
            yield AnswerPart(
                asked=Asked(answer=None, snapshot_id=context.snapshot_id, context=context)
            )
            return
        pieces: list[str] = []
        for piece in self._generators().stream(self._name, context.prompt):
            pieces.append(piece)
            yield AnswerPart(text=piece)
        text = "".join(pieces).strip()
        if not text:
            raise GeneratorUnavailable(
                f"the generator {self._name!r} gave an empty answer",
                snapshot_id=context.snapshot_id,
            )
        answer = self._snapshots.keep_answer(context.snapshot_id, text, generator.model, actor)
        yield AnswerPart(
            asked=Asked(answer=answer, snapshot_id=context.snapshot_id, context=context)
        )

    def _generators(self) -> Generation:
        if self._generation is None:
            raise GeneratorUnavailable(
                f"the generator {self._name!r} is not available: the plugin models is switched off"
            )
        return self._generation
