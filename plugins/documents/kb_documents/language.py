"""The language of a text as far as its script tells."""

from __future__ import annotations

import re

_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7a3\u1100-\u11ff]")),
    ("zh", re.compile(r"[\u4e00-\u9fff]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
)
_LATIN = re.compile(r"[A-Za-z]")


def by_script(text: str) -> str | None:
    """The language whose script is a tenth or more of the letters, rarer scripts first; None where Latin tells nothing."""
    sample = text[:20_000]
    counts = {lang: len(pattern.findall(sample)) for lang, pattern in _SCRIPTS}
    letters = sum(counts.values()) + len(_LATIN.findall(sample))
    return next((lang for lang, count in counts.items() if count and count * 10 >= letters), None)
