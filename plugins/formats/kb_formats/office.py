"""Office documents and e-books: the native reader first, the container's own parts where it finds nothing."""

from __future__ import annotations

from collections.abc import Callable

from kb_formats import old_sheets, rescue
from kb_formats.native import described, read
from kb_framework.api import Extracted
from kb_framework.errors import ExtractionFailed

Read = Callable[[bytes, str], Extracted]
_OPENXML = "application/vnd.openxmlformats-officedocument"
_OPENDOCUMENT = "application/vnd.oasis.opendocument"


def _reader(
    media: str,
    mime: str,
    noun: str,
    *,
    encrypted: Callable[[bytes], bool] | None = None,
    otherwise: Callable[[bytes], str] | None = None,
    asides: Callable[[bytes, str], str] | None = None,
) -> Read:
    """A reader for one format.

    `otherwise` is asked where the native reader fails or finds nothing, `asides` for what it leaves out.
    """

    def extract(data: bytes, name: str) -> Extracted:
        if encrypted and encrypted(data):
            raise ExtractionFailed("the file is password-protected")
        try:
            result = read(data, mime, noun)
        except ExtractionFailed:
            text = otherwise(data) if otherwise else ""
            if not text:
                raise
            return Extracted(text, media=media)
        title, metadata = described(result.metadata)
        text = result.content.strip()
        if not text and otherwise:
            text = otherwise(data)
        if asides and (more := asides(data, text)):
            text = f"{text}\n\n{more}".strip()
        if not text:
            raise ExtractionFailed(f"the {noun} holds no text")
        return Extracted(text, media=media, title=title, metadata=metadata, markdown=True)

    extract.__doc__ = f"The text of a {noun} as Markdown."
    return extract


def _plain_reader(media: str, noun: str, parts: Callable[[bytes], str]) -> Read:
    """A reader for a format that the native reader does not know."""

    def extract(data: bytes, name: str) -> Extracted:
        text = parts(data)
        if not text:
            raise ExtractionFailed(f"the {noun} holds no text that can be read here")
        return Extracted(text, media=media)

    extract.__doc__ = f"The text of a {noun}."
    return extract


docx = _reader(
    "docx",
    f"{_OPENXML}.wordprocessingml.document",
    "Word document",
    otherwise=rescue.word_parts,
    asides=rescue.asides,
)
xlsx = _reader(
    "xlsx",
    f"{_OPENXML}.spreadsheetml.sheet",
    "workbook",
    otherwise=rescue.sheet_parts,
    asides=rescue.asides,
)
pptx = _reader(
    "pptx",
    f"{_OPENXML}.presentationml.presentation",
    "presentation",
    otherwise=rescue.slide_parts,
    asides=rescue.asides,
)
doc = _reader(
    "doc",
    "application/msword",
    "Word document",
    encrypted=rescue.word_encrypted,
    otherwise=rescue.word_stream,
)
xls = _reader(
    "xls",
    "application/vnd.ms-excel",
    "workbook",
    otherwise=old_sheets.sheet_strings,
    asides=old_sheets.sheet_asides,
)
ppt = _reader(
    "ppt", "application/vnd.ms-powerpoint", "presentation", encrypted=rescue.slides_encrypted
)
odt = _reader(
    "odt",
    f"{_OPENDOCUMENT}.text",
    "text document",
    encrypted=rescue.odf_encrypted,
    otherwise=rescue.odf_text,
)
ods = _reader(
    "ods",
    f"{_OPENDOCUMENT}.spreadsheet",
    "workbook",
    encrypted=rescue.odf_encrypted,
    otherwise=rescue.odf_text,
)
odp = _reader(
    "odp",
    f"{_OPENDOCUMENT}.presentation",
    "presentation",
    encrypted=rescue.odf_encrypted,
    otherwise=rescue.odf_text,
)
_rtf = _reader("rtf", "application/rtf", "RTF document", otherwise=rescue.rtf_words)


def rtf(data: bytes, name: str) -> Extracted:
    """The text of an RTF document, in whichever code pages its fonts are."""
    if rescue.rtf_needs_code_pages(data) and (text := rescue.rtf_words(data)):
        return Extracted(text, media="rtf", title=rescue.rtf_title(data) or None)
    extracted = _rtf(data, name)
    # The native reader leaves escapes in the title.
    return (
        extracted._replace(title=rescue.rtf_title(data) or None)
        if "\\'" in (extracted.title or "")
        else extracted
    )


epub = _reader("epub", "application/epub+zip", "e-book", otherwise=rescue.book_pages)
fb2 = _reader("fb2", "application/x-fictionbook+xml", "e-book")
hwp = _reader("hwp", "application/x-hwp", "Hangul document", otherwise=rescue.hangul_text)
hwpx = _reader("hwpx", "application/haansofthwpx", "Hangul document", otherwise=rescue.hangul_parts)
iwork = _reader(
    "iwork", "application/x-iwork-pages-sffpages", "iWork document", otherwise=rescue.iwork_index
)
xps = _plain_reader("xps", "XPS document", rescue.fixed_pages)
works = _plain_reader("works", "Works document", rescue.works_text)
