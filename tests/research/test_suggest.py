"""R1: suggestions are right often enough to be useful, on snippets that were not looked at, and the page says how often."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from kb_research.suggest import suggest

DOCS = Path(__file__).parents[2] / "docs" / "research.md"


@pytest.fixture
def evaluate() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "research_evaluate", Path(__file__).parent / "evaluate.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_r1_kinds_and_policies_are_mostly_right_on_unseen_snippets(evaluate: ModuleType) -> None:
    assert evaluate.accuracy("unseen", "kind") >= 0.85
    assert evaluate.accuracy("unseen", "policy") >= 0.85


def test_r1_nothing_that_is_said_to_be_secret_is_suggested_for_use(evaluate: ModuleType) -> None:
    found = evaluate.confusion("unseen", "policy") + evaluate.confusion("seen", "policy")

    assert found["never_generate", "inspiration_only"] == 0
    assert found["never_generate", "normal"] <= 1


def test_r1_the_page_shows_the_tables_as_they_are(evaluate: ModuleType) -> None:
    if not DOCS.is_file():
        pytest.skip("docs/ is not here")

    page = DOCS.read_text(encoding="utf-8")
    for table in evaluate.report().split("\n\n"):
        assert table in page, "run: python tests/research/evaluate.py"


@pytest.mark.parametrize(
    "text", ["", "\n", "?", "”", "x" * 10_000, "“" * 5_000, "a " * 5_000, "\n    x" * 2_000]
)
def test_r1_any_text_gets_a_suggestion_quickly(text: str) -> None:
    assert suggest(text).kind in {"fact", "angle", "example", "quote"}
