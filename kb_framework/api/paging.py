"""Lists in pages, the same everywhere."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import sqlalchemy as sa
from pydantic import Field

from kb_framework.api.models import Model, Question


class PageMeta(Model):
    """Which page of how many; `meta` of every list."""

    page: int
    per_page: int
    total: int
    total_pages: int


def _is_absent(value: object) -> bool:
    return value is None


# A further field of a list: why it is empty.
Hint = Annotated[
    str | None,
    Field(
        description="Why the list is empty: which filter value nothing has.", exclude_if=_is_absent
    ),
]


class PageIn(Question):
    """Which page of a list is wanted; the base of the inputs of lists."""

    page: Annotated[int, Field(ge=1, le=2**31 - 1, description="Pages count from 1.")] = 1
    per_page: Annotated[
        int, Field(ge=1, le=100, description="How many on a page, at most 100.")
    ] = 20

    @property
    def wanted(self) -> Page:
        return Page(self.page, self.per_page)


class Page(NamedTuple):
    """Which part of a list is wanted; pages count from 1."""

    number: int = 1
    per_page: int = 20

    def cut(self, query: sa.Select) -> sa.Select:
        return query.limit(self.per_page).offset((self.number - 1) * self.per_page)

    def meta(self, total: int) -> PageMeta:
        return PageMeta(
            page=self.number,
            per_page=self.per_page,
            total=total,
            total_pages=-(-total // self.per_page),
        )
