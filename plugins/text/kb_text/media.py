"""What a file is, by its content first and by its name second."""

from __future__ import annotations

import io
import re
import struct
import zipfile
from pathlib import PurePosixPath

from kb_framework.errors import ExtractionFailed
from kb_text.encoding import decode

_SAMPLE = 65_536

# Formats that begin with bytes of their own. Images, sound and programs have names too, so that the reason for refusing
# them can say what they are.
_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"{\\rtf", "rtf"),
    (0, b"\x1f\x8b", "gzip"),
    (0, b"BZh", "bzip2"),
    (0, b"\xfd7zXZ\x00", "xz"),
    (0, b"7z\xbc\xaf\x27\x1c", "7z"),
    (0, b"Rar!\x1a\x07", "rar"),
    (0, b"\x28\xb5\x2f\xfd", "zstd"),
    (257, b"ustar", "tar"),
    (0, b"HWP Document File", "hwp3"),
    (0, b"ITSF\x03\x00", "chm"),
    (0, b"\xffWPC", "wordperfect"),
    (0, b"\x09\x04\x06\x00", "excel4"),
    (0, b"\x09\x02\x06\x00", "excel4"),
    (0, b"\x09\x00\x04\x00", "excel4"),
    (0, b"%!PS", "postscript"),
    (0, b"AT&TFORM", "djvu"),
    (0, b"\x89PNG\r\n", "image"),
    (0, b"\xff\xd8\xff", "image"),
    (0, b"GIF8", "image"),
    (0, b"II*\x00", "image"),
    (0, b"MM\x00*", "image"),
    (8, b"WEBP", "image"),
    (0, b"8BPS", "image"),
    (0, b"\x00\x00\x01\x00", "image"),
    (0, b"\x00\x00\x00\x0cjP  ", "image"),
    (8, b"WAVE", "audio"),
    (8, b"AVI ", "video"),
    (0, b"OggS", "audio"),
    (0, b"ID3", "audio"),
    (0, b"fLaC", "audio"),
    (4, b"ftyp", "video"),
    (0, b"\x1a\x45\xdf\xa3", "video"),
    (0, b"SQLite format 3\x00", "database"),
    (0, b"\x7fELF", "program"),
    (0, b"MZ\x90\x00", "program"),
    (0, b"\xca\xfe\xba\xbe", "program"),
    (0, b"\x00asm", "program"),
    (0, b"wOFF", "font"),
    (0, b"wOF2", "font"),
    (0, b"OTTO\x00", "font"),
    (0, b"\x00\x01\x00\x00\x00", "font"),
)

_ZIP_MEMBERS: tuple[tuple[str, str], ...] = (
    ("word/", "docx"),
    ("xl/", "xlsx"),
    ("ppt/", "pptx"),
    ("META-INF/container.xml", "epub"),
    ("FixedDocSeq.fdseq", "xps"),
    ("FixedDocumentSequence.fdseq", "xps"),
    ("Contents/content.hpf", "hwpx"),
    ("Index/Document.iwa", "iwork"),
    ("Index.zip", "iwork"),
    ("index.apxl", "iwork"),
)
_ODF = {"text": "odt", "spreadsheet": "ods", "presentation": "odp", "graphics": "odg"}
_ZIP_SUFFIXES = {
    ".docx": "docx",
    ".docm": "docx",
    ".dotx": "docx",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".pptx": "pptx",
    ".ppsx": "pptx",
    ".odt": "odt",
    ".ods": "ods",
    ".odp": "odp",
    ".epub": "epub",
    ".hwpx": "hwpx",
    ".pages": "iwork",
    ".numbers": "iwork",
    ".key": "iwork",
}

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_SUFFIXES = {
    ".doc": "doc",
    ".dot": "doc",
    ".xls": "xls",
    ".ppt": "ppt",
    ".pps": "ppt",
    ".msg": "msg",
    ".hwp": "hwp",
}

SOURCE_LANGUAGES = {
    ".py": "python", ".pyi": "python", ".pyx": "cython", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".jsx": "javascript", ".ts": "typescript", ".tsx": "typescript", ".java": "java", ".kt": "kotlin", ".kts": "kotlin",
    ".scala": "scala", ".groovy": "groovy", ".gradle": "groovy", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp",
    ".cxx": "cpp", ".hpp": "cpp", ".hh": "cpp", ".cs": "csharp", ".fs": "fsharp", ".vb": "vb", ".go": "go", ".rs": "rust",
    ".swift": "swift", ".m": "objectivec", ".mm": "objectivec", ".rb": "ruby", ".php": "php", ".pl": "perl", ".pm": "perl",
    ".lua": "lua", ".r": "r", ".jl": "julia", ".hs": "haskell", ".lhs": "haskell", ".ml": "ocaml", ".mli": "ocaml",
    ".ex": "elixir", ".exs": "elixir", ".erl": "erlang", ".clj": "clojure", ".lisp": "lisp", ".el": "lisp", ".scm": "scheme",
    ".sh": "bash", ".bash": "bash", ".zsh": "bash", ".fish": "fish", ".ps1": "powershell", ".bat": "batch", ".cmd": "batch",
    ".sql": "sql", ".css": "css", ".scss": "scss", ".sass": "sass", ".less": "less", ".vue": "vue", ".svelte": "svelte",
    ".tf": "terraform", ".proto": "protobuf", ".graphql": "graphql", ".zig": "zig", ".nim": "nim", ".dart": "dart",
    ".asm": "asm", ".s": "asm", ".f90": "fortran", ".f": "fortran", ".v": "verilog", ".vhd": "vhdl", ".cmake": "cmake",
    ".mk": "make", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".ini": "ini", ".cfg": "ini", ".properties": "ini",
    ".xsl": "xslt", ".xslt": "xslt",
}  # fmt: skip
_SOURCE_NAMES = {
    "dockerfile": "dockerfile",
    "makefile": "make",
    "cmakelists.txt": "cmake",
    "jenkinsfile": "groovy",
}

# Text whose kind only its name tells.
_TEXT_SUFFIXES = {
    ".md": "markdown", ".markdown": "markdown", ".mdx": "markdown", ".mkd": "markdown", ".rmd": "markdown", ".qmd": "markdown",
    ".txt": "text", ".text": "text", ".log": "text",
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".ipynb": "ipynb",
    ".eml": "email", ".mbox": "mbox", ".html": "html", ".htm": "html", ".xhtml": "html", ".fb2": "fb2",
    ".xml": "xml", ".docbook": "xml", ".dbk": "xml", ".jats": "xml", ".opml": "xml", ".rss": "xml", ".atom": "xml",
    ".svg": "xml", ".srt": "subtitles", ".vtt": "subtitles", ".org": "org", ".rst": "rst", ".tex": "latex", ".latex": "latex",
    ".bib": "bibtex", ".adoc": "asciidoc", ".asciidoc": "asciidoc", ".mediawiki": "mediawiki", ".wiki": "mediawiki",
    ".dokuwiki": "dokuwiki", ".textile": "textile", ".djot": "djot", ".dj": "djot", ".typ": "typst", ".man": "man",
    ".1": "man", ".muse": "muse", ".creole": "creole", ".t2t": "txt2tags", ".ics": "text", ".vcf": "text",
}  # fmt: skip

_HTML_START = re.compile(
    r"(?:\s|<!--(?>.*?-->)|<\?xml[^>]*>)*+<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_HTML_TAGS = re.compile(
    r"(?:\s|<!--(?>.*?-->))*+<(?:title|meta|div|p|h[1-6]|table|ul|ol|span|script|style|section|article|main|br|a|center|font)(?=[\s>/])",
    re.IGNORECASE | re.DOTALL,
)
_XML_START = re.compile(r"\s*<[A-Za-z][\w.:-]*(?:\s[^<>]*)?/?>")
_ROOT = re.compile(r"<(?![?!])(?:[\w.-]+:)?([\w.-]+)")
_MAIL_HEADER = re.compile(r"^([A-Za-z][A-Za-z0-9-]*):", re.MULTILINE)
_MAIL_HEADERS = {
    "received", "from", "to", "subject", "date", "message-id", "mime-version", "return-path", "delivered-to", "content-type",
    "dkim-signature", "reply-to", "in-reply-to", "cc",
}  # fmt: skip
_MBOX_START = re.compile(r"From \S+ .*\d\d:\d\d")


def detect(data: bytes, name: str) -> str:
    """The kind of a file, such as `pdf`, `docx`, `html`, `markdown`, `code`, `text`, or `binary`."""
    path = PurePosixPath(name.replace("\\", "/").lower())
    suffix = path.suffix
    if data[:4] in (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"):
        return _zip_kind(data, suffix)
    if _is_pdf(data, path):
        return "pdf"
    if data.startswith(_OLE):
        return _ole_kind(data, suffix)
    for offset, magic, kind in _MAGIC:
        if data[offset : offset + len(magic)] == magic:
            return kind
    if data[:2] == b"BM" and data[2:6] == struct.pack("<I", len(data)):
        return "image"
    try:
        text = decode(_beginning(data))
    except ExtractionFailed:
        return "zip" if suffix == ".zip" else "binary"
    return _text_kind(text, path)


def _is_pdf(data: bytes, path: PurePosixPath) -> bool:
    """Whether it begins as a PDF does, or soon: some have a few bytes before that. Texts and archives may tell of one as well."""
    if path.suffix == ".pdf":
        return b"%PDF-" in data[:1024] or b" obj" in data
    if data[257:262] == b"ustar":
        return False
    start = data.find(b"%PDF-", 0, 1024)
    is_text = path.suffix in _TEXT_SUFFIXES or path.suffix in SOURCE_LANGUAGES
    return start >= 0 and not (is_text and data[:start].strip(b" \t\r\n\xef\xbb\xbf"))


def _beginning(data: bytes) -> bytes:
    """The first lines of a file, whole ones where it has any."""
    if len(data) <= _SAMPLE:
        return data
    end = data.rfind(b"\n", 0, _SAMPLE) + 1
    # The zeros of UTF-16 and UTF-32 stand beside the line feed; a multiple of four keeps their characters whole.
    return data[:end] if end and b"\x00" not in data[:_SAMPLE] else data[:_SAMPLE]


def source_language(name: str) -> str | None:
    """The language of source code, by its file's name."""
    path = PurePosixPath(name.replace("\\", "/").lower())
    return _SOURCE_NAMES.get(path.name) or SOURCE_LANGUAGES.get(path.suffix)


def _text_kind(text: str, path: PurePosixPath) -> str:
    if source_language(path.name):
        return "code"
    by_name = _TEXT_SUFFIXES.get(path.suffix)
    if by_name in ("ipynb", "json", "jsonl", "csv", "tsv", "fb2", "email", "mbox"):
        return by_name
    if _HTML_START.match(text):
        return "html"
    if text.lstrip().startswith("<?xml"):
        root = _ROOT.search(text)
        kind = root.group(1).lower() if root else ""
        return {"html": "html", "fictionbook": "fb2"}.get(kind, "xml")
    if by_name not in (None, "text"):
        return by_name
    if _MBOX_START.match(text):
        return "mbox"
    if _looks_like_mail(text):
        return "email"
    if _HTML_TAGS.match(text):
        return "html"
    return "xml" if _XML_START.match(text) and text.rstrip().endswith(">") else "text"


def _looks_like_mail(text: str) -> bool:
    head = text.replace("\r\n", "\n").partition("\n\n")[0]
    names = {match.lower() for match in _MAIL_HEADER.findall(head)}
    telling = names & {"received", "message-id", "mime-version", "return-path"}
    return bool(_MAIL_HEADER.match(head)) and bool(telling) and len(names & _MAIL_HEADERS) >= 3


def _zip_kind(data: bytes, suffix: str) -> str:
    by_name = _ZIP_SUFFIXES.get(suffix)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.namelist()
            if "mimetype" in members:
                # Only the first bytes: the member may be a bomb.
                with archive.open("mimetype") as member:
                    mime = member.read(200).decode("ascii", errors="replace").strip()
                if mime == "application/epub+zip":
                    return "epub"
                if found := re.match(
                    r"application/vnd\.oasis\.opendocument\.(text|spreadsheet|presentation|graphics)",
                    mime,
                ):
                    return _ODF[found.group(1)]
    except Exception:  # noqa: BLE001 - a damaged container raises anything; its name is the next best witness
        return by_name or "zip"
    for start, kind in _ZIP_MEMBERS:
        if any(member.startswith(start) for member in members):
            # A zip with a folder `word/` is a document only if it says so: a backup may hold such a folder as well.
            if kind in ("docx", "xlsx", "pptx") and "[Content_Types].xml" not in members:
                continue
            return kind
    if "[Content_Types].xml" in members and by_name:
        return by_name
    if "index.xml" in members and suffix in (".pages", ".numbers", ".key"):
        return "iwork"
    return by_name if by_name and not members else "zip"


def _ole_kind(data: bytes, suffix: str) -> str:
    names = _ole_names(data)
    if {name.lower() for name in names} & {"encryptedpackage", "encryptioninfo", "\x06dataspaces"}:
        return "encrypted"
    if "PowerPoint Document" in names:
        return "ppt"
    if "FileHeader" in names and "DocInfo" in names:
        return "hwp"
    if any(name.startswith("__properties_version1.0") for name in names):
        return "msg"
    word, excel = "WordDocument" in names, bool(names & {"Workbook", "Book"})
    if word and excel:
        # One is embedded in the other: Excel keeps such objects under MBD…, Word in its ObjectPool.
        return (
            "xls"
            if any(name.startswith("MBD") for name in names) and "ObjectPool" not in names
            else "doc"
        )
    if word or excel:
        return "doc" if word else "xls"
    if "MatOST" in names or suffix == ".wps":
        return "works"
    return _OLE_SUFFIXES.get(suffix, "ole")


def _ole_names(data: bytes) -> set[str]:
    """Names of streams and storages: whatever in the file has the shape of a directory entry."""
    names: set[str] = set()
    for offset in range(512, len(data) - 127, 128):
        length, kind, colour = struct.unpack_from("<HBB", data, offset + 64)
        if 2 < length <= 64 and length % 2 == 0 and kind in (1, 2, 5) and colour in (0, 1):
            names.add(data[offset : offset + length - 2].decode("utf-16-le", errors="replace"))
    return names
