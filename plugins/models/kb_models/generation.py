"""The generators that plugins contribute, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kb_framework.api import Generator, GeneratorObject
from kb_framework.api.parts import Plugins
from kb_framework.api.plugins import Chosen
from kb_framework.errors import GeneratorUnavailable, KBError, WrongType


class Generation:
    def __init__(self, plugins: Plugins, build: Callable[[str, str], GeneratorObject]) -> None:
        self._plugins = plugins
        self._build = build
        self._chosen: dict[str, Chosen[GeneratorObject]] = {}

    def get(self, name: str) -> GeneratorObject:
        """Return the generator of that name, ready to be used."""
        chosen = self._named(name)
        if chosen.missing:
            raise GeneratorUnavailable(chosen.missing)
        generator = chosen.get()
        if problem := chosen.problem:
            raise GeneratorUnavailable(problem)
        return generator

    def stream(self, name: str, prompt: str) -> Iterator[str]:
        """Yield a generator's answer as it comes. A failure is reported with the name of its plugin."""
        generator = self.get(name)
        try:
            answer = generator.generate(prompt)
            if isinstance(answer, bytes) or not isinstance(answer, Iterable):
                raise WrongType(f"expected pieces of text, not {type(answer).__name__}")
            for piece in answer:
                if not isinstance(piece, str):
                    raise WrongType(f"expected pieces of text, not {type(piece).__name__}")
                yield piece
        except KBError:
            raise
        except Exception as error:
            raise self._named(name).failed(error) from error

    def _named(self, name: str) -> Chosen[GeneratorObject]:
        if name not in self._chosen:
            self._chosen[name] = Chosen(
                self._plugins, self._plugins.registry(Generator), self._build, name
            )
        return self._chosen[name]
