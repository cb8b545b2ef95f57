"""The threshold: no operation touches more than a set share of all documents or chunks unless it is told to."""

from __future__ import annotations

from dataclasses import dataclass

from kb_framework.errors import SafetyThresholdExceeded


@dataclass(frozen=True, slots=True)
class Share:
    """How much of everything an operation would touch."""

    matched: int
    total: int
    threshold: int
    noun: str = "documents"

    @property
    def percent(self) -> float:
        return round(self.matched * 100 / self.total, 1) if self.total else 0.0

    @property
    def exceeds(self) -> bool:
        # In integers: exactly the threshold passes, whatever floats make of it. Zero switches the check off.
        return self.threshold > 0 and self.matched * 100 > self.threshold * self.total

    def require_within(self) -> None:
        if self.exceeds:
            raise SafetyThresholdExceeded(
                f"Operation would affect {self.matched} of {self.total} {self.noun} ({self.percent}%). "
                f"Exceeds safety threshold of {self.threshold}%. Use force: true to proceed.",
                matched=self.matched,
                total=self.total,
                percent=self.percent,
                threshold=self.threshold,
            )
