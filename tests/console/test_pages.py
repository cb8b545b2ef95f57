"""W1, W2: every page loads without an error, is accessible, works at 375 px, in light and in dark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install --group console"
).expect
Axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="pip install --group console"
).Axe


# Addresses, with the ids that they name in braces.
PAGES = {
    "home": "",
    "search": "/search?query=access+keys&inspect=1",
    "search-grouped": "/search?query=keys+backup+invoices&group=document&mode=lexical",
    "search-empty": "/search",
    "documents": "/documents",
    "documents-none": "/documents?tags=nosuch",
    "document": "/documents/1",
    "chunks": "/documents/1?tab=chunks",
    "details": "/documents/1?tab=details",
    "history": "/documents/1?tab=history",
    "bulk": "/bulk/tags?document_ids=1,2&preview=1&add=reviewed",
    "bulk-form": "/bulk/set_tags?tags=draft",
    "bulk-delete": "/bulk/delete?from_id=0",
    "knowledge": "/knowledge",
    "knowledge-log": "/knowledge/log",
    "chunk": "/knowledge/{chunk}",
    "ask": "/ask",
    "snapshot": "/ask/{snapshot}",
    "snapshots": "/ask/{snapshot}?with={other}",
    "research": "/research",
    "research-saved": "/research/{research}",
    "jobs": "/jobs",
    "job": "/jobs/1",
    "job-bulk": "/jobs/{job}",
    "access": "/access",
    "users": "/access?tab=users",
    "roles": "/access?tab=roles",
    "sessions": "/access?tab=sessions",
    "audit": "/access?tab=audit",
    "plugins": "/engine",
    "settings": "/engine?tab=settings",
    "health": "/engine?tab=health",
    "missing": "/documents/999",
}
WIDTHS = (1440, 375)
SHOTS = os.environ.get("KB_TEST_SCREENSHOTS")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, serve, fill) -> Iterator[Any]:
    """One engine for all pages: they only read."""
    home = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patched:
        for name in [name for name in os.environ if name.startswith("KB_") and "TEST" not in name]:
            patched.delenv(name)
        patched.setenv("KB_DATA_DIR", str(home / "kb"))
        patched.setenv("XDG_CONFIG_HOME", str(home / "config"))
        with serve() as site:
            yield site, _ids(site.engine, fill(site.engine))


def _ids(engine: Any, documents: dict[str, int]) -> dict[str, Any]:
    """Return the ids of what the pages show, made on the way."""
    chunk = engine.get_document_chunks(documents["keys"])["data"][0]["id"]
    engine.set_chunk_policy(chunk, "inspiration_only", reason="to be shown in the log")
    question = "How often are access keys rotated?"
    return {
        "chunk": chunk,
        "snapshot": engine.knowledge_context(question)["snapshot_id"],
        "other": engine.knowledge_context(question, exclude=[chunk])["snapshot_id"],
        "research": engine.research_search("backup")["saved_id"],
        "job": engine.bulk_tags(tags=["draft"], add=["seen"])["job_id"],
    }


@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_fits_and_is_accessible(
    served: Any, open_page: Callable[..., Page], name: str
) -> None:
    site, ids = served
    # A page of what is not there is a 404, which the browser reports.
    page = open_page(expect_errors=name == "missing")
    page.goto(f"{site.url}/console{PAGES[name].format(**ids)}")
    page.wait_for_load_state("networkidle")
    expect(page.locator("h1")).to_have_count(1)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = Axe().run(page).response["violations"]
            serious = [
                (item["id"], item["nodes"][0]["html"][:300])
                for item in found
                if item["impact"] in ("serious", "critical")
            ]
            assert serious == [], f"{name} at {width} px, {scheme}"
            if SHOTS:
                page.screenshot(path=str(Path(SHOTS) / f"{name}-{scheme}-{width}.png"))


def test_the_root_leads_to_the_console(served: Any, page: Page) -> None:
    site, _ = served
    page.goto(site.url)

    assert page.url == f"{site.url}/console"


def test_the_first_load_is_small(served: Any, page: Page) -> None:
    sizes: list[int] = []
    page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    page.goto(f"{served[0].url}/console/documents")
    page.wait_for_load_state("networkidle")

    assert sum(sizes) < 60_000


def test_the_address_is_the_state_and_back_goes_back(served: Any, page: Page) -> None:
    page.goto(f"{served[0].url}/console/documents")
    page.get_by_role("columnheader", name="Title").get_by_role("link").click()
    expect(page.get_by_role("columnheader", name="Title ↓")).to_be_visible()
    assert "sort=-title" in page.url

    page.go_back()

    expect(page.get_by_role("columnheader", name="Changed ↓")).to_be_visible()
    assert "sort" not in page.url


def test_everything_is_reached_by_keys_alone(served: Any, page: Page) -> None:
    page.goto(f"{served[0].url}/console")
    page.keyboard.press("Control+k")
    page.keyboard.type("docu")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/documents")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_role("region", name="Selection")).to_contain_text("1 selected on this page")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.closest('[data-row]') !== null")
    page.keyboard.press("Control+k")
    page.keyboard.type("add and remove")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/bulk/tags?document_ids=*")
    expect(page.get_by_role("heading", name="Add and remove tags")).to_be_visible()


def test_each_page_says_the_same_as_command_request_and_tool_call(served: Any, page: Page) -> None:
    page.goto(f"{served[0].url}/console/search?query=access+keys&mode=lexical")
    page.get_by_text("Copy as").click()

    expect(page.get_by_label("Command: search")).to_contain_text(
        "kb search 'access keys' --mode lexical"
    )
    expect(page.get_by_label("HTTP request: search")).to_contain_text("/api/v1/search")
    expect(page.get_by_label("MCP call: search")).to_contain_text(
        'kb_search({"query": "access keys"'
    )
