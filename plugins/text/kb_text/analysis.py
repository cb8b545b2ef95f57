"""How text becomes the words that are indexed and asked for, the same on every engine.

Everything is normalised (composed or not, full or half width, upper or lower case, accents) and then depends on the script:

- Languages written without (or with too few) spaces, such as Korean, Japanese, Chinese and Thai, are indexed as overlapping
  pairs of characters.
- Words of English, and of any text whose language cannot be told, are indexed as their stems.
- Words of other languages in Latin letters are indexed twice: as they are, and as their stems in that language, which bear a
  mark. So a question finds them whether or not a language can be told from its few words.
- A script of one language decides for that language's stems.

The engine's own tokenizer has nothing left to do but cut at spaces. `kb_text.plugin.ANALYSIS` names all this, and how it is kept
(since 3 each organization has an index of its own): a database that was indexed in another way is indexed anew when it is opened.
"""

from __future__ import annotations

import functools
import operator
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import Stemmer

from kb_framework.api.text_query import Adjacent, Expression, Phrase, Term, TextQuery, Word
from kb_text.korean import ending

if TYPE_CHECKING:
    from kb_framework.api import ChunkText

MAX_TERMS = 128

_UNSPACED = (
    "\u1100-\u11ff\u3005-\u3007\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
    # Thai, Lao, Burmese, Khmer, with the vowels that are written above and below their letters.
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1050-\u108f\u109a-\u109d\u1780-\u17d3"
)
# Not yet composed: half-width kana.
_HALF_WIDTH = "\uff66-\uff9f"
# What belongs to a word without being a letter to the regular expression: accents, Hebrew and Arabic points, Indic vowels.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a"
    "\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963\u0966-\u0df3"
)
_RUN = re.compile(f"[{_UNSPACED}]+")
_WORD = re.compile(f"[{_UNSPACED}]++|(?:[^\\W_{_UNSPACED}]++|[{_MARKS}]++)++")
_PLACE = re.compile(
    f"[{_UNSPACED}{_HALF_WIDTH}]++|(?:[^\\W_{_UNSPACED}{_HALF_WIDTH}]++|[{_MARKS}]++)++"
)
_SEPARATOR = re.compile(f"[^\\w\\x00-\\x7f{_MARKS}]")
_ASCII_WORD = re.compile("[a-z0-9]+")
# Small letters and digits as they are, and a space for everything else: that is found in texts many times faster.
_ASCII_LETTERS = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128))
# Stands for every character that is not ASCII; in the text itself it is no letter.
_MASK = "?"
_MASKED_LETTERS = _ASCII_LETTERS[: ord(_MASK)] + _MASK + _ASCII_LETTERS[ord(_MASK) + 1 :]
_ACCENT = re.compile("[\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0670]")
# Of the private use area, which every tokenizer takes for a letter and no text should contain.
_STEM = "\ue000"

_SCRIPTS = {
    "russian": re.compile("[\u0400-\u052f]"),
    "greek": re.compile("[\u0370-\u03ff\u1f00-\u1fff]"),
    "arabic": re.compile("[\u0620-\u06ff]"),
    "hindi": re.compile("[\u0900-\u097f]"),
    "tamil": re.compile("[\u0b80-\u0bff]"),
    "armenian": re.compile("[\u0530-\u058f]"),
}
_OTHER_SCRIPT = re.compile("[\u0370-\u1fff]")

# What a text of a language is full of, and no other's; English is here to be told from the others.
_COMMON = {
    "english": "the of and to a an in is that for it with as was are be by this on not or from at which have what how do does",
    "german": "der die das und ist nicht mit ein eine den von zu auf für im dem des sich auch wird sind wie wer wo warum",
    "french": "le la les et est des une dans que qui pour pas sur au avec ce par plus sont du aux quel quelle où",
    "spanish": "el los las y es una que en por con del para se no como más su al qué cuál cuándo dónde quién",
    "italian": "il di che è una per non con sono gli della nel da anche si alla dei delle più cosa quale dove chi",
    "portuguese": "o os as e é uma que em por com não para do da dos se como mais ao na no são qual onde quem",
    "dutch": "de het een en van is dat niet op te voor met zijn aan er ook als wordt door wat hoe waar wie",
    "swedish": "och att det som en är på av för med den till inte om ett har jag kan var vad hur vem när",
    "danish": "og at det som en er på af for med den til ikke om et har jeg kan var hvad hvordan hvem hvor",
    "norwegian": "og at det som en er på av for med den til ikke om et har jeg kan var hva hvordan hvem hvor",
    "finnish": "ja on ei se että oli hän mutta ovat kun myös tai joka mitä mikä missä kuka miten kuinka",
    "hungarian": "a az és hogy nem is egy van volt meg ez de csak mint már ha mi hol ki mikor hogyan",
    "romanian": "și în de la cu nu este un pe care din sau mai ce fi sunt al cum unde cine",
    "turkish": "ve bir bu için ile da de olarak olan daha çok gibi sonra kadar değil ne nasıl nerede kim",
    "polish": "i w na z się nie że do jest to od jak oraz po dla przez są który co gdzie kto",
    "czech": "a v na je se že s z do to i jako pro by ale od po které co kde kdo jak",
    "catalan": "el la els les i és una que en per amb del no com més quin què on qui són",
    "indonesian": "yang dan di dari untuk dengan ini itu pada adalah tidak ke dalam apa siapa bagaimana mana",
}
_CODES = {
    "english": "en", "german": "de", "french": "fr", "spanish": "es", "italian": "it", "portuguese": "pt", "dutch": "nl",
    "swedish": "sv", "danish": "da", "norwegian": "no", "finnish": "fi", "hungarian": "hu", "romanian": "ro", "turkish": "tr",
    "polish": "pl", "czech": "cs", "catalan": "ca", "indonesian": "id",
}  # fmt: skip
_NAMES = {code: name for name, code in _CODES.items()}
# The scripts that tell a language, or one that is by far the commonest; kana before Han, which Japanese has too.
_LANGUAGE_OF_SCRIPT = {
    "ja": re.compile("[\u3041-\u30ff]"),
    "ko": re.compile("[\u1100-\u11ff\uac00-\ud7ff]"),
    "zh": re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"),
    "ru": re.compile("[\u0400-\u052f]"),
    "el": re.compile("[\u0370-\u03ff\u1f00-\u1fff]"),
    "th": re.compile("[\u0e01-\u0e4e]"),
    "ar": re.compile("[\u0620-\u06ff]"),
    "he": re.compile("[\u05d0-\u05ea]"),
    "hi": re.compile("[\u0900-\u097f]"),
}
_LATIN = frozenset(_CODES.values())
_LANGUAGES_OF: dict[str, list[str]] = {}
for _name, _list in _COMMON.items():
    for _common in _list.split():
        _LANGUAGES_OF.setdefault(_common, []).append(_name)
_MORE_GRAMMAR = (
    "who whom whose when where why were been am did has had could should would shall might must nor if then than these those "
    "its they their them there here i you he she we my your his her our me so such into about any each both some"
)
# Words that only make a sentence of the others.
_GRAMMAR = {name: frozenset(words.split()) for name, words in _COMMON.items()}
_GRAMMAR["english"] |= set(_MORE_GRAMMAR.split())
# Pairs of characters that end a Korean sentence, above all a question.
_ENDINGS = (
    "나요 까요 인가 가요 니까 습니 입니 합니 었나 였나 했나 았나 있나 을까 일까 될까 할까 니다"
)
_KOREAN_ENDINGS = frozenset(_ENDINGS.split())
_SAMPLE = 200


def index_fields(fields: Sequence[str]) -> list[str]:
    """What goes into the full-text index for the fields of one chunk: their words, with spaces between.

    The first is the title, the last the body. The language is told from all of them together: a title alone is too short. A
    title that was made of the body's first words says nothing more, and would count them twice.
    """
    title, *others = fields
    cut = [
        _words(field)
        for field in ("" if others and _is_beginning(title, others[-1].strip()) else title, *others)
    ]
    language = _language(word for words in cut for word in words)
    return [" ".join(_tokens(words, language)) for words in cut]


def indexed_words(title: str, piece: ChunkText) -> list[str]:
    """What goes into the full-text index for a chunk of a document: the words of title, headings and body."""
    return index_fields((title, " ".join(piece.metadata.get("heading_path") or ()), piece.content))


def query_terms(text: str) -> list[tuple[str, bool]]:
    """The distinct terms of a query, in order, each with whether it stands for any word that begins with it.

    Words that only make a sentence of the others are left out: in a collection of statements a "what" is rare, and would count.
    """
    return list(_query_terms(text))


# A search asks for the same more than once: to find chunks, and to show where they match.
@functools.lru_cache(maxsize=256)
def _query_terms(text: str) -> tuple[tuple[str, bool], ...]:
    words = list(dict.fromkeys(_words(text)))
    language = _language(words)
    grammar = _GRAMMAR[language or "english"]
    words = [word for word in words if word not in grammar] or words
    terms: dict[tuple[str, bool], None] = {}
    for word in words:
        if not _RUN.match(word):
            terms.update(
                {(form, False): None for form in (*_stems([word], "english"), _fold(word))}
            )
        elif len(word) == 1:
            terms[(word, True)] = None
        else:
            terms.update(
                {(pair, False): None for pair in _pairs(word)[: len(word) - 1 - ending(word)]}
            )
    terms.update({(form, False): None for form in _marked(words, language)})
    telling = [term for term in terms if term[0] not in _KOREAN_ENDINGS]
    return tuple((telling or list(terms))[:MAX_TERMS])


_EQUAL = (1.0, 1.0, 1.0)


def text_query(wanted: str | Expression, weights: tuple[float, float, float] = _EQUAL) -> TextQuery:
    """Return a query for any of the words of a text, or for an expression. `weights` are those of title, headings, body."""
    if isinstance(wanted, str):
        return TextQuery(words=tuple(Word(*term) for term in query_terms(wanted)), weights=weights)
    phrases, unwanted = (tuple(map(_phrase, terms)) for terms in wanted)
    return TextQuery(wanted=phrases, unwanted=unwanted, weights=weights)


def _phrase(term: Term) -> Phrase:
    ways = phrase_terms(term.text, term.prefix)
    return Phrase(tuple(Adjacent(tuple(words), goes_on) for words, goes_on in ways), term.field)


def phrase_terms(text: str, prefix: bool = False) -> list[tuple[list[str], bool]]:
    """The ways in which these words, one after the other, can stand in the index; none without words.

    With each comes whether its last word stands for any that begins with it: where that is asked for, or where it is a single
    character of a run.
    """
    words = _words(text)
    plain = [word for word in words if not _RUN.match(word)]
    forms = [
        dict(zip(plain, _stems(plain, "english"), strict=True)),
        {word: _fold(word) for word in plain},
    ]
    ways = list({tuple(_in_sequence(words, list(map(form.get, words)))): None for form in forms})
    if not ways[0]:
        return []
    if _RUN.match(words[-1]):
        # What closes a run is not in a text where the run goes on.
        single = len(words[-1]) == 1
        return [(list(way if single else way[:-1]), prefix or single) for way in ways]
    # Of a word that goes on the stem is not known, but this may be the whole word.
    return [(list(way), prefix and (index > 0 or len(ways) == 1)) for index, way in enumerate(ways)]


def find_terms(text: str, terms: Collection[tuple[str, bool]]) -> Iterator[tuple[int, int, str]]:
    """Where a text, as it was written, has terms of a query: start, end, and the term; in no order."""
    return iter(TermFinder(terms).find(Text(text)))


class Text:
    """A text to be looked through, for one query or for several: its words are told apart once.

    Plain words are found where they stand in `places`; those that have other letters than ASCII's are listed in `special`.
    """

    __slots__ = ("known", "places", "special", "words")

    def __init__(self, text: str, lang: str | None = None) -> None:
        """`lang` is the code of its document's language, where that is known: by it is judged what does not tell its own."""
        # Most texts that are not ASCII owe that to their quotes and dashes.
        plain = text if text.isascii() else _SEPARATOR.sub(" ", text)
        self.special: list[tuple[int, int, str, bool]] = []
        # With those that it has several times: a set of them would take longer to make than all that is done with it.
        self.words: list[str]
        if plain.isascii():
            self.places = f" {plain.translate(_ASCII_LETTERS)} "
            self.words = self.places.split()
        else:
            masked = plain.replace(_MASK, " ").encode("ascii", "replace").decode("ascii")
            self.places = f" {masked.translate(_MASKED_LETTERS)} "
            self.special = list(_special_words(plain, self.places))
            self.words = [word for word in self.places.split() if _MASK not in word]
            self.words += [word for _, _, word, is_run in self.special if not is_run]
        self.known = _known_words(_language(self.words) or _NAMES.get(lang or "") or "english")
        self.known.learn(self.words)


def _special_words(text: str, places: str) -> Iterator[tuple[int, int, str, bool]]:
    """The words around the marks in `places`: start, end, how they are spelled, and whether it is a run."""
    mark = places.find(_MASK)
    while mark >= 0:
        # A space stands before the first character and after the last.
        start, end = places.rfind(" ", 0, mark), places.find(" ", mark) - 1
        for place in _PLACE.finditer(text, start, end):
            word = normalise(place.group())
            yield place.start(), place.end(), word, _RUN.match(word) is not None
        mark = places.find(_MASK, end + 1)


class TermFinder:
    """Finds the terms of a query in texts."""

    def __init__(self, terms: Collection[tuple[str, bool]]) -> None:
        self._exact = {term for term, prefix in terms if not prefix}
        self._prefixes = tuple(term for term, prefix in terms if prefix)
        # Of the words that texts had so far those that a term finds, and how many there were.
        self._found: dict[_KnownWords, tuple[int, dict[str, str], frozenset[str]]] = {}

    def find(self, text: Text) -> list[tuple[int, int, str]]:
        """Where the text has terms: start, end, and the term; in no order."""
        words = text.words
        of_term, known = self._words_of(text.known)
        found = {word: of_term[word] for word in known.intersection(words)}
        if self._prefixes:
            found.update(_beginning(set(words) - found.keys(), self._prefixes))
        places: list[tuple[int, int, str]] = []
        look = text.places.find
        for word, term in found.items():
            sought, size = f" {word} ", len(word)
            start = look(sought)
            while start >= 0:
                places.append((start, start + size, term))
                start = look(sought, start + size + 1)
        for start, end, word, is_run in text.special:
            if is_run:
                # Text without spaces is looked through by its characters.
                places += _in_run(start, end, word, self._exact, self._prefixes)
            elif word in found:
                places.append((start, end, found[word]))
        return places

    def _words_of(self, known: _KnownWords) -> tuple[dict[str, str], frozenset[str]]:
        number, words, names = self._found.get(known, (-1, {}, frozenset()))
        if number != (size := known.size):
            # Others may learn words meanwhile: how many there were is asked first.
            words = known.having(self._exact)
            names = frozenset(words)
            self._found[known] = size, words, names
        return words, names


def _beginning(words: Iterable[str], prefixes: tuple[str, ...]) -> dict[str, str]:
    return {word: prefix for word in words for prefix in prefixes if _fold(word).startswith(prefix)}


def _in_run(
    start: int, end: int, word: str, exact: Collection[str], prefixes: tuple[str, ...]
) -> Iterator[tuple[int, int, str]]:
    whole = len(word) != end - start
    for index, character in enumerate(word):
        pair = word[index : index + 2]
        term = pair if pair in exact else character if character in prefixes else None
        if term is not None:
            yield (start, end, term) if whole else (start + index, start + index + len(term), term)


class _KnownWords:
    """The words that texts of a language had so far, by what they may be found by: texts have the same words again and again.

    So which words of a text a query looks for is told by sets, not word by word.
    """

    _MOST = 1 << 17

    def __init__(self, language: str) -> None:
        self._language = language
        self.size = 0
        self._words: set[str] = set()
        self._by_form: dict[str, dict[str, int]] = {}

    def learn(self, words: Collection[str]) -> None:
        if self._words.issuperset(words):
            return
        for word in set(words) - self._words:
            for place, form in enumerate(_forms(word, self._language)):
                self._by_form.setdefault(form, {})[word] = place
            self._words.add(word)
        self.size = len(self._words)

    def having(self, terms: Collection[str]) -> dict[str, str]:
        """The words that one of the terms finds, with it: the first of the word's forms that is a term."""
        found: dict[str, tuple[int, str]] = {}
        # Others may learn words meanwhile.
        for term in filter(self._by_form.__contains__, terms):
            for word, place in self._by_form[term].copy().items():
                found[word] = min(found.get(word, (_MANY, term)), (place, term))
        return {word: term for word, (_, term) in found.items()}

    @property
    def is_full(self) -> bool:
        return len(self._words) > self._MOST


_MANY = 1 << 30
_vocabularies: dict[str, _KnownWords] = {}


def _known_words(language: str) -> _KnownWords:
    known = _vocabularies.get(language)
    if known is None or known.is_full:
        known = _vocabularies[language] = _KnownWords(language)
    return known


def language_of(text: str) -> str | None:
    """The language of a query, as an ISO 639-1 code; None where a few words in Latin letters do not tell."""
    words = _words(text)
    if text.isascii():
        return _CODES.get(_language(words) or "")
    letters = "".join(words)
    for language, script in _LANGUAGE_OF_SCRIPT.items():
        # A question in Korean may be half about something that has an English name.
        if 5 * len(script.findall(letters)) > len(letters):
            return language
    return _CODES.get(_language(words) or "")


def in_latin_letters(language: str) -> bool:
    return language in _LATIN


def is_unspaced(word: str) -> bool:
    """Whether a word that is indexed is part of text without spaces: one or two of its characters."""
    return bool(_RUN.match(word))


def normalise(text: str) -> str:
    """One spelling for what looks the same: composed or not, full or half width, upper or lower case."""
    return (
        text.lower()
        if text.isascii()
        else unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    )


def _words(text: str) -> list[str]:
    text = normalise(text)
    return _ASCII_WORD.findall(text) if text.isascii() else _WORD.findall(text)


def _tokens(words: list[str], language: str | None) -> list[str]:
    if language in (None, "english"):
        return _in_sequence(words, list(map(_english.__getitem__, words)))
    distinct = [word for word in dict.fromkeys(words) if word.isascii() or not _RUN.match(word)]
    forms = {word: _fold(word) for word in distinct}
    stems = dict(zip(distinct, _stems(distinct, language), strict=True))
    # After the words themselves, which phrases need side by side.
    marked = [_STEM + stems[word] for word in words if word in stems]
    return _in_sequence(words, list(map(forms.get, words))) + marked


class _EnglishStems(dict[str, "str | None"]):
    """Of the words that texts had so far, and others have again; None for a run of text without spaces."""

    _MOST = 1 << 16
    _LONGEST = 32

    def __missing__(self, word: str) -> str | None:
        stem = None if not word.isascii() and _RUN.match(word) else _stems([word], "english")[0]
        if len(word) <= self._LONGEST:
            if len(self) >= self._MOST:
                self.clear()
            self[word] = stem
        return stem


_english = _EnglishStems()


def _is_beginning(title: str, body: str) -> bool:
    return body == title or (title.endswith("…") and body.startswith(title[:-1]))


def _in_sequence(words: Sequence[str], forms: list[str | None]) -> list[str]:
    """Words by their forms; those without are runs."""
    tokens: list[str] = []
    for word, form in zip(words, forms, strict=True):
        if form is None:
            # The last character alone closes a run, so that a one-character query (a prefix) finds it anywhere.
            tokens += _pairs(word)
            tokens.append(word[-1])
        else:
            tokens.append(form)
    return tokens


def _pairs(run: str) -> list[str]:
    return list(map(operator.add, run, run[1:]))


def _marked(words: list[str], language: str | None) -> list[str]:
    """Stems for texts of other languages than English: of the query's own, or of any where that cannot be told."""
    if language == "english":
        return []
    plain = [word for word in words if not _RUN.match(word) and not _OTHER_SCRIPT.search(word)]
    languages = [language] if language else [name for name in _COMMON if name != "english"]
    return [_STEM + stem for name in languages for stem in _stems(plain, name)]


def _stems(words: list[str], language: str) -> list[str]:
    # Made anew each time, in two microseconds: a stemmer must not be shared by threads.
    stems = Stemmer.Stemmer(language, 0).stemWords(words)
    return [
        stem if word.isascii() else _fold(_in_script(word) if _OTHER_SCRIPT.search(word) else stem)
        for word, stem in zip(words, stems, strict=True)
    ]


def _forms(word: str, language: str) -> tuple[str, ...]:
    """By what a word of a text in that language may be found."""
    marked = (_STEM + stem for stem in _stems([word], language))
    return tuple(dict.fromkeys([*_stems([word], "english"), _fold(word), *marked]))


def _in_script(word: str) -> str:
    name = next((name for name, letters in _SCRIPTS.items() if letters.search(word)), None)
    return Stemmer.Stemmer(name, 0).stemWord(word) if name else word


def _fold(word: str) -> str:
    """Without accents and points, as people type."""
    if word.isascii():
        return word
    return unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", word))) or word


def _language(words: Iterable[str]) -> str | None:
    """Which of the languages in Latin letters this is, by its commonest words; None where they do not tell."""
    votes: dict[str, int] = {}
    sample = list(islice(words, _SAMPLE))
    for word in filter(_LANGUAGES_OF.__contains__, sample):
        for language in _LANGUAGES_OF[word]:
            votes[language] = votes.get(language, 0) + 1
    if not votes:
        return None
    ranked = sorted(votes.items(), key=lambda vote: -vote[1])
    language, best = ranked[0]
    tied = len(ranked) > 1 and ranked[1][1] == best
    return None if tied or best * 20 < len(sample) else language
