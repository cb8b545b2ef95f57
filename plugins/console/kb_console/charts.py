"""Plots as SVG, from the numbers of the table below them."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

_WIDTH, _HEIGHT, _GAP = 640, 120, 2


def bars(values: Sequence[tuple[str, int]], label: str) -> Markup:
    """Return a bar for each value, with its name and number as the title of the bar."""
    if not values:
        return Markup("")
    most = max(count for _, count in values) or 1
    width = _WIDTH / len(values)
    parts = [
        Markup(
            '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1.5"><title>{}: {:,}</title></rect>'
        ).format(
            place * width,
            _HEIGHT - _tall(count, most),
            max(width - _GAP, 1),
            _tall(count, most),
            name,
            count,
        )
        for place, (name, count) in enumerate(values)
    ]
    head = Markup(
        '<svg class="bars" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
    ).format(_WIDTH, _HEIGHT, label)
    return head + Markup("").join(parts) + Markup("</svg>")


def _tall(count: int, most: int) -> float:
    # What is there is seen, however little it is.
    return max(_HEIGHT * count / most, 2) if count else 0.5
