"""How many tokens a text costs, estimated without a model.

The estimate is `(3 × UTF-8 bytes − characters) / 8`. That makes a quarter token of an ASCII character (English prose and
Markdown: 0.8 to 1.05 of what a 32,000-word tokenizer counts), 5/8 of an accented, Greek, Cyrillic or Arabic one, one token
of a Hangul syllable, a kana or a Han character, and 1.4 of an emoji. It is additive: the estimate of a text is the sum over
its parts, so nothing is ever counted twice. `weight` is eight times the estimate, to stay in integers.
"""

from __future__ import annotations

TOKEN = 8


def weight(text: str) -> int:
    if text.isascii():
        return 2 * len(text)
    return 3 * len(text.encode("utf-8", "surrogatepass")) - len(text)


def token_count(text: str) -> int:
    return tokens(weight(text))


def tokens(weighed: int) -> int:
    return -(-weighed // TOKEN)
