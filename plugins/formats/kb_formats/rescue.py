"""Text straight from a document's parts, where the native reader finds none. Words matter here, layout does not."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from xml.etree.ElementTree import Element
from xml.parsers.expat import ExpatError

from kb_formats.html_text import to_markdown
from kb_formats.ole import compound
from kb_formats.xml_text import element_text, parse
from kb_framework.errors import ExtractionFailed

_PART_LIMIT = 50_000_000
_SHEET_PART = re.compile(
    r"xl/(?:sharedStrings|worksheets/\w+|drawings/\w+|charts/\w+|comments\d*)\.xml"
)


# Containers of XML parts

_ASIDE_PART = re.compile(
    r"word/document\.xml|xl/drawings/drawing\d*\.xml|(?:word|xl|ppt)/(?:charts/chart|diagrams/data)\d*\.xml"
)
_WORD = re.compile(r"\w+")
_EMPHASIS = re.compile(r"[*_\\\\]")


def _parts(data: bytes, wanted: Callable[[str], bool]) -> list[tuple[str, bytes]]:
    """The parts of a container, in natural order, each no longer than a limit; what is broken is left out."""
    found: list[tuple[str, bytes]] = []
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in sorted(archive.namelist(), key=_natural):
                if wanted(name):
                    with archive.open(name) as part:
                        found.append((name, part.read(_PART_LIMIT)))
    except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError, NotImplementedError, EOFError):
        return found
    return found


def _natural(name: str) -> list[tuple[int, str]]:
    return [
        (int(piece), "") if piece.isdigit() else (-1, piece) for piece in re.split(r"(\d+)", name)
    ]


def _root(part: bytes) -> Element | None:
    try:
        return parse(part.decode("utf-8-sig", errors="replace"))
    except (ExpatError, ValueError, ExtractionFailed):
        return None


def _local(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _paragraphs(part: bytes) -> str:
    """The runs of each paragraph of an Office XML part, joined."""
    root = _root(part)
    if root is None:
        return ""
    lines: list[str] = []
    for paragraph in root.iter():
        if _local(paragraph) == "p":
            runs = {
                "t": lambda item: item.text or "",
                "tab": lambda item: " ",
                "br": lambda item: " ",
            }
            if line := "".join(
                runs[_local(item)](item) for item in paragraph.iter() if _local(item) in runs
            ).strip():
                lines.append(line)
    return "\n\n".join(lines)


def word_parts(data: bytes) -> str:
    """A Word document whose main part has another name, or that only holds other texts."""
    main = _parts(
        data,
        lambda name: bool(
            re.fullmatch(r"word/(?:document|header|footer|footnotes|endnotes)\d*\.xml", name)
        ),
    )
    texts = [_paragraphs(part) for _, part in main]
    for _, part in _parts(data, lambda name: bool(re.fullmatch(r"word/.*\.(?:x?html?|mht)", name))):
        texts.append(to_markdown(part.decode("utf-8", errors="replace")))
    return "\n\n".join(text for text in texts if text)


def slide_parts(data: bytes) -> str:
    slides = _parts(
        data, lambda name: bool(re.fullmatch(r"ppt/(?:slides|notesSlides)/\w+\.xml", name))
    )
    return "\n\n".join(text for _, part in slides if (text := _paragraphs(part)))


def sheet_parts(data: bytes) -> str:
    """Shared and inline strings, and the texts of drawings and charts."""
    lines: list[str] = []
    for _, part in _parts(data, lambda name: bool(_SHEET_PART.fullmatch(name))):
        root = _root(part)
        if root is not None:
            texts = (
                (item.text or "").strip() for item in root.iter() if _local(item) in ("t", "v")
            )
            lines += [text for text in texts if text]
    return "\n".join(lines)


def asides(data: bytes, text: str) -> str:
    """The texts of charts, diagrams, drawings and text boxes of an Office file that have a word which `text` lacks."""
    roots = (
        _root(part)
        for name, part in _parts(data, lambda name: bool(_ASIDE_PART.fullmatch(name)))
        if name != "word/document.xml" or b"txbxContent" in part
    )
    lines = (line for root in roots if root is not None for line in _aside_lines(root))
    return "\n\n".join(new_lines(lines, text))


def new_lines(lines: Iterable[str], text: str) -> Iterator[str]:
    """Yield the lines that have a word which neither the text nor a line before has."""
    known = set(_WORD.findall(_EMPHASIS.sub("", text)))
    for line in lines:
        words = _WORD.findall(line)
        if not known.issuperset(words):
            known.update(words)
            yield line


def _aside_lines(root: Element) -> Iterator[str]:
    """Each paragraph outside of the paragraphs within it, and each label of a chart, in the order of the part."""
    lines: list[list[str]] = []
    # An element, its paragraph, and whether it is in the cached words of a chart.
    waiting: list[tuple[Element, list[str], bool]] = [(root, [], False)]
    while waiting:
        element, line, cached = waiting.pop()
        name = _local(element)
        if name == "p" or (name == "v" and cached):
            line = []
            lines.append(line)
        if name == "t" or (name == "v" and cached):
            line.append(element.text or "")
        elif name in ("tab", "br"):
            line.append(" ")
        waiting += [(child, line, cached or name == "strCache") for child in reversed(element)]
    return (text for line in lines if (text := " ".join("".join(line).split())))


def odf_text(data: bytes) -> str:
    """The body; where it is empty, the texts of master pages."""
    for place in ("body", "master-styles"):
        for _, part in _parts(data, lambda name: name in ("content.xml", "styles.xml")):
            root = _root(part)
            found = (
                next((item for item in root.iter() if _local(item) == place), None)
                if root is not None
                else None
            )
            if found is not None and (text := element_text(found)):
                return text
    return ""


def odf_encrypted(data: bytes) -> bool:
    return any(
        b"encryption-data" in part
        for _, part in _parts(data, lambda name: name == "META-INF/manifest.xml")
    )


def book_pages(data: bytes) -> str:
    pages = _parts(data, lambda name: name.lower().endswith((".xhtml", ".html", ".htm")))
    return "\n\n".join(
        text for _, part in pages if (text := to_markdown(part.decode("utf-8", errors="replace")))
    )


def hangul_parts(data: bytes) -> str:
    sections = _parts(data, lambda name: bool(re.fullmatch(r"Contents/section\d+\.xml", name)))
    return "\n\n".join(text for _, part in sections if (text := _paragraphs(part)))


def iwork_index(data: bytes) -> str:
    """The text of an iWork document of the years when these were XML."""
    for _, part in _parts(data, lambda name: name in ("index.xml", "index.apxl")):
        root = _root(part)
        if root is not None:
            bodies = [item for item in root.iter() if _local(item) in ("text-body", "text-storage")]
            inner = {id(child) for body in bodies for child in body.iter() if child is not body}
            return "\n\n".join(
                text for body in bodies if id(body) not in inner and (text := element_text(body))
            )
    return ""


def fixed_pages(data: bytes) -> str:
    """The glyph runs of an XPS document, page by page."""
    pages: list[str] = []
    for _, part in _parts(data, lambda name: name.lower().endswith(".fpage")):
        try:
            root = parse(
                part.decode(
                    "utf-16" if part[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig",
                    errors="replace",
                )
            )
        except (ExpatError, ValueError, ExtractionFailed):
            continue
        runs = [
            item.get("UnicodeString", "").removeprefix("{}")
            for item in root.iter()
            if _local(item) == "Glyphs"
        ]
        pages.append("\n".join(run for run in runs if run.strip()))
    return "\n\n".join(page for page in pages if page)


# Old Office formats


def word_encrypted(data: bytes) -> bool:
    file = compound(data)
    stream = file.stream("WordDocument") if file else b""
    return len(stream) > 12 and bool(struct.unpack_from("<H", stream, 10)[0] & 0x100)


def slides_encrypted(data: bytes) -> bool:
    file = compound(data)
    if file is None:
        return False
    return (
        "encryptedsummary" in file.names
        or file.stream("Current User")[12:16] == b"\xdf\xc4\xd1\xf3"
    )


def word_stream(data: bytes) -> str:
    """The text of a Word document that stores it in one piece: Word 6, Word 95, and documents of headers only."""
    file = compound(data)
    stream = file.stream("WordDocument") if file else b""
    if len(stream) < 32:
        return ""
    start, end = struct.unpack_from("<II", stream, 24)
    if not start < end <= len(stream):
        return ""
    raw = stream[start:end]
    text = (
        raw.decode("utf-16-le", errors="replace")
        if raw.count(0) * 3 > len(raw)
        else raw.decode("cp1252", errors="replace")
    )
    # A field is instructions, a mark, and what it shows.
    text = re.sub(r"\x13[^\x13\x14\x15]*\x14?", "", text).replace("\x15", "")
    return readable(text)


def works_text(data: bytes) -> str:
    """Runs of letters in a Works document: its text lies there in one piece."""
    file = compound(data)
    if file is None:
        return ""
    stream = max(
        (file.stream(name) for name in file.names if not name.startswith("\x05")),
        key=len,
        default=b"",
    )
    runs = re.findall(rb"[\x20-\x7e\x80-\xff\r\n\t]{6,}", stream)
    wide = [
        run.decode("utf-16-le") for run in re.findall(rb"(?:[\x20-\x7e\r\n\t]\x00){6,}", stream)
    ]
    return readable("\n".join(wide or [run.decode("cp1252", errors="replace") for run in runs]))


def hangul_text(data: bytes) -> str:
    """The paragraphs of a Hangul document, or at least its preview."""
    file = compound(data)
    if file is None:
        return ""
    compressed = bool(file.stream("FileHeader")[36:37] and file.stream("FileHeader")[36] & 1)
    paragraphs: list[str] = []
    for name in sorted(
        (name for name in file.names if re.fullmatch(r"section\d+", name)), key=_natural
    ):
        section = file.stream(name)
        if compressed:
            try:
                section = zlib.decompressobj(-15).decompress(section, _PART_LIMIT)
            except zlib.error:
                continue
        paragraphs += _hangul_records(section)
    return readable("\n".join(paragraphs)) or readable(
        file.stream("PrvText").decode("utf-16-le", errors="replace")
    )


def _hangul_records(section: bytes) -> list[str]:
    texts: list[str] = []
    offset = 0
    while offset + 4 <= len(section):
        (head,) = struct.unpack_from("<I", section, offset)
        offset += 4
        size = head >> 20
        if size == 0xFFF and offset + 4 <= len(section):
            (size,) = struct.unpack_from("<I", section, offset)
            offset += 4
        if head & 0x3FF == 67:
            texts.append(_hangul_paragraph(section[offset : offset + size]))
        offset += size
    return texts


def _hangul_paragraph(raw: bytes) -> str:
    # Below 32 are controls; all but these few take eight units of two bytes.
    units = struct.unpack(f"<{len(raw) // 2}H", raw[: len(raw) // 2 * 2])
    kept: list[int] = []
    place = 0
    while place < len(units):
        unit = units[place]
        if unit >= 32:
            kept.append(unit)
            place += 1
        elif unit in (0, 10, 13, 24, 25, 26, 27, 28, 29, 30, 31):
            kept.append(10 if unit in (10, 13) else 32)
            place += 1
        else:
            place += 8
    return struct.pack(f"<{len(kept)}H", *kept).decode("utf-16-le", errors="replace").strip()


# Code pages of fonts, by the number of their character set.
_RTF_CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb18030", 136: "big5hkscs", 161: "cp1253", 162: "cp1254",
    163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip
_TWO_BYTES = frozenset(("cp932", "cp949", "johab", "gb18030", "big5hkscs"))
_RTF_HIDDEN = frozenset(
    ("fonttbl", "colortbl", "stylesheet", "info", "pict", "object", "generator", "themedata")
)
_RTF_TOKEN = re.compile(
    r"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-z])|([{}])|([^\\{}]+)",
    re.IGNORECASE,
)


def rtf_words(data: bytes) -> str:
    """The words of an RTF document, without any of its formatting."""
    return _rtf(data)[0]


def rtf_title(data: bytes) -> str:
    return _rtf(data)[1]


def rtf_needs_code_pages(data: bytes) -> bool:
    """Return whether the native reader, which decodes each byte by the document's code page, would lose letters.

    It does where a font has another code page, where a letter takes two bytes, and where bytes are not escaped.
    """
    own = _rtf_codec(data)
    fonts = {int(number) for number in re.findall(rb"\\fcharset(\d{1,4})", data)}
    codecs = {own} | {_RTF_CHARSETS[number] for number in fonts & _RTF_CHARSETS.keys()}
    if data.isascii() and b"\\'" not in data:
        return False
    return (
        codecs != {own}
        or not codecs.isdisjoint(_TWO_BYTES)
        or not _without_binary(data.decode("latin-1")).isascii()
    )


def _rtf_codec(data: bytes) -> str:
    found = re.search(rb"\\ansicpg(\d{1,5})", data[:2000])
    codec = f"cp{found.group(1).decode()}" if found else "cp1252"
    try:
        "".encode(codec)
    except LookupError:
        return "cp1252"
    return {"cp936": "gb18030", "cp950": "big5hkscs", "cp1361": "johab"}.get(codec, codec)


def _rtf(data: bytes) -> tuple[str, str]:
    """The text and the title; bytes are decoded by the code page of the font they are set in."""
    normal = _rtf_codec(data)
    fonts: dict[str, str] = {}
    body: list[tuple[bytes, str] | str] = []
    title: list[tuple[bytes, str] | str] = []
    # What a group hides or names, how many characters stand for a Unicode one, and the code page.
    place, after_unicode, codec = "", 1, normal
    stack: list[tuple[str, int, str]] = []
    pending, font = 0, ""
    for word, number, hexed, symbol, brace, plain in _RTF_TOKEN.findall(
        _without_binary(data.decode("latin-1"))
    ):
        out = title if place == "title" else body
        if brace == "{":
            stack.append((place, after_unicode, codec))
        elif brace == "}":
            place, after_unicode, codec = stack.pop() if stack else ("", 1, normal)
            pending = 0
        elif word == "f" and place == "fonttbl":
            font = number
        elif word == "fcharset" and place == "fonttbl":
            fonts[font] = _RTF_CHARSETS.get(int(number or 0), normal)
        elif word == "title" and place == "info":
            place = "title"
        elif symbol == "*" or word in _RTF_HIDDEN:
            place = word or "*"
        elif place not in ("", "title"):
            continue
        elif word == "f":
            codec = fonts.get(number, normal)
        elif word == "plain":
            codec = normal
        elif word == "uc":
            after_unicode = int(number or 1)
        elif word == "u" and number:
            out.append(
                struct.pack("<H", int(number) & 0xFFFF).decode("utf-16-le", errors="surrogatepass")
            )
            pending = after_unicode
        elif word in ("par", "line", "row", "sect", "page"):
            out.append("\n")
        elif word in ("tab", "cell"):
            out.append("\t")
        elif hexed and pending:
            pending -= 1
        elif hexed:
            out.append((bytes.fromhex(hexed), codec))
        elif symbol in ("\\", "{", "}", "~"):
            out.append((b" " if symbol == "~" else symbol.encode(), codec))
        elif plain:
            kept = re.sub(r"[\r\n]", "", plain)
            out.append((kept[pending:].encode("latin-1"), codec))
            pending = max(0, pending - len(kept))
    return readable(_joined(body)), " ".join(_joined(title).split())


def _without_binary(source: str) -> str:
    """The source without the raw bytes that `\\bin` announces, in which braces mean nothing."""
    parts: list[str] = []
    end = 0
    for found in re.finditer(r"\\bin(\d{1,9}) ?", source):
        if found.start() >= end:
            parts.append(source[end : found.start()])
            end = found.end() + int(found.group(1))
    return "".join(parts) + source[end:]


def _joined(pieces: list[tuple[bytes, str] | str]) -> str:
    """Bytes of one code page decoded together, since a letter may span two of them; pairs of surrogates made one."""
    text: list[str] = []
    raw: list[bytes] = []
    codec = ""
    for piece in [*pieces, ""]:
        if isinstance(piece, tuple) and (not raw or piece[1] == codec):
            raw.append(piece[0])
            codec = piece[1]
            continue
        text.append(b"".join(raw).decode(codec, errors="replace") if raw else "")
        raw = []
        if isinstance(piece, tuple):
            raw, codec = [piece[0]], piece[1]
        else:
            text.append(piece)
    return (
        "".join(text)
        .encode("utf-16-le", errors="surrogatepass")
        .decode("utf-16-le", errors="replace")
    )


def readable(text: str) -> str:
    text = re.sub(r"[\x00-\x08\x0e-\x1f\ufffd]", "", re.sub(r"[\r\x07\x0b\x0c]", "\n", text))
    lines = (" ".join(line.split()) for line in text.split("\n"))
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return text if any(character.isalnum() for character in text) else ""
