"""Turn images of text into text.

Recognition runs in the worker that reads the file, under kb's limits on time and memory.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kb_framework.api import Extracted
from kb_framework.errors import ExtractionFailed, NoText

if TYPE_CHECKING:
    from PIL.Image import Image

_DOTS_PER_INCH = 150
_POINTS_PER_INCH = 72
# A page of several metres, or a photograph with a camera's resolution, is made smaller first.
_LONGEST_SIDE = 3000
_MAX_PAGES = 200
_MAX_PIXELS = 100_000_000


def pdf(data: bytes, name: str) -> Extracted:
    """Return the text of a PDF whose pages are images, with its page numbers."""
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        raise ExtractionFailed(f"the PDF cannot be drawn: {error}") from error
    with document:
        texts = ((number, _page_text(page)) for number, page in _pages(document))
        return _joined(texts, "pdf", {"page_count": len(document)})


def image(data: bytes, name: str) -> Extracted:
    """Return the text that an image shows."""
    import PIL.Image

    try:
        opened = PIL.Image.open(io.BytesIO(data))
        if opened.width * opened.height > _MAX_PIXELS:
            raise ExtractionFailed(
                f"the image has more than {_MAX_PIXELS} pixels: {opened.width} × {opened.height}"
            )
        pixels = opened.convert("RGB")
    except (OSError, SyntaxError, ValueError) as error:
        raise ExtractionFailed(f"the image cannot be decoded: {error}") from error
    size = {"width": opened.width, "height": opened.height}
    return _joined([(1, _text(pixels))], "image", size)


def _pages(document: Any) -> Iterator[tuple[int, Any]]:
    for number in range(min(len(document), _MAX_PAGES)):
        yield number + 1, document[number]


def _page_text(page: Any) -> str:
    scale = _DOTS_PER_INCH / _POINTS_PER_INCH
    width, height = page.get_size()
    longest = max(width, height, 1)
    return _text(page.render(scale=min(scale, _LONGEST_SIDE / longest)).to_pil().convert("RGB"))


def _text(pixels: Image) -> str:
    """Return the lines of an image in reading order."""
    import numpy as np

    pixels.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
    found = _engine()(np.asarray(pixels)[:, :, ::-1])
    if found.txts is None or found.boxes is None:
        return ""
    return "\n".join(_lines(zip(found.boxes, found.txts, strict=True)))


def _lines(found: Iterable[tuple[Any, str]]) -> Iterator[str]:
    """Join words whose boxes stand beside each other."""
    boxes = sorted(
        ((box[:, 1].min(), box[:, 1].max(), box[:, 0].min(), words) for box, words in found),
        key=lambda item: (item[0], item[2]),
    )
    line: list[tuple[float, str]] = []
    bottom = float("-inf")
    for top, end, left, words in boxes:
        if line and (top + end) / 2 > bottom:
            yield _in_order(line)
            line = []
        bottom = end if not line else max(bottom, end)
        line.append((left, words))
    if line:
        yield _in_order(line)


def _in_order(line: list[tuple[float, str]]) -> str:
    return " ".join(words for _, words in sorted(line))


def _joined(texts: Iterable[tuple[int, str]], media: str, metadata: dict[str, Any]) -> Extracted:
    parts: list[str] = []
    starts: list[tuple[int, int]] = []
    offset = 0
    for number, text in texts:
        if text.strip():
            starts.append((offset, number))
            parts.append(text)
            offset += len(text) + 2
    if not parts:
        raise NoText("no text was recognised in its pictures")
    pages = tuple(starts) if media == "pdf" else ()
    return Extracted(
        "\n\n".join(parts), media=media, metadata={**metadata, "ocr": True}, pages=pages
    )


@functools.cache
def _engine() -> Any:
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    from rapidocr import RapidOCR

    threads = "EngineConfig.onnxruntime.intra_op_num_threads"
    return RapidOCR(params={"Global.log_level": "error", threads: 1})
