"""What Korean words end with: particles, and the forms of 이다 (to be), 하다 (to do) and 되다 (to become) that follow a noun.

A question says 서울의, the text that answers it 서울에서. Indexed are pairs of syllables: those of the ending, and the one
that holds the noun's last syllable and the ending's first, tell of the sentence and not of what is asked for.
"""

from __future__ import annotations

import re


def _each(stems: str, endings: str) -> str:
    return " ".join(stem + ending for stem in stems.split() for ending in endings.split())


_PARTICLES = (
    "은 는 이 가 을 를 의 에 로 와 과 도 만 랑 나 야 여 라 란 든 에서 에게 에게서 한테 한테서 께서 으로 로서 으로서 로써 으로써 "
    "이랑 까지 부터 보다 처럼 같이 마다 조차 마저 밖에 이나 이든 이란 이라"
)
_PRESENT = "다 는 고 며 면 지 게 기 던 나 나요 려 도록 지만 거나 는가 는지"
_PAST = "다 던 고 으며 지만 나 나요 는가 는지 는데 습니까 습니다 을까 을까요"
_VERBS = (
    "이다 입니다 입니까 이며 이고 이지만 이라고 이라는 라고 라는 인 인가 인가요 인지 일까 일까요",
    _each("이었 였", "다 던 나요 습니까 을까 을까요"),
    "한 할 함 해 하여 한다 한다면 할까 할까요 해서 해야 해도 하니 하는데 합니다 합니까",
    _each("하", _PRESENT),
    _each("했 하였", _PAST),
    "된 될 됨 돼 되어 된다 된다면 될까 될까요 됩니다 됩니까",
    _each("되", _PRESENT),
    _each("됐 되었", _PAST),
)
# At least two syllables are left: many a word of two ends like one of these.
_ENDING = re.compile(
    f"..+?(들?(?:{_PARTICLES})[는은도만의]?|들|{' '.join(_VERBS)})".replace(" ", "|")
)


def ending(word: str) -> int:
    """How many syllables of the word are an ending."""
    found = _ENDING.fullmatch(word)
    return len(found[1]) if found else 0
