"""W5: pages and panels of plugins appear by themselves; one that fails costs its own card."""

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

SOURCE = """
from kb_framework import api, hookimpl


@hookimpl(optionalhook=True)
def kb_pages():
    return [
        api.Page("cities", "/cities", "Cities", target=f"{__name__}:cities"),
        api.Page("counts", "/counts", "Counts of documents", operation="document_facets"),
        api.Page("broken", "/broken", "Broken page", target=f"{__name__}:broken"),
    ]


@hookimpl(optionalhook=True)
def kb_panels():
    return [
        api.Panel("city", "document", "City", f"{__name__}:city"),
        api.Panel("breaks", "document", "Breaks", f"{__name__}:broken"),
        api.Panel("greeting", "home", "Greeting", f"{__name__}:greeting"),
    ]


@hookimpl(optionalhook=True)
def kb_page_assets():
    return [api.PageAsset("cities", "city_files:cities.css")]


def cities(call, query):
    return {"documents": call("document_facets")["documents"], "seen by": call("whoami")["user"]}


def city(call, document):
    return {"City": document["metadata"]["city"]} if document["metadata"] else None


def greeting(call, subject):
    return {"Says": "<script>window.hacked = 1</script>"}


def broken(call, subject):
    raise RuntimeError("<script>window.hacked = 1</script>")
"""


@pytest.fixture
def extended(kb_home: Path, kb_plugin, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """An engine with a plugin whose pages and panels work, and whose pages and panels do not."""
    kb_plugin("cities", SOURCE)
    files = tmp_path / "installed" / "city_files"
    files.mkdir()
    (files / "cities.css").write_text("body { --of-a-plugin: yes; }")
    return request.getfixturevalue("filled")


def test_a_plugins_page_is_in_the_menu_and_shows_what_it_returns(extended: Any, page: Page) -> None:
    page.goto(f"{extended.url}/console")
    page.get_by_role("link", name="Cities").click()

    expect(page.get_by_role("heading", name="Cities")).to_be_visible()
    expect(page.locator("main dl")).to_contain_text("3")
    assert page.evaluate("getComputedStyle(document.body).getPropertyValue('--of-a-plugin')") == (
        "yes"
    )


def test_a_page_of_an_operation_has_a_form_of_its_fields(extended: Any, page: Page) -> None:
    page.goto(f"{extended.url}/console/counts?doc_type=note")

    page.get_by_text("Filters", exact=True).click()
    expect(page.get_by_label("Doc type")).to_have_value("note")
    expect(page.locator("main")).to_contain_text("security")


def test_a_page_that_fails_is_a_card_with_its_plugins_name(
    extended: Any, open_page: Callable[..., Page]
) -> None:
    # The page is a 500, which the browser reports.
    page = open_page(expect_errors=True)
    page.goto(f"{extended.url}/console/broken")

    expect(page.get_by_text("The plugin cities could not show this page")).to_be_visible()
    assert page.evaluate("window.hacked") is None
    page.get_by_role("link", name="Documents", exact=True).click()
    expect(page.get_by_role("heading", name=re.compile("Documents 3"))).to_be_visible()


def test_a_panel_that_fails_costs_its_own_card(extended: Any, page: Page) -> None:
    added = extended.engine.add_note("Of Busan.", title="Busan", metadata={"city": "Busan"})
    page.goto(f"{extended.url}/console/documents/{added['document']['id']}")

    expect(page.get_by_text("The plugin cities could not show this")).to_be_visible()
    expect(page.get_by_role("heading", name="City")).to_be_visible()
    expect(page.get_by_role("heading", name="Busan")).to_be_visible()


def test_what_a_panel_returns_is_text(extended: Any, page: Page) -> None:
    page.goto(f"{extended.url}/console")

    expect(page.get_by_text("<script>window.hacked = 1</script>")).to_be_visible()
    assert page.evaluate("window.hacked") is None


def test_what_another_distribution_adds_appears_by_itself(filled: Any, page: Page) -> None:
    filled.engine.place_hold(document_ids=[1], reason="Audit of May")

    page.goto(f"{filled.url}/console")
    page.get_by_role("link", name="Legal holds").click()
    expect(page.locator("main")).to_contain_text("Audit of May")

    page.goto(f"{filled.url}/console/documents?on_hold=true")
    expect(page.get_by_role("heading", name=re.compile("Documents 1"))).to_be_visible()
    page.locator("a.title").click()
    expect(page.get_by_label("About the document")).to_contain_text("Audit of May")

    page.goto(f"{filled.url}/console/bulk/delete?document_ids=1,2")
    expect(page.get_by_role("alert")).to_contain_text("1 document will be refused")
