"""XML as text, with no entity expanded that could grow, and nothing ever fetched."""

from __future__ import annotations

import html as html_entities
import re
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from kb_formats.charset import decode_markup
from kb_formats.html_text import without_tags
from kb_framework.api import Extracted
from kb_framework.errors import ExtractionFailed

_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_TAG = re.compile(r"<!\[CDATA\[|\]\]>|<[!?/]?[A-Za-z][^<>]*>")
_ENTITY_LIMIT = 1000
_TITLES = ("title", "article-title", "name")
_HEADINGS = ("title", "article-title", "subtitle")


def parse(text: str) -> Element:
    """The root element; ExpatError where the text is not well-formed, ExtractionFailed where it declares a bomb."""
    parser = expat.ParserCreate(namespace_separator="}")
    builder = TreeBuilder()
    declared = 0

    def entity(name: str, is_parameter: bool, value: str | None, *_: object) -> None:
        nonlocal declared
        # A plain abbreviation is harmless; entities made of entities are how a few lines become gigabytes.
        declared += len(value or "")
        if value and (declared > _ENTITY_LIMIT or "&" in value or "%" in value):
            raise ExtractionFailed(
                "the XML declares entities that expand into each other, which is refused"
            )

    parser.EntityDeclHandler = entity
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.buffer_text = True
    parser.Parse(_DECLARATION.sub("", text, count=1), True)
    return builder.close()


def xml(data: bytes, name: str) -> Extracted:
    """The text of any XML document, a line for each element that stands for itself."""
    text = decode_markup(data)
    try:
        root = parse(text)
    except (expat.ExpatError, ValueError):
        # Feeds and old exports are often not well-formed; their words are there all the same.
        words = html_entities.unescape(without_tags(text, "\n", _TAG))
        return Extracted(_tidy(words), media="xml")
    title = next(
        (
            _flat(found)
            for tag in _TITLES
            for found in root.iter()
            if _local(found) == tag and _flat(found)
        ),
        None,
    )
    return Extracted(
        element_text(root), media="xml", title=title[:300] if title else None, markdown=True
    )


def element_text(root: Element) -> str:
    """An element's text; children of mixed content stay in its line, others get their own."""
    return _tidy("".join(_pieces(root)))


def _pieces(root: Element) -> list[str]:
    # Without recursion: depth is the document's choice.
    pieces: list[str] = []
    stack: list[tuple[Element | str, bool]] = [(root, True)]
    while stack:
        item, block = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
            continue
        if not isinstance(item.tag, str):
            continue
        mixed = bool((item.text or "").strip()) or any((child.tail or "").strip() for child in item)
        mixed = (
            mixed
            and len(item) > 0
            and not any(_local(child) in ("para", "p", "sec", "section") for child in item)
        )
        rest: list[tuple[Element | str, bool]] = [("\n\n" if block else "", False)]
        if block and _local(item) in _HEADINGS:
            rest.append(("## ", False))
        rest.append((_spaces(item.text), False))
        for child in item:
            rest.append((child, not mixed))
            rest.append((_spaces(child.tail), False))
        rest.append(("\n\n" if block else "", False))
        stack.extend(reversed(rest))
    return pieces


def _spaces(text: str | None) -> str:
    return re.sub(r"\s+", " ", text) if text else ""


def _flat(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _local(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _tidy(text: str) -> str:
    lines = [" ".join(line.split()) for line in text.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
