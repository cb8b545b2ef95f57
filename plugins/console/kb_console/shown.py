"""How values are shown: times, sizes, numbers, Markdown, addresses. The filters and functions of all templates."""

from __future__ import annotations

import functools
import html
import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from kb_framework.api.messages import plural

Query = Iterable[tuple[str, str]]

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))
# Longer text is shown as it is: taking Markdown apart costs more than it tells.
_LONGEST_MARKDOWN = 300_000
_ABSOLUTE = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_LABEL = re.compile(r"\[([A-Z]\d{1,3})\]")


def ago(time: str | None) -> str:
    """Return how long ago a time was: "3 hours ago"."""
    if not time:
        return "never"
    seconds = (datetime.now(UTC) - _moment(time)).total_seconds()
    for name, size in _UNITS:
        if abs(seconds) >= size:
            count = plural(int(abs(seconds) // size), name)
            return f"{count} ago" if seconds > 0 else f"in {count}"
    return "just now" if seconds >= 0 else "in a moment"


def clock(time: str | None) -> str:
    """Return a time in full: "2026-11-19 05:44 UTC"."""
    return f"{_moment(time):%Y-%m-%d %H:%M} UTC" if time else "–"


def _moment(time: str) -> datetime:
    found = datetime.fromisoformat(time)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def number(value: float | None) -> str:
    """Return a number with separators: "1,234"."""
    return "–" if value is None else f"{value:,}"


def size(count: int | None) -> str:
    """Return a number of bytes: "1.4 MB"."""
    if count is None:
        return "–"
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def words(value: Any) -> str:
    """Return a field's or kind's name, or a value, as words: "set_policy" → "set policy"."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value).replace("_", " ")


def pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def markdown(text: str) -> Markup:
    """Return Markdown as HTML that can do nothing: no script, no style, nothing loaded from elsewhere."""
    import nh3

    if len(text) > _LONGEST_MARKDOWN:
        return Markup("<pre>{}</pre>").format(text)
    reader = _markdown()
    tokens = reader.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            # Below the headings of the page.
            token.tag = f"h{min(int(token.tag[1]) + 2, 6)}"
    clean = nh3.clean(
        reader.renderer.render(tokens, reader.options, {}),
        tags=_TAGS,
        attributes={"a": {"href"}, "ol": {"start"}, "td": {"align"}, "th": {"align"}},
        attribute_filter=_absolute,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(clean)


def _absolute(tag: str, name: str, value: str) -> str | None:
    """Leave out a link that leads elsewhere than its author meant: a relative one would lead to this engine."""
    return value if name != "href" or _ABSOLUTE.match(value) else None


_TAGS = {
    "a",
    "p",
    "br",
    "hr",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "li",
    "blockquote",
    "pre",
    "code",
    "em",
    "strong",
    "s",
    "del",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
}


@functools.cache
def _markdown() -> Any:
    from markdown_it import MarkdownIt

    # Without `html` tags in the text are text.
    reader = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(
        ["table", "strikethrough"]
    )
    reader.add_render_rule("image", _image)
    return reader


def _image(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    """An image is named, not loaded."""
    token = tokens[index]
    return f"<em>[image: {html.escape(token.content or 'without a name')}]</em>"


def marked(text: str | None, query: str) -> Markup:
    """Return text with the query's words marked."""
    if not text:
        return Markup("")
    wanted = [word for word in re.findall(r"\w+", query.lower()) if len(word) > 1][:20]
    if not wanted:
        return Markup.escape(text)
    pattern = re.compile(
        "("
        + "|".join(re.escape(word) for word in sorted(set(wanted), key=len, reverse=True))
        + ")",
        re.IGNORECASE,
    )
    parts = pattern.split(text)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(part) if place % 2 else Markup.escape(part)
        for place, part in enumerate(parts)
    )


def cited(text: str, links: Mapping[str, str]) -> Markup:
    """Return an answer as HTML, with the labels of its citations, like [F1], as links."""

    def link(match: re.Match[str]) -> str:
        href = links.get(match[1])
        return Markup('<a href="{}">[{}]</a>').format(href, match[1]) if href else match[0]

    return Markup(_LABEL.sub(link, str(markdown(text))))


def address(path: str, query: Mapping[str, Any] | Query = ()) -> str:
    """Return a path with a query; lists are repeated, what is empty is left out."""
    pairs: Any = query.items() if isinstance(query, Mapping) else query
    flat: list[tuple[str, Any]] = [
        (name, item)
        for name, value in pairs
        for item in (value if isinstance(value, list | tuple) else [value])
        if item not in (None, "")
    ]
    return f"{path}?{urlencode(flat)}" if flat else path


def share(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


GLOBALS: dict[str, Any] = {"address": address, "plural": plural, "share": share}
FILTERS: dict[str, Any] = {
    "ago": ago,
    "clock": clock,
    "number": number,
    "size": size,
    "words": words,
    "pretty": pretty,
    "cited": cited,
    "markdown": markdown,
    "marked": marked,
}
