"""Selecting documents and chunks by filters."""

from __future__ import annotations

from kb_framework.pipelines.selection import SCOPES as SCOPES
from kb_framework.pipelines.selection import Filtered as Filtered
from kb_framework.pipelines.selection import filter_field as filter_field
from kb_framework.pipelines.selection import with_filters as with_filters
from kb_framework.storage.hints import why_empty as why_empty
