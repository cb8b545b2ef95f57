"""The language of a text: by its script where that tells, by its commonest words, and else by a model.

The model (py3langid) costs 0.7 s and 125 MB once, and 0.1 to 0.4 ms for each text. Most collections are English or are
written in a script that tells the language, so it is not loaded for those: the words below take 0.1 ms, know ten languages, and
hand over to the model only what they are not sure of.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_SAMPLE = 1_500
# Below so many letters, or words, any guess is as good as another.
_FEWEST_LETTERS = 24
_FEWEST_WORDS = 6
# The share of a script among the letters from which on it decides.
_DECIDES = (
    10  # per cent: Japanese and Korean papers quote a lot of English, never the other way round
)
_SCRIPTS = (
    ("kana", "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"),
    ("hangul", "\uac00-\ud7a3\u1100-\u11ff\u3130-\u318f"),
    ("han", "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"),
    ("cyrillic", "\u0400-\u052f"),
    ("greek", "\u0370-\u03ff\u1f00-\u1fff"),
    ("thai", "\u0e00-\u0e7f"),
    ("arabic", "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff"),
    ("hebrew", "\u0590-\u05ff"),
    ("devanagari", "\u0900-\u097f"),
    ("bengali", "\u0980-\u09ff"),
    ("tamil", "\u0b80-\u0bff"),
    ("telugu", "\u0c00-\u0c7f"),
    ("georgian", "\u10a0-\u10ff"),
    ("armenian", "\u0530-\u058f"),
)
_OTHER_RUN = re.compile("[\u0370-\U0003ffff]+")
# The scripts of one language, or of one that is by far the commonest: a wrong 'hi' for Nepali is worth less than a model.
_LANGUAGE_OF = {
    "kana": "ja",
    "hangul": "ko",
    "han": "zh",
    "greek": "el",
    "thai": "th",
    "hebrew": "he",
    "devanagari": "hi",
    "bengali": "bn",
    "tamil": "ta",
    "telugu": "te",
    "georgian": "ka",
    "armenian": "hy",
}
# Letters that only one language of a shared script has, in order; without any of them it is the last.
_TELLING = {
    "cyrillic": (
        ("uk", "іїєґ"),
        ("be", "ў"),
        ("sr", "ђћџљњј"),
        ("ru", "ыэё"),
        ("bg", "ъ"),
        ("ru", ""),
    ),
    "arabic": (("ur", "ٹڈڑںےھ"), ("fa", "پچژگکی"), ("ar", "")),
}
_LETTERS = re.compile(r"[^\W\d_]+")
# Letters between digits are no words: 'a1b2c3' is not Portuguese.
_WORD = re.compile(r"\b[^\W\d_]+\b")
_COMMON = {
    "en": "the of and to in is that for it with as was are be by this on not or from at which have an can",
    "de": "der die das und ist nicht mit ein eine den von zu auf für im dem des sich auch werden wird sind",
    "fr": "le la les et est des une dans que qui pour pas sur au avec ce par plus sont il du aux cette",
    "es": "el los las y es una que en por con del para se no como más su al pero sus ha este",
    "it": "il di che è una per non con sono gli della nel da anche si le alla dei delle più ha del",
    "pt": "o os as e é uma que em por com não para do da dos se como mais ao na no são",
    "nl": "de het een en van is dat niet op te voor met zijn aan er ook als wordt door naar bij",
    "sv": "och att det som en är på av för med den till inte om ett har jag kan var",
    "pl": "i w na z się nie że do jest to od jak oraz po dla przez są który",
    "tr": "ve bir bu için ile da de olarak olan daha çok gibi sonra kadar değil ancak en",
}
_LANGUAGES_OF_WORD: dict[str, list[str]] = {}
for _language, _words in _COMMON.items():
    for _common in _words.split():
        _LANGUAGES_OF_WORD.setdefault(_common, []).append(_language)
_MODEL_CONFIDENCE = 0.9
_MODEL_SAMPLE = 1_500
_LATIN_LANGUAGES = (
    "af az br bs ca cs cy da de en eo es et eu fi fo fr ga gl hr hu id is it ku la lb lt lv mg ms mt nb nl nn no "
    "oc pl pt ro sk sl sq sv sw tl tr vi xh zu"
)


def detect(text: str) -> str | None:
    """An ISO 639-1 code; None where there is too little text, only code, or no clear answer."""
    return detect_by(prose(text))


def detect_by(sample: str) -> str | None:
    """The same, of what `prose` took from a text."""
    latin, scripts = _letters(sample)
    total = latin + sum(scripts.values())
    if not total:
        return None
    if scripts and (language := _by_letters(sample, scripts, total)):
        return language
    return _by_words(sample) if latin >= _FEWEST_LETTERS else None


def prose(text: str) -> str:
    """The beginning, and of a long text the middle: a licence or a table of contents often comes first."""
    if len(text) <= 2 * _SAMPLE:
        return text
    middle = len(text) // 2
    return f"{text[:_SAMPLE]}\n{text[middle : middle + _SAMPLE]}"


@cache
def _script_runs() -> list[tuple[str, re.Pattern[str]]]:
    return [(name, re.compile(f"[{letters}]+")) for name, letters in _SCRIPTS]


def _letters(sample: str) -> tuple[int, Counter[str]]:
    """How many letters are Latin, and how many are of each other script."""
    counts: Counter[str] = Counter()
    if not sample.isascii():
        other = "".join(_OTHER_RUN.findall(sample))
        for name, runs in _script_runs():
            if found := runs.findall(other):
                counts[name] = sum(map(len, found))
    # Not below 0: the vowel signs of some scripts count for the script, but not as letters.
    return max(0, sum(map(len, _LETTERS.findall(sample))) - sum(counts.values())), counts


def _by_letters(sample: str, scripts: Counter[str], total: int) -> str | None:
    total = max(total, 1)
    if scripts["kana"] * 100 >= _DECIDES * total and scripts["kana"] >= scripts["hangul"]:
        return "ja"
    script, count = scripts.most_common(1)[0]
    # Han next to some kana is Japanese, next to Hangul it is what the Hangul says.
    if script == "han" and scripts["kana"] * 20 >= scripts["han"]:
        return "ja"
    if count * 100 < _DECIDES * total:
        return None
    if script not in _TELLING:
        return _LANGUAGE_OF[script]
    lower = sample.lower()
    return next(
        language
        for language, letters in _TELLING[script]
        if not letters or sum(map(lower.count, letters)) * 200 >= count
    )


def _by_words(sample: str) -> str | None:
    words = _WORD.findall(sample.lower())
    if len(words) < _FEWEST_WORDS:
        return None
    votes: Counter[str] = Counter()
    for word, count in Counter(words).items():
        for language in _LANGUAGES_OF_WORD.get(word, ()):
            votes[language] += count
    ranked = votes.most_common(2)
    if ranked:
        language, best = ranked[0]
        second = ranked[1][1] if len(ranked) > 1 else 0
        # An eighth of common words is little for prose of any of these languages, and much for code.
        if best >= 4 and best * 8 >= len(words) and best >= 2 * second:
            return language
    if _code_like(sample, len(words)):
        return None
    return _by_model(sample)


def _code_like(sample: str, words: int) -> bool:
    """More marks than words: program text, tables of numbers, logs."""
    marks = sum(sample.count(mark) for mark in "{}[]()<>=;|/\\_$#@&*0123456789")
    return marks > 1.5 * words


def _by_model(sample: str) -> str | None:
    language, confidence = _model().classify(sample[:_MODEL_SAMPLE])
    return language if confidence >= _MODEL_CONFIDENCE else None


@cache
def _model() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    # What is asked here is written in Latin letters: fewer languages to confuse.
    model.set_languages(sorted(set(_LATIN_LANGUAGES.split()) & set(model.labels)))
    return model
