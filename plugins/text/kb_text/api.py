"""What other plugins may import. Each name is imported when it is first used: few commands need all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb_framework.api import resolve

if TYPE_CHECKING:
    from kb_text.analysis import (
        TermFinder,
        Text,
        find_terms,
        in_latin_letters,
        index_fields,
        indexed_words,
        is_unspaced,
        language_of,
        phrase_terms,
        query_terms,
        text_query,
    )
    from kb_text.encoding import decode
    from kb_text.language import detect_by, prose
    from kb_text.media import detect, source_language
    from kb_text.rebuild import add_missing_text
    from kb_text.tokens import TOKEN, token_count, tokens, weight

_MODULES = {
    "analysis": (
        "TermFinder Text find_terms in_latin_letters index_fields indexed_words is_unspaced language_of phrase_terms "
        "query_terms text_query"
    ),
    "encoding": "decode",
    "language": "detect_by prose",
    "media": "detect source_language",
    "rebuild": "add_missing_text",
    "tokens": "TOKEN token_count tokens weight",
}
_TARGETS = {
    name: f"kb_text.{module}:{name}" for module, names in _MODULES.items() for name in names.split()
}

__all__ = [
    "TOKEN",
    "TermFinder",
    "Text",
    "add_missing_text",
    "decode",
    "detect",
    "detect_by",
    "find_terms",
    "in_latin_letters",
    "index_fields",
    "indexed_words",
    "is_unspaced",
    "language_of",
    "phrase_terms",
    "prose",
    "query_terms",
    "source_language",
    "text_query",
    "token_count",
    "tokens",
    "weight",
]


def __getattr__(name: str) -> Any:
    if name not in _TARGETS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = resolve(_TARGETS[name])
    return found
