"""The input of a search, which depends on what plugins contribute."""

from __future__ import annotations

from kb_framework.api.parts import Plugins
from kb_framework.api.selection import with_filters
from kb_search.models import SearchIn


def search_model(plugins: Plugins) -> type[SearchIn]:
    """Return the model of a search with every filter that plugins offer."""
    return with_filters("SearchIn", SearchIn, plugins, "chunks")
