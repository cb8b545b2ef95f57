"""A first guess at what a snippet is and may be used for; whoever adds it decides.

Signs of each kind are counted, the strongest wins, and without any it is a fact. How often the guess is right is in
docs/research.md, on snippets that were not looked at while the signs were chosen.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kb_research.models import Kind, Policy


class Suggestion(NamedTuple):
    kind: Kind
    policy: Policy


def _any(phrases: str) -> re.Pattern[str]:
    """Any of the phrases, which are separated by semicolons."""
    return re.compile(
        rf"\b(?:{'|'.join(' '.join(phrase.split()) for phrase in phrases.split(';'))})\b",
        re.IGNORECASE,
    )


_QUOTED = re.compile(r"[“\"«„「『][^“”\"«»„「」『』]{12,2000}[”\"»“」』]")
_OPENS_QUOTED = re.compile(r"^\s*+(?:>\s*+)?[“\"«„「『]")
_BLOCK_QUOTE = re.compile(r"^(?:>.*+(?:\n|$))++(?:\s*+[—–-].*+)?$")
_ATTRIBUTION = re.compile(
    r"(?:^|[\n”\"»])[^\S\n]*+[—–]\s{0,9}[A-Z\u00c0-\u024f\u0400-\u04ff\uac00-\ud7a3]"
)
_SAID = _any("said; says; wrote; writes; remarked; told (?:me|us|the); in the words of; put it")
_EXAMPLE = _any(
    r"""for example; for instance; e\.g; case study; imagine; suppose; consider (?:a|an|the case|how); to illustrate;
    as an example; one customer; one team; example; let us say; let's say; picture (?:a|an|this); walk through; sample; step 1"""
)
_CODE = re.compile(
    r"```|^[ \t]{4,200}\S|^[ \t]{0,200}(?:\$|>>>)\s|\bdef \w{1,200}\(|;[ \t]{0,9}$", re.MULTILINE
)
_VIEW = _any(
    """i (?:think|believe|feel|suspect|wonder|would argue|doubt|like|prefer);
    we (?:think|believe|feel|should|ought|need to rethink); in my (?:view|opinion|experience); in our (?:view|opinion); should;
    ought to; must not; arguably; perhaps; maybe; what if; the real (?:question|problem|story|issue); it is time; it's time;
    why (?:not|do we|don't we|does nobody|is it that); overrated; underrated; the best way; deserves?; instead of asking;
    rethink; surprisingly; ironically; frankly; honestly; unfortunately; a metaphor; seen (?:this way|as); think of;
    the future of; not (?:about|just); nobody (?:talks|wants); everyone (?:thinks|says|agrees); myth; might be; could be the;
    feels? (?:like|more); better off"""
)
_ASKS = re.compile(r"\?\s{0,9}$|\?\s{1,9}[A-Z]")
_MEASURED = re.compile(
    r"(?<!\d)\d{1,15}(?:[.,]\d{1,15})?\s{0,3}(?:%|percent|per cent|km|kg|mg|ms|s\b|GB|MB|°|USD|EUR|\$|million|billion|years?|"
    r"days|hours|people|patients)"
    r"|\b(?:in|since|by|until) (?:1[5-9]|20)\d\d\b|\b\d{4}-\d\d-\d\d\b|\bn\s{0,3}=\s{0,3}\d",
    re.IGNORECASE,
)

_SECRET = re.compile(
    r"\b(?:confidential|internal use only|internal only|do not (?:share|distribute|quote|publish|forward|repeat|disclose)|"
    r"not for (?:publication|distribution|release|attribution)|off the record|under (?:nda|embargo|non-disclosure)|embargoed|"
    r"strictly private|trade secret|attorney-client|privileged)\b|"
    r"\b(?:password|passwd|api[ _-]?key|secret[ _-]?key|access[ _-]?token)"
    r"\b\s*(?:is|:|=)|\b(?:sk|ghp|AKIA)[-_]?[A-Za-z0-9]{16,}|-----BEGIN [A-Z ]*PRIVATE KEY-----|대외비|社外秘|機密",
    re.IGNORECASE,
)
_UNSURE = re.compile(
    r"\b(?:rumou?r|rumou?red|allegedly|reportedly|unconfirmed|speculat\w+|hearsay|i heard|draft|brainstorm\w*|unverified|"
    r"hypothetical|not verified|fiction\w*|might|may or may not|perhaps|maybe|guess(?:es|ing)?)\b",
    re.IGNORECASE,
)


def suggest(text: str) -> Suggestion:
    kind = suggest_kind(text)
    if _SECRET.search(text):
        return Suggestion(kind, "never_generate")
    # A view is not a fact; and neither is what even its author is not sure of.
    unsure = kind == "angle" or (kind != "quote" and _UNSURE.search(text) is not None)
    return Suggestion(kind, "inspiration_only" if unsure else "normal")


def suggest_kind(text: str) -> Kind:
    share_quoted = sum(len(match) for match in _QUOTED.findall(text)) / max(1, len(text))
    quote = (
        3.0 * (share_quoted > 0.6)
        + 1.0 * (share_quoted > 0.3)
        + 1.5 * bool(_OPENS_QUOTED.search(text))
    )
    quote += 2.5 * bool(_BLOCK_QUOTE.match(text.strip())) + 1.5 * bool(_ATTRIBUTION.search(text))
    quote += 1.0 * (share_quoted > 0.2 and bool(_SAID.search(text)))
    example = 2.0 * min(2, len(_EXAMPLE.findall(text))) + 2.0 * bool(_CODE.search(text))
    angle = 1.5 * min(3, len(_VIEW.findall(text))) + 1.0 * bool(_ASKS.search(text))
    fact = 1.0 + 0.75 * min(2, len(_MEASURED.findall(text)))
    scores: dict[Kind, float] = {"quote": quote, "example": example, "angle": angle, "fact": fact}
    return max(scores, key=lambda kind: scores[kind])
