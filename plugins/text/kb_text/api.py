"""What other plugins may import. Each name is imported when it is first used: few commands need all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_framework.api.lazy import lazily

if TYPE_CHECKING:
    from kb_text.analysis import TermFinder as TermFinder
    from kb_text.analysis import Text as Text
    from kb_text.analysis import find_terms as find_terms
    from kb_text.analysis import in_latin_letters as in_latin_letters
    from kb_text.analysis import index_fields as index_fields
    from kb_text.analysis import indexed_words as indexed_words
    from kb_text.analysis import is_unspaced as is_unspaced
    from kb_text.analysis import language_of as language_of
    from kb_text.analysis import phrase_terms as phrase_terms
    from kb_text.analysis import query_terms as query_terms
    from kb_text.analysis import text_query as text_query
    from kb_text.encoding import decode as decode
    from kb_text.language import detect_by as detect_by
    from kb_text.language import prose as prose
    from kb_text.media import detect as detect
    from kb_text.media import source_language as source_language
    from kb_text.rebuild import add_missing_text as add_missing_text
    from kb_text.tokens import TOKEN as TOKEN
    from kb_text.tokens import token_count as token_count
    from kb_text.tokens import tokens as tokens
    from kb_text.tokens import weight as weight

__getattr__ = lazily(
    __name__,
    {
        "kb_text.analysis": (
            "TermFinder Text find_terms in_latin_letters index_fields indexed_words is_unspaced "
            "language_of phrase_terms query_terms text_query"
        ),
        "kb_text.encoding": "decode",
        "kb_text.language": "detect_by prose",
        "kb_text.media": "detect source_language",
        "kb_text.rebuild": "add_missing_text",
        "kb_text.tokens": "TOKEN token_count tokens weight",
    },
)
