"""Extraction with every installed plugin, ended after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kb_documents.extraction import Extraction

from kb_framework.bootstrap import read_bootstrap
from kb_framework.plugins import Plugins
from kb_framework.settings import HostSettings

MakeExtraction = Callable[..., Extraction]


@pytest.fixture
def make_extraction(kb_home: object) -> Iterator[MakeExtraction]:
    """Builds an Extraction with given settings, over whatever plugins are installed by then."""
    made: list[Extraction] = []

    def make(**settings: Any) -> Extraction:
        made.append(
            Extraction(
                Plugins(read_bootstrap()), HostSettings(**{"extract_timeout": 600, **settings})
            )
        )
        return made[-1]

    yield make
    for extraction in made:
        extraction.close()


@pytest.fixture
def extraction(make_extraction: MakeExtraction) -> Extraction:
    return make_extraction()
