"""What plugins contribute, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from kb_framework.errors import PluginFailed

T = TypeVar("T")
HOST = "host"


class Clash(PluginFailed):
    """Two plugins contribute the same name."""

    def __init__(self, message: str, first: str, second: str) -> None:
        super().__init__(message)
        self.first = first
        self.second = second


class Registry(Generic[T]):
    """Contributions by name, each with the plugin that answers for it."""

    def __init__(self, noun: str, kind: type[T]) -> None:
        self.noun = noun
        self.kind = kind
        self._items: dict[str, tuple[str, T]] = {}

    def add(self, plugin: str, name: str, item: T) -> None:
        if not isinstance(item, self.kind):
            raise PluginFailed(f"a {self.noun} must be a {self.kind.__name__}, not {item!r}")
        if name in self._items:
            first = self._items[name][0]
            raise Clash(
                f"the {self.noun} {name!r} is contributed by both {first!r} and {plugin!r}",
                first,
                plugin,
            )
        self._items[name] = (plugin, item)

    def clear(self) -> None:
        self._items = {name: pair for name, pair in self._items.items() if pair[0] == HOST}

    def plugin_of(self, name: str) -> str:
        return self._items[name][0]

    def names_of(self, plugin: str) -> list[str]:
        return sorted(name for name, pair in self._items.items() if pair[0] == plugin)

    def get(self, name: str) -> T | None:
        pair = self._items.get(name)
        return pair[1] if pair else None

    def items(self) -> list[tuple[str, T]]:
        return [(name, self._items[name][1]) for name in sorted(self._items)]

    def as_declared(self) -> list[T]:
        """The contributions in the order of loading and, within a plugin, of its list."""
        return [item for _, item in self._items.values()]

    def named(self, hook: str, answer: Any) -> list[tuple[str, T]]:
        """Check what a plugin returned from a registration hook; its items by name."""
        if answer is None:
            return []
        # A single description is a named tuple, which could be taken for a list.
        alone = isinstance(answer, str | Mapping | self.kind)
        if alone or not isinstance(answer, Iterable):
            raise PluginFailed(
                f"{hook} must return a list of {self.kind.__name__}, not {type(answer).__name__}"
            )
        items: list[Any] = list(answer)  # pyright: ignore[reportArgumentType]
        for item in items:
            if not isinstance(item, self.kind):
                raise PluginFailed(
                    f"{hook} must return a list of {self.kind.__name__}; it holds {item!r}"
                )
        return [(item.name, item) for item in items]

    # Kinds of which several may claim one thing: they have `claims` and a `precedence`

    def by_precedence(self) -> list[T]:
        """The contributions, highest precedence first. Equal ones are of one plugin, in the order of its list."""
        return sorted(self.as_declared(), key=lambda item: -getattr(item, "precedence", 0))

    def tied(self) -> Clash | None:
        """Find two plugins whose contributions claim one thing with the same precedence."""
        claimed: dict[tuple[str, int], Any] = {}
        for item in self._ranked(self.as_declared()):
            for claim in item.claims:
                first = claimed.setdefault((claim, item.precedence), item)
                owners = self.plugin_of(first.name), self.plugin_of(item.name)
                if owners[0] != owners[1]:
                    return Clash(
                        f"the {self.noun}s {first.name!r} of {owners[0]!r} and {item.name!r} of {owners[1]!r} both read "
                        f"{claim!r} with precedence {item.precedence}: give one of them another, or disable one plugin",
                        *owners,
                    )
        return None

    def shadowed(self) -> dict[str, list[str]]:
        """Say for each plugin which of its claims another plugin's contribution takes."""
        used: dict[str, Any] = {}
        found: dict[str, list[str]] = {}
        for item in self._ranked(self.by_precedence()):
            for claim in item.claims:
                winner = used.setdefault(claim, item)
                plugin, owner = (self.plugin_of(each.name) for each in (item, winner))
                if plugin != owner:
                    found.setdefault(plugin, []).append(
                        f"{self.noun} {item.name!r} is not used for {claim!r}: {winner.name!r} of {owner!r} has precedence "
                        f"{winner.precedence}, this one {item.precedence}"
                    )
        return found

    def _ranked(self, items: list[T]) -> list[Any]:
        return items if hasattr(self.kind, "claims") else []

    def __iter__(self) -> Iterator[T]:
        return (self._items[name][1] for name in sorted(self._items))
