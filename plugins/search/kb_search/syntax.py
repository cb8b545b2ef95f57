"""The query language, for those who ask for it: `word`, `"a phrase"`, `-word`, `title:word`, `word*`. All must match."""

from __future__ import annotations

from typing import NamedTuple

from kb_text.api import phrase_terms

from kb_framework.api.text_query import Expression, Term
from kb_framework.errors import InvalidInput

_FIELDS = ("title",)
_QUOTE = '"'
# An engine compares every text with every term, and a phrase word by word.
_MOST_TERMS = 64


class Parsed(NamedTuple):
    """An expression, and its wanted words as plain text, for whatever compares meanings."""

    expression: Expression
    words: str


def parse(query: str) -> Parsed:
    return _Parser(query).parse()


class _Parser:
    def __init__(self, query: str) -> None:
        self._query = query
        self._place = 0

    def parse(self) -> Parsed:
        # As the keys of dictionaries: each once, in order.
        wanted: dict[Term, None] = {}
        unwanted: dict[Term, None] = {}
        words: dict[str, int] = {}
        while self._skip_spaces():
            start = self._place
            excluded = self._take("-")
            term = self._term(start)
            (unwanted if excluded else wanted)[term] = None
            words.setdefault(term.text, len(term.text.split()))
            if len(wanted) + len(unwanted) > _MOST_TERMS or sum(words.values()) > 2 * _MOST_TERMS:
                limits = f"at most {_MOST_TERMS} different terms, and {2 * _MOST_TERMS} words with those of phrases"
                raise self._error(start, f"this is one term too many: {limits}")
        if not wanted:
            raise self._error(0, "there is nothing to look for: only words that must not be there")
        return Parsed(
            Expression(tuple(wanted), tuple(unwanted)), " ".join(term.text for term in wanted)
        )

    def _term(self, start: int) -> Term:
        if not self._rest or self._rest[0].isspace():
            raise self._error(start, "a word or a phrase must follow the minus at once")
        if self._rest[0] == _QUOTE:
            return self._phrase(None)
        begin = self._place
        word = self._word()
        name, colon, _ = word.partition(":")
        if colon:
            if name.lower() not in _FIELDS:
                raise self._error(
                    begin,
                    f"there is no field {name!r}, only {', '.join(_FIELDS)}; quotes make it a text",
                )
            self._place = begin + len(name) + 1
            if not self._rest or self._rest[0].isspace():
                raise self._error(begin, f"a word or a phrase must follow {name}: at once")
            if self._rest[0] == _QUOTE:
                return self._phrase("title")
            begin = self._place
            return self._plain(begin, self._word(), "title")
        return self._plain(begin, word, None)

    def _plain(self, begin: int, word: str, field: str | None) -> Term:
        text = word.removesuffix("*")
        if "*" in text:
            raise self._error(begin + word.index("*"), "a star may only end a word")
        if not phrase_terms(text):
            raise self._error(begin, f"{word!r} has no letters or digits to look for")
        return Term(text, text != word, field)  # type: ignore[arg-type]

    def _phrase(self, field: str | None) -> Term:
        start = self._place
        end = self._query.find(_QUOTE, start + 1)
        if end == -1:
            raise self._error(start, "this quote is never closed")
        text = self._query[start + 1 : end]
        self._place = end + 1
        if not phrase_terms(text):
            raise self._error(start, "the phrase has no letters or digits to look for")
        return Term(text, self._take("*"), field)  # type: ignore[arg-type]

    def _word(self) -> str:
        start = self._place
        while (
            self._place < len(self._query)
            and not self._query[self._place].isspace()
            and self._query[self._place] != _QUOTE
        ):
            self._place += 1
        return self._query[start : self._place]

    @property
    def _rest(self) -> str:
        return self._query[self._place : self._place + 1]

    def _skip_spaces(self) -> bool:
        while self._rest.isspace():
            self._place += 1
        return bool(self._rest)

    def _take(self, character: str) -> bool:
        if self._rest != character:
            return False
        self._place += 1
        return True

    def _error(self, place: int, words: str) -> InvalidInput:
        before = self._query[max(0, place - 30) : place]
        shown = f"{before}»{self._query[place : place + 30]}"
        return InvalidInput(
            f"query: at position {place + 1}, {words}: {shown}", field="query", position=place
        )
