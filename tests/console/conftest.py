"""A real Chromium, an engine that serves, and pages that must raise nothing in the browser's console."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kb_framework.client import Engine, connect
from kb_testing.fixtures import start_server, stop_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Only a page that never becomes what a test waits for takes so long, on a busy machine too.
_MILLISECONDS = 1000 * int(os.environ.get("KB_TEST_BROWSER_SECONDS", "240"))


def _chromium() -> str | None:
    found = os.environ.get("KB_TEST_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
    return found if Path(found).exists() else None


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A browser, started once."""
    path = _chromium()
    if path is None:
        pytest.skip("no browser: apt-get install chromium, or set KB_TEST_CHROMIUM")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=_MILLISECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=_FLAGS, timeout=_MILLISECONDS
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages; in the end none of them may have reported an error that the test did not expect."""
    contexts: list[BrowserContext] = []
    errors: list[str] = []

    def opened(*, width: int = 1280, scheme: Any = "light", expect_errors: bool = False) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        context.set_default_timeout(_MILLISECONDS)
        contexts.append(context)
        page = context.new_page()
        if not expect_errors:
            page.on(
                "console",
                lambda said: (
                    errors.append(f"{page.url}: {said.text}")
                    if said.type in ("error", "warning")
                    else None
                ),
            )
        page.on("pageerror", lambda error: errors.append(f"{page.url}: {error}"))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    return open_page()


class Site(NamedTuple):
    """A running engine, as a browser and as a client see it."""

    url: str
    engine: Engine


@contextmanager
def served() -> Iterator[Site]:
    """`kb serve` on the data folder of this environment."""
    server = start_server()
    try:
        with connect() as engine:
            yield Site(server.url, engine)
    finally:
        stop_server(server)


@pytest.fixture(scope="session")
def serve() -> Callable[[], AbstractContextManager[Site]]:
    return served


@pytest.fixture
def serving(kb_home: Path) -> Iterator[Site]:
    """`kb serve` without keys, on a new data folder."""
    with served() as site:
        yield site


@pytest.fixture(scope="session")
def fill() -> Callable[[Engine], dict[str, int]]:
    """Adds a handful of documents; returns their ids by name."""
    texts = {
        "keys": (
            "# Access keys\n\nAccess keys are rotated every 90 days.",
            ["security", "draft"],
        ),
        "backup": (
            "# Backups\n\nA backup is made every night and kept for a month.",
            ["operations"],
        ),
        "plain": ("Invoices are paid within thirty days.", ["finance", "draft"]),
    }

    def filled(engine: Engine) -> dict[str, int]:
        return {
            name: engine.add_note(text, tags=tags)["document"]["id"]
            for name, (text, tags) in texts.items()
        }

    return filled


@pytest.fixture
def filled(serving: Site, fill: Callable[[Engine], dict[str, int]]) -> Site:
    fill(serving.engine)
    return serving
