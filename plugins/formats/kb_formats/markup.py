"""Source code and light markup, which are text as they are."""

from __future__ import annotations

import re
from collections.abc import Callable

from kb_text.api import decode, source_language

from kb_framework.api import Extracted

_CUE_TIME = re.compile(r"^\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}\s*-->.*$")
_CUE_TAG = re.compile(r"</?[a-zA-Z][^<>]*>|\{\\[^{}]*\}")


def code(data: bytes, name: str) -> Extracted:
    """Source code, verbatim."""
    language = source_language(name)
    return Extracted(
        decode(data), media="code", metadata={"language": language} if language else {}
    )


def _verbatim(media: str) -> Callable[[bytes, str], Extracted]:
    def extract(data: bytes, name: str) -> Extracted:
        return Extracted(decode(data), media=media)

    extract.__doc__ = f"The text of a {media} file, as it is."
    return extract


org = _verbatim("org")
rst = _verbatim("rst")
latex = _verbatim("latex")
bibtex = _verbatim("bibtex")
asciidoc = _verbatim("asciidoc")
mediawiki = _verbatim("mediawiki")
dokuwiki = _verbatim("dokuwiki")
textile = _verbatim("textile")
djot = _verbatim("djot")
typst = _verbatim("typst")
man = _verbatim("man")
muse = _verbatim("muse")
creole = _verbatim("creole")
txt2tags = _verbatim("txt2tags")


def subtitles(data: bytes, name: str) -> Extracted:
    """What is said, without numbers and times."""
    lines: list[str] = []
    for line in decode(data).split("\n"):
        if _CUE_TIME.match(line) or line.strip() in ("WEBVTT", ""):
            # A cue's number or name is the line before its time.
            if _CUE_TIME.match(line) and lines and (lines[-1].strip().isdigit()):
                lines.pop()
            if lines and lines[-1]:
                lines.append("")
            continue
        lines.append(_CUE_TAG.sub("", line).strip())
    return Extracted("\n".join(lines).strip(), media="subtitles")
