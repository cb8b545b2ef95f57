"""How often the suggestions are right, as the table that docs/research.md shows: `python tests/research/evaluate.py`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from kb_research.suggest import suggest

LABELLED = Path(__file__).parent / "labelled.ndjson"
KINDS = ("fact", "angle", "example", "quote")
POLICIES = ("normal", "inspiration_only", "never_generate")


def labelled(part: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in LABELLED.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["part"] == part]


def confusion(part: str, what: str) -> Counter[tuple[str, str]]:
    """How often each label was suggested as what."""
    return Counter((row[what], getattr(suggest(row["text"]), what)) for row in labelled(part))


def accuracy(part: str, what: str) -> float:
    found = confusion(part, what)
    return sum(count for (label, guess), count in found.items() if label == guess) / found.total()


def table(part: str, what: str, names: tuple[str, ...]) -> str:
    found = confusion(part, what)
    lines = [f"| labelled, suggested → | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    lines += [
        f"| {label} | {' | '.join(str(found[label, guess]) for guess in names)} |"
        for label in names
    ]
    return "\n".join(lines)


def report() -> str:
    return "\n\n".join([table("unseen", "kind", KINDS), table("unseen", "policy", POLICIES)])


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
    for part in ("seen", "unseen"):
        sys.stdout.write(
            f"{part}: kind {accuracy(part, 'kind'):.2f}, policy {accuracy(part, 'policy'):.2f}\n"
        )
    if "--wrong" in sys.argv:
        for row in labelled("seen"):
            guess = suggest(row["text"])
            if (guess.kind, guess.policy) != (row["kind"], row["policy"]):
                sys.stdout.write(f"{row} -> {guess}\n")
