"""Chunks that follow the structure of the text, and stay where they are when the text changes elsewhere.

The text is divided at its pages and headings, the higher ones first, as long as a part is too long for one chunk; what is
left is packed, block after block. Packing does not fill chunks to the brim: one more word at the top would then move
every cut below it, and a chunk keeps its id and its curation only while its text stays the same. Instead the cut is the
best of those within reach: the best by structure, and among equals the one where the text's own fingerprint is lowest.
Two packings that began at different places therefore soon agree on a cut, and from there on everywhere.

A splitting library is not used: those at hand neither merge headings with what they head, nor keep cuts in place, and are
slower than this.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

from kb_text.api import TOKEN, tokens, weight

from kb_documents.blocks import AFTER_HEADING_CUT, scan
from kb_documents.cuts import MAXIMUM, TARGET, Unit, fingerprint, units
from kb_framework.api import ChunkText, Extracted

_SHORT, _FULL = TARGET
# A section of so much is worth a chunk of its own; below, sections share one.
_LONG_ENOUGH = 100 * TOKEN
# So much a section may grow by a small neighbour before it counts as too long.
_FULL_WITH_NEIGHBOUR = 400 * TOKEN
# What a chunk costs the more it is below the target, 1 for an empty one. More, and equal paragraphs would always be
# taken in pairs, so that an inserted one would shift all pairs after it.
_SHORT_COST = 1.0
_LONGEST_NAME = 200


def by_structure(extracted: Extracted) -> list[ChunkText]:
    text = extracted.text
    # Front matter is no prose; offsets and lines still count from the start of the file: see `Extracted.body_start`.
    begin = extracted.body_start
    page_starts = [offset for offset, _ in extracted.pages]
    cutter = _Cutter(
        text, begin, list(units(text, scan(text, begin, extracted.markdown, page_starts)))
    )
    chunks, line, counted = [], 1, 0
    for first, last in cutter.spans(page_starts):
        start, end = cutter.units[first].start, cutter.units[last - 1].end
        line += text.count("\n", counted, start)
        content = text[start:end]
        line_end = line + content.count("\n")
        metadata: dict[str, Any] = {
            "heading_path": cutter.heading_path(first, last),
            "line_start": line,
            "line_end": line_end,
            "token_count": tokens(cutter.size(first, last)),
        }
        if page_starts:
            metadata["page"] = _page_at(extracted.pages, page_starts, start)
            metadata["page_end"] = _page_at(extracted.pages, page_starts, end - 1)
        if header := cutter.units[first].header:
            metadata["table_header"] = header
        chunks.append(ChunkText(content, metadata))
        line, counted = line_end, end
    return chunks


def _page_at(pages: Sequence[tuple[int, int]], starts: list[int], offset: int) -> int:
    return pages[max(bisect_right(starts, offset) - 1, 0)][1]


class _Region(NamedTuple):
    """Units `first` to `last` (exclusive); `closed` ones are a chunk as they are."""

    first: int
    last: int
    closed: bool = False


class _Cutter:
    def __init__(self, text: str, begin: int, units: list[Unit]) -> None:
        self.units = units
        self._text = text
        self._paths = list(_paths(units))
        # The weight of the text up to the start and up to the end of each unit: a chunk counts the blank lines inside it.
        self._starts: list[int] = []
        self._ends: list[int] = []
        sum_, position = 0, begin
        for unit in units:
            sum_ += weight(text[position : unit.start])
            self._starts.append(sum_)
            sum_ += unit.weight
            self._ends.append(sum_)
            position = unit.end

    def size(self, first: int, last: int) -> int:
        return self._ends[last - 1] - self._starts[first]

    def spans(self, page_starts: list[int]) -> Iterator[tuple[int, int]]:
        """The units of each chunk."""
        if not self.units:
            return
        regions = [_Region(0, len(self.units))]
        for rank, cuts in enumerate(self._section_starts(page_starts)):
            divided: list[_Region] = []
            for region in regions:
                inside = cuts[bisect_right(cuts, region.first) : bisect_left(cuts, region.last)]
                # The highest sections are told apart even where all would fit into one chunk.
                if (
                    not inside
                    or region.closed
                    or (rank and self.size(region.first, region.last) <= _FULL)
                ):
                    divided.append(region)
                else:
                    divided.extend(self._divide([region.first, *inside, region.last]))
            regions = divided
        for region in regions:
            if region.closed or self.size(region.first, region.last) <= _FULL:
                yield region.first, region.last
            else:
                yield from self._pack(range(region.first, region.last + 1))

    def _section_starts(self, page_starts: list[int]) -> list[list[int]]:
        """The units that begin a page, a section of the first level, of the second, …; levels that do not occur are left out."""
        starts = [unit.start for unit in self.units]
        pages = sorted({bisect_left(starts, offset) for offset in page_starts} - {0, len(starts)})
        levels: list[list[int]] = [pages, *([] for _ in range(6))]
        for index, unit in enumerate(self.units):
            if unit.level and index:
                levels[unit.level].append(index)
        return [level for level in levels if level]

    def _divide(self, bounds: list[int]) -> Iterator[_Region]:
        """Sections long enough stand alone; neighbours that are not share a region, or join a long one next to them."""
        previous: _Region | None = None
        run: list[int] = []  # the bounds of the small sections that wait for a place
        for first, last in pairwise(bounds):
            if not self._long_enough(first, last):
                run.extend((last,) if run else (first, last))
                if last != bounds[-1]:
                    continue
                section = None
            else:
                section = _Region(first, last)
            if run and self._long_enough(run[0], run[-1]):
                if previous:
                    yield previous
                shared = [_Region(a, b, closed=True) for a, b in self._pack(run)]
                yield from shared[:-1]
                previous = shared[-1]
            elif run:
                joined_on = section and self._joined(run[0], section)
                joined_back = previous and self._joined_back(previous, run[-1])
                if joined_on and (joined_on.closed or not (joined_back and joined_back.closed)):
                    section = joined_on
                elif joined_back:
                    previous = joined_back
                else:
                    if previous:
                        yield previous
                    previous = _Region(
                        run[0], run[-1], closed=self.size(run[0], run[-1]) <= MAXIMUM
                    )
            run = []
            if section:
                if previous:
                    yield previous
                previous = section
        if previous:
            yield previous

    def _long_enough(self, first: int, last: int) -> bool:
        return self.size(first, last) >= _LONG_ENOUGH and any(
            not self.units[index].level for index in range(first, last)
        )

    def _joined(self, first: int, section: _Region) -> _Region | None:
        """The section with what is before it; headings without a text of their own always go with what follows."""
        return self._grown(
            section,
            first,
            section.last,
            all(self.units[i].level for i in range(first, section.first)),
        )

    def _joined_back(self, section: _Region, last: int) -> _Region | None:
        return self._grown(section, section.first, last, False)

    def _grown(self, section: _Region, first: int, last: int, always: bool) -> _Region | None:
        grown = self.size(first, last)
        if grown <= _FULL_WITH_NEIGHBOUR:
            return _Region(first, last, closed=grown > _FULL)
        if always or (not section.closed and self.size(section.first, section.last) > _FULL):
            return _Region(first, last)
        return None

    def _pack(self, bounds: Sequence[int]) -> list[tuple[int, int]]:
        """Chunks of what lies between the bounds, which are the only places to cut."""
        packed: list[tuple[int, int]] = []
        at, end = 0, len(bounds) - 1
        while at < end:
            first = bounds[at]
            if self.size(first, bounds[end]) <= _FULL:
                packed.append((first, bounds[end]))
                break
            following = at + 1
            best, best_cost = 0, AFTER_HEADING_CUT
            while following < end and (size := self.size(first, bounds[following])) <= _FULL:
                if (
                    size >= _LONG_ENOUGH
                    and (cost := self._cut_cost(bounds[following], size)) < best_cost
                ):
                    best, best_cost = following, cost
                following += 1
            if not best:
                # Nothing within reach: one block more than the target allows, if that is still within the maximum.
                fits = following == at + 1 or self.size(first, bounds[following]) <= MAXIMUM
                best = following if fits else following - 1
            packed.append((first, bounds[best]))
            at = best
        return self._without_scraps(packed)

    def _cut_cost(self, index: int, size: int) -> float:
        unit = self.units[index]
        around = self._text[max(unit.start - 32, 0) : min(unit.start + 160, unit.end)]
        return unit.cost + fingerprint(around) + _SHORT_COST * max(0, _SHORT - size) / _SHORT

    def _without_scraps(self, packed: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """A chunk too small to say much joins the one before it; one that opens a section does not."""
        kept = packed[:1]
        for first, last in packed[1:]:
            before = kept[-1][0]
            scrap = self.size(first, last) < _LONG_ENOUGH and not self.units[first].level
            if scrap and self.size(before, last) <= MAXIMUM:
                kept[-1] = (before, last)
            else:
                kept.append((first, last))
        return kept

    def heading_path(self, first: int, last: int) -> list[str]:
        """The headings that all text of a chunk is under; of headings alone, those that all of them are under."""
        common: tuple[str, ...] | None = None
        texts = [index for index in range(first, last) if not self.units[index].level] or range(
            first, last
        )
        for index in texts:
            path = self._paths[index]
            if common is None:
                common = path
            elif path is not common:
                same = (above == beside for above, beside in zip(common, path, strict=False))
                common = common[: sum(1 for _ in takewhile(bool, same))]
        return list(common or ())


def _paths(units: list[Unit]) -> Iterator[tuple[str, ...]]:
    """For each unit the headings that it is under, itself included."""
    above: list[tuple[int, str]] = []
    path: tuple[str, ...] = ()
    for unit in units:
        if unit.level:
            above = [
                *(heading for heading in above if heading[0] < unit.level),
                (unit.level, unit.words[:_LONGEST_NAME]),
            ]
            path = tuple(words for _, words in above if words)
        yield path
