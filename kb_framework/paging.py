"""Lists in pages, the same everywhere."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from kb_framework.validation import Model


class PageMeta(Model):
    """Which page of how many; `meta` of every list."""

    page: int
    per_page: int
    total: int
    total_pages: int


class Page(NamedTuple):
    """Which part of a list is wanted; pages count from 1."""

    number: int = 1
    per_page: int = 20

    def cut(self, query: sa.Select) -> sa.Select:
        return query.limit(self.per_page).offset((self.number - 1) * self.per_page)

    def meta(self, total: int) -> PageMeta:
        return PageMeta(page=self.number, per_page=self.per_page, total=total, total_pages=-(-total // self.per_page))
