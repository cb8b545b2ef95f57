"""How text becomes words, the same for indexing and for queries, on every engine.

Korean, Japanese and Chinese are written without (or with too few) spaces for a word tokenizer: their runs are indexed as
overlapping pairs of characters. Everything else is left to the engine's tokenizer, after Unicode normalisation.
"""

from __future__ import annotations

import re
import unicodedata

_CJK = (
    "\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
_CJK_RUN = re.compile(f"[{_CJK}]+")
_WORD = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+")
MAX_TERMS = 128


def normalise(text: str) -> str:
    """One spelling for what looks the same: composed or not, full or half width."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def index_text(text: str) -> str:
    """What goes into the full-text index for `text`."""
    return _CJK_RUN.sub(lambda run: f" {' '.join(_pairs(run.group()))} ", normalise(text))


def query_terms(text: str) -> list[tuple[str, bool]]:
    """The distinct terms of a query, in order, each with whether it stands for any word that begins with it."""
    terms: dict[tuple[str, bool], None] = {}
    for word in _WORD.findall(normalise(text).lower()):
        if not _CJK_RUN.match(word):
            terms[(word, False)] = None
        elif len(word) == 1:
            terms[(word, True)] = None
        else:
            terms.update({(word[i : i + 2], False): None for i in range(len(word) - 1)})
    return list(terms)[:MAX_TERMS]


def phrase_terms(text: str) -> tuple[list[str], bool]:
    """The words of a phrase as the index has them, in order, and whether the last stands for any that begins with it."""
    words = _WORD.findall(normalise(text).lower())
    terms = [term for word in words[:-1] for term in (_pairs(word) if _CJK_RUN.match(word) else [word])]
    last = words[-1] if words else ""
    if not _CJK_RUN.match(last):
        return terms + words[-1:], False
    # Behind its last pair a run may go on, so what closes a run is left out.
    return terms + (_pairs(last)[:-1] or [last]), len(last) == 1


def _pairs(run: str) -> list[str]:
    # The last character alone closes the run, so that a one-character query (a prefix) finds it anywhere.
    return [run[i : i + 2] for i in range(len(run) - 1)] + [run[-1]]
