"""Bytes of markup as text."""

from __future__ import annotations

import codecs
import re

from kb_text.api import decode

_DECLARED = re.compile(rb"""(?:charset|encoding)\s*+=\s*+(?:["']\s*+)?([A-Za-z0-9_.:-]+)""")
# What browsers take these names for: the larger set that files under that name are really in.
_MEANT = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "euc_kr": "cp949", "ksx1001": "cp949", "shift_jis": "cp932", "gb2312": "gb18030",
    "gbk": "gb18030", "big5": "big5hkscs", "iso8859-9": "cp1254", "tis-620": "cp874", "iso8859-11": "cp874",
}  # fmt: skip


def decode_markup(data: bytes) -> str:
    """HTML or XML, by its mark, by being UTF-8, by what it declares, else by the likeliest guess."""
    declared = _declared(data)
    if (
        declared
        and not data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"))
        and b"\x00" not in data[:1000]
    ):
        # ISO-2022-JP and its relatives are ASCII bytes, so they are valid UTF-8 too.
        order = (declared, "utf-8") if declared.startswith("iso2022") else ("utf-8", declared)
        for encoding in order:
            try:
                return _plain(data.decode(encoding))
            except UnicodeDecodeError:
                continue
        # One bad byte in a long page must not lead to a guess.
        text = data.decode(declared, errors="replace")
        if text.count("\ufffd") * 100 < len(text):
            return _plain(text)
    return decode(data)


def _declared(data: bytes) -> str | None:
    found = _DECLARED.search(data[:8192])
    if not found:
        return None
    try:
        name = codecs.lookup(found.group(1).decode("ascii")).name
    except LookupError:
        return None
    # Whoever could read this declaration in ASCII does not read UTF-16.
    return None if name.startswith(("utf-16", "utf-32")) else _MEANT.get(name, name)


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
