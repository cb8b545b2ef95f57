"""Bytes as text, whatever encoding they are in, and a refusal where they are no text."""

from __future__ import annotations

import codecs
import re

from kb_framework.errors import ExtractionFailed

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE = 65_536
# One control byte in this many, zeros included, is no sign of binary data.
_STRAY = 100
_CONTROL_BYTES = bytes([*range(8), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F])
# What the languages written in Latin letters have beside ASCII. A text is in the first encoding that makes of all its
# other bytes letters of one language: statistics take a short French text for Baltic, and Turkish for Icelandic.
_ALPHABETS = (
    (
        "cp1252",
        "äöüß àâæçéèêëîïôœùûüÿ áéíñóúüïç ãõáâàçéêíóôúü àèéìíîòóùú åäöæøéü áðéíóúýþæö äöõüšž",
    ),
    ("cp1254", "çğıi\u0307öşüâîû"),
    ("cp1250", "ąćęłńóśźż áčďéěíňóřšťúůýž áäčďéíĺľňóôŕšťúýž áéíóöőúüű čćđšž ăâîşţ"),
    ("iso8859_2", "ąćęłńóśźż áčďéěíňóřšťúůýž áäčďéíĺľňóôŕšťúýž čćđšž"),
    ("mac_roman", "äöüß àâçéèêëîïôœùûü áéíñóúü"),
    ("cp850", "äöüß àâçéèêëîïôùûü áéíñóúü"),
)
_SIGNS = frozenset("‘’‚“”„–—…«»€£§°©®™•·¿¡ªº´²³½\u00a0\u00ad")
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
# What a wider encoding reads as well, with the characters that vendors added.
_WIDER = {
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "latin_1": "cp1252",
    "tis_620": "cp874",
}
# Controls that no text has; tab, line feeds, form feed, backspace and escape (coloured logs) it may have.
_CONTROLS = re.compile("[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ufffd]")
_UNASSIGNED = re.compile("[\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff]")


def decode(data: bytes) -> str:
    """UTF-8, UTF-16 and UTF-32 with a mark or evident without, else the likeliest legacy encoding; lines end with a line feed."""
    if not data or data.isspace():
        raise ExtractionFailed("the file is empty")
    text = _decode(data)
    if "\x00" in text or _mostly_controls(text):
        raise ExtractionFailed("the file is binary, not text")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text or text.isspace():
        raise ExtractionFailed("the file is empty")
    return text


def _decode(data: bytes) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    if b"\x00" in data:
        encoding = _wide_encoding(data)
        if encoding is None:
            # A few stray zeros, as a crash leaves in a log, do not make a text binary. Compressed data has few zeros as well,
            # but many other control bytes.
            controls = len(data) - len(data.translate(None, _CONTROL_BYTES))
            if controls * _STRAY <= len(data):
                return _decode(data.replace(b"\x00", b""))
            raise ExtractionFailed("the file is binary, not text")
        return data.decode(encoding, errors="replace")
    # Japanese mail and 7-bit Korean: ASCII bytes, told by their escape sequences alone.
    if b"\x1b$" in data and data.isascii():
        encoding = "iso2022_kr" if b"\x1b$)C" in data else "iso2022_jp"
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            return data.decode("ascii")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        # One broken byte in a long text, as after a cut in the middle of a character, makes no other encoding of it.
        whole = data.decode(errors="replace")
        if whole.count("\ufffd") * 200 < len(whole) - len(whole.encode("ascii", "ignore")):
            return whole
        return _decode_legacy(data, error)


def _wide_encoding(data: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark: every character of ASCII, a space at least, has its zeros on the same side.

    Not all zeros are there: 관 is U+AD00. So spaces must be among them, and more than what they are with bytes swapped.
    """
    sample = data[: _SAMPLE - _SAMPLE % 4]
    if len(data) % 4 == 0:
        if not any(sample[3::4]) and max(sample[2::4]) <= 0x10:
            return "utf-32-le"
        if not any(sample[::4]) and max(sample[1::4]) <= 0x10:
            return "utf-32-be"
    zeros_first, zeros_second = sample[::2].count(0), sample[1::2].count(0)
    encoding = "utf-16-le" if zeros_second > zeros_first else "utf-16-be"
    if len(data) % 2 or min(zeros_first, zeros_second) * 4 > max(zeros_first, zeros_second):
        return None
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError:
        return None
    spaces = sum(text.count(space) for space in " \n")
    turned = text.count("\u2000") + text.count("\u0a00")
    odd = len(_CONTROLS.findall(text)) + len(_UNASSIGNED.findall(text))
    return encoding if spaces > turned and odd * 200 <= len(text) else None


def _decode_legacy(data: bytes, error: UnicodeDecodeError) -> str:
    sample = _sample(data, error.start)
    if latin := _latin_encoding(sample):
        return data.decode(latin, errors="replace")

    from charset_normalizer import from_bytes

    matches = from_bytes(sample)
    for match in matches:
        try:
            return data.decode(_WIDER.get(match.encoding, match.encoding))
        except (UnicodeDecodeError, LookupError):
            continue
    best = matches.best()
    if best is None:
        raise ExtractionFailed("the file is neither text nor a known format")
    return data.decode(_WIDER.get(best.encoding, best.encoding), errors="replace")


def _latin_encoding(sample: bytes) -> str | None:
    """The encoding of a text in Latin letters: there, other bytes stand alone between ASCII letters, never in pairs."""
    runs = _HIGH_RUN.findall(sample)
    if sum(map(len, runs)) > 1.5 * len(runs):
        return None
    high = bytes(sorted(set(b"".join(runs))))
    for encoding, alphabets in _ALPHABETS:
        letters = {
            char for char in high.decode(encoding, errors="replace").lower() if not char.isascii()
        } - _SIGNS
        if letters and any(letters <= set(alphabet) for alphabet in alphabets.split()):
            return encoding
    return None


def _sample(data: bytes, first: int) -> bytes:
    """The lines of a long file that are not plain ASCII: only those tell its encoding, and not all of them are needed."""
    if len(data) <= _SAMPLE:
        return data
    begin = data.rfind(b"\n", 0, first) + 1
    begin = begin if first - begin < _SAMPLE // 2 else first
    lines, length = [], 0
    for line in data[begin : begin + 16 * _SAMPLE].split(b"\n"):
        if not line.isascii():
            if length + len(line) > _SAMPLE:
                break
            lines.append(line)
            length += len(line) + 1
    if lines:
        return b"\n".join(lines)
    # One endless line: ended after something that cannot be half a character in any encoding.
    window = data[begin : begin + _SAMPLE]
    cut = max(window.rfind(byte) for byte in (b" ", b",", b".", b"\t"))
    return window[: cut + 1] if cut > 0 else window


def _mostly_controls(text: str) -> bool:
    sample = text[:_SAMPLE]
    return len(_CONTROLS.findall(sample)) * 50 > len(sample)
