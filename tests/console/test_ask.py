"""Ask: the answer as it comes, citations that open the passage, what was left out, snapshots side by side."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install --group console"
).expect

GENERATOR = """
import os, pathlib, time
from kb_framework import api, hookimpl
from kb_framework.errors import KBError


@hookimpl(optionalhook=True)
def kb_generators():
    return [api.Generator("slow", f"{__name__}:Slow")]


class Slow:
    model = "slow-1"

    def generate(self, prompt):
        yield "They are rotated "
        gate = pathlib.Path(os.environ["GATE"])
        while not gate.exists():
            time.sleep(0.01)
        if gate.read_text() == "fail":
            raise KBError("the model has gone away")
        yield "every 90 days [F1], as said elsewhere [F9]. <img src=x onerror='window.hacked=1'>"
"""
QUESTION = "How often are access keys rotated?"


@pytest.fixture
def gate(
    kb_home: Path, kb_plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Lets the generator go on: with the rest of its answer, or with an error."""
    kb_plugin("slow", GENERATOR)
    monkeypatch.setenv("KB_KNOWLEDGE_GENERATOR", "slow")
    monkeypatch.setenv("GATE", str(tmp_path / "gate"))

    def opened(word: str = "go") -> None:
        written = tmp_path / "gate.new"
        written.write_text(word)
        written.rename(tmp_path / "gate")

    return opened


@pytest.fixture
def answering(gate: Callable[[str], None], request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("filled")


def ask(page: Page, url: str, question: str = QUESTION) -> None:
    page.goto(f"{url}/console/ask")
    page.get_by_label("Question").fill(question)
    page.get_by_label("Question").press("Enter")


def test_the_answer_is_shown_as_it_comes_and_its_citations_open_the_passage(
    answering: Any, gate: Callable[..., None], page: Page
) -> None:
    ask(page, answering.url)
    expect(page.get_by_label("Answer as it comes")).to_have_text(re.compile("They are rotated $"))
    assert page.url == f"{answering.url}/console/ask"

    gate()

    page.wait_for_url(re.compile("/console/ask/[0-9a-f-]{36}$"))
    answer = page.get_by_label("Answer", exact=True)
    expect(answer).to_contain_text("They are rotated every 90 days [F1]")
    expect(answer.get_by_text("F9 cites nothing")).to_be_visible()
    assert page.evaluate("window.hacked") is None
    answer.get_by_role("link", name="[F1]").click()
    assert page.url.endswith("#p-F1")
    expect(page.locator("#p-F1")).to_contain_text("Access keys are rotated every 90 days.")


def test_an_answer_that_breaks_off_says_why(
    answering: Any, gate: Callable[..., None], page: Page
) -> None:
    ask(page, answering.url)
    expect(page.get_by_label("Answer as it comes")).to_contain_text("They are rotated")

    gate("fail")

    expect(page.get_by_role("alert")).to_contain_text("the model has gone away")


def test_what_is_excluded_is_left_out_and_named_and_can_be_allowed_again(
    filled: Any, page: Page
) -> None:
    ask(page, filled.url)
    page.wait_for_url(re.compile("/console/ask/[0-9a-f-]{36}$"))
    first = page.url
    expect(page.locator("#p-F1")).to_contain_text("Access keys")

    page.get_by_role("button", name="Exclude F1").click()

    page.wait_for_url(lambda url: "/console/ask/" in url and url != first)
    expect(page.get_by_text("Everything that was found is left out")).to_be_visible()
    expect(page.get_by_text("excluded by the request")).to_be_visible()
    expect(page.get_by_text("with 1 chunk excluded")).to_be_visible()
    second = page.url
    page.get_by_role("button", name="Allow again").click()
    page.wait_for_url(lambda url: "/console/ask/" in url and url != second)
    expect(page.locator("#p-F1")).to_contain_text("Access keys")


def test_two_snapshots_side_by_side_show_what_only_one_of_them_has(filled: Any, page: Page) -> None:
    engine = filled.engine
    found = engine.knowledge_context(QUESTION)
    excluded = found["facts"][0]["chunk_id"]
    other = engine.knowledge_context("Which keys are rotated?", exclude=[excluded])
    page.goto(f"{filled.url}/console/ask/{found['snapshot_id']}?with={other['snapshot_id']}")

    expect(page.get_by_role("heading", name="Two snapshots")).to_be_visible()
    expect(page.get_by_role("heading", name=QUESTION)).to_be_visible()
    expect(page.get_by_role("heading", name="Which keys are rotated?")).to_be_visible()
    expect(page.get_by_text("only here").first).to_be_visible()


def test_a_chunk_lists_the_questions_that_used_it(filled: Any, page: Page) -> None:
    found = filled.engine.knowledge_context(QUESTION)
    page.goto(f"{filled.url}/console/knowledge/{found['facts'][0]['chunk_id']}")

    page.get_by_role("link", name=QUESTION).click()

    page.wait_for_url(f"**/console/ask/{found['snapshot_id']}")
