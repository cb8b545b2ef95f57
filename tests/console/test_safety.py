"""W4: what was stored is never live; no other page can change anything; sessions are bound to a key."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from kb_testing.fixtures import Run

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install --group console"
).expect


EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>"\'><svg onload=window.hacked=1>'
LINK = "[click](javascript:window.hacked=1) ![image](http://evil.example/x.png) <a href=javascript:window.hacked=1>x</a>"


class Answer(NamedTuple):
    status: int
    headers: Any


def asked(server: Any, method: str, path: str, body: object = None, **headers: str) -> Answer:
    parts = urlsplit(server.url)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        sent["Content-Type"] = "application/json"
    with closing(http.client.HTTPConnection(parts.hostname or "", parts.port)) as connection:
        connection.request(method, path, json.dumps(body) if body is not None else None, sent)
        answer = connection.getresponse()
        answer.read()
        return Answer(answer.status, answer.headers)


def test_nothing_that_was_stored_runs(serving: Any, page: Page) -> None:
    engine = serving.engine
    added = engine.add_note(
        f"# {EVIL}\n\n{EVIL}\n\n{LINK}",
        title=EVIL,
        tags=[EVIL[:100].replace(",", "")],
        doc_type="x<b>",
        metadata={EVIL: EVIL},
        source_title=EVIL[:200],
        source_ref="javascript:window.hacked=1",
    )
    number = added["document"]["id"]
    engine.add_file(
        f"{EVIL.replace('/', '')}.md", b"# evil file\n\ntext", path="<script>1</script>.md"
    )
    chunk = engine.get(f"/documents/{number}/chunks")["data"][0]["id"]
    engine.bulk_tags(document_ids=[number], add=["<script>window.hacked=1</script>"])
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))

    for path in (
        "",
        "/documents",
        f"/documents/{number}",
        f"/documents/{number}?tab=chunks",
        f"/documents/{number}?tab=details",
        f"/documents/{number}?tab=history",
        f"/documents/{number + 1}",
        "/knowledge",
        f"/knowledge/{chunk}",
        "/search?query=evil+window+hacked&inspect=1",
        "/jobs",
        "/jobs/3",
        f"/bulk/tags?document_ids={number}&preview=1&add=%3Cscript%3E",
        "/documents?tags=%3Cscript%3Ewindow.hacked%3D1%3C%2Fscript%3E",
    ):
        page.goto(f"{serving.url}/console{path}")
        page.wait_for_load_state("networkidle")
        assert page.evaluate("window.hacked") is None, path
        assert (
            page.locator(
                "main script, main img, main svg[onload], main a[href^='javascript']"
            ).count()
            == 0
        )
    assert all(url.startswith((serving.url, "data:")) for url in loaded)


def test_the_original_is_a_download_that_can_do_nothing(filled: Any) -> None:
    answer = asked(filled, "GET", "/console/documents/1/file")

    assert answer.status == 200
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.headers["Content-Security-Policy"].startswith("sandbox")


def test_pages_allow_no_inline_script_and_no_frame(filled: Any) -> None:
    answer = asked(filled, "GET", "/console")
    policy = answer.headers["Content-Security-Policy"]

    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_change_needs_the_pages_own_origin_and_header(filled: Any) -> None:
    path, own = "/console/documents/1/delete", filled.url
    refused = [
        {},
        {"KB_Console": "1"},
        {"Origin": own},
        {"Origin": "http://evil.example", "KB_Console": "1"},
        {"Origin": "null", "KB_Console": "1"},
        {"Origin": own.replace("127.0.0.1", "localhost"), "KB_Console": "1"},
        {"Origin": own, "KB_Console": "yes"},
    ]
    for headers in refused:
        assert asked(filled, "POST", path, {}, **headers).status == 403, headers
    assert filled.engine.list_documents()["meta"]["total"] == 3

    assert asked(filled, "POST", path, {}, Origin=own, KB_Console="1").status == 200
    assert filled.engine.list_documents()["meta"]["total"] == 2


def test_a_form_elsewhere_changes_nothing(filled: Any, open_page: Callable[..., Page]) -> None:
    page = open_page(expect_errors=True)
    # Another address of the same machine is another site.
    elsewhere = filled.url.replace("127.0.0.1", "localhost")
    page.goto(f"{elsewhere}/console/sign-in")
    page.evaluate(
        """async (url) => {
            for (const type of ["text/plain", "application/x-www-form-urlencoded"]) {
                await fetch(url, {method: "POST", mode: "no-cors", headers: {"Content-Type": type}, body: "{}"}).catch(() => 0);
            }
            const headers = {"KB-Console": "1", "Content-Type": "application/json"};
            await fetch(url, {method: "POST", headers, body: "{}"}).catch(() => 0);
        }""",
        f"{filled.url}/console/documents/1/delete",
    )

    assert filled.engine.list_documents()["meta"]["total"] == 3


# Sessions


@pytest.fixture
def keyed(kb_home: Path, kb_run: Run, serve, fill):
    """An engine with keys: of an admin, an editor and a viewer, and of a viewer of another organization."""
    with serve() as server:
        yield server, *_with_keys(server, kb_run, fill)


def _with_keys(server: Any, kb_run: Run, fill: Any) -> tuple[dict[str, Any], dict[str, int]]:
    ids = fill(server.engine)
    keys = {
        role: json.loads(kb_run("keys", "create", "--user", role, "--role", role, "--json").stdout)
        for role in ("admin", "editor", "viewer")
    }
    keys["other"] = json.loads(
        kb_run(
            "keys", "create", "--user", "olaf", "--role", "admin", "--org", "lab", "--json"
        ).stdout
    )
    return keys, ids


def signed_in(page: Page, server: Any, key: str) -> Page:
    page.goto(f"{server.url}/console/sign-in")
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{server.url}/console")
    return page


def test_without_a_session_there_is_only_the_page_to_sign_in(
    keyed, open_page: Callable[..., Page]
) -> None:
    server, _, _ = keyed
    page = open_page(expect_errors=True)

    page.goto(f"{server.url}/console/documents")

    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert "Backups" not in page.content()


def test_a_link_opens_one_session_once(keyed, kb_run: Run, open_page: Callable[..., Page]) -> None:
    server, _, _ = keyed
    link = kb_run("console", "--print").stdout.strip()
    assert link.startswith(f"{server.url}/console/open#")
    page = open_page()

    page.goto(link)
    page.wait_for_url(f"{server.url}/console")

    expect(page.get_by_role("link", name="Access", exact=True)).to_be_visible()
    again = open_page(expect_errors=True)
    again.goto(link)
    expect(again.get_by_role("alert")).to_contain_text("used already")


def test_the_cookie_is_out_of_scripts_reach_and_only_the_consoles(
    keyed, open_page: Callable[..., Page]
) -> None:
    server, keys, _ = keyed
    page = signed_in(open_page(), server, keys["admin"]["key"])
    (cookie,) = page.context.cookies()

    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert cookie["path"] == "/console"
    sent = {"Cookie": f"{cookie['name']}={cookie['value']}"}
    assert asked(server, "GET", "/console/documents", **sent).status == 200
    assert asked(server, "GET", "/api/v1/documents", **sent).status == 401
    assert asked(server, "POST", "/api/v1/bulk/delete", {"from_id": 0}, **sent).status == 401


def test_a_session_ends_with_its_key(keyed, open_page: Callable[..., Page]) -> None:
    server, keys, _ = keyed
    page = signed_in(open_page(expect_errors=True), server, keys["editor"]["key"])
    admin = signed_in(open_page(), server, keys["admin"]["key"])

    admin.goto(f"{server.url}/console/access")
    row = admin.get_by_role("row").filter(has_text="editor").first
    row.get_by_role("button", name="Revoke").click()
    admin.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(admin.get_by_text("revoked")).to_be_visible()

    page.goto(f"{server.url}/console/documents")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_signing_out_ends_the_session(keyed, open_page: Callable[..., Page]) -> None:
    server, keys, _ = keyed
    page = signed_in(open_page(expect_errors=True), server, keys["viewer"]["key"])
    (cookie,) = page.context.cookies()

    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/console/signed-out")

    assert (
        asked(server, "GET", "/console", Cookie=f"{cookie['name']}={cookie['value']}").status == 401
    )


def test_a_viewer_sees_a_viewers_console(keyed, open_page: Callable[..., Page]) -> None:
    server, keys, ids = keyed
    page = signed_in(open_page(), server, keys["viewer"]["key"])

    expect(page.get_by_role("link", name="Access", exact=True)).to_have_count(0)
    expect(page.get_by_role("button", name="Add note")).to_have_count(0)
    page.goto(f"{server.url}/console/documents")
    expect(page.locator("input[name=row]")).to_have_count(0)
    page.goto(f"{server.url}/console/documents/{ids['keys']}?tab=details")
    expect(page.get_by_role("button", name="Delete document")).to_have_count(0)
    (cookie,) = page.context.cookies()
    sent = {
        "Cookie": f"{cookie['name']}={cookie['value']}",
        "Origin": server.url,
        "KB_Console": "1",
    }
    assert (
        asked(server, "POST", f"/console/documents/{ids['keys']}/delete", {}, **sent).status == 403
    )
    assert asked(server, "GET", "/console/bulk/delete?from_id=0", **sent).status == 403
    assert asked(server, "GET", "/console/access", **sent).status == 403


def test_an_editor_changes_tags_and_deletes_nothing(keyed, open_page: Callable[..., Page]) -> None:
    server, keys, _ = keyed
    page = signed_in(open_page(), server, keys["editor"]["key"])
    page.goto(f"{server.url}/console/documents")
    page.get_by_label("Select Backups").check()
    page.get_by_text("Change …").click()

    bar = page.get_by_role("region", name="Selection")
    expect(bar.get_by_role("link", name="Add and remove tags")).to_be_visible()
    expect(bar.get_by_role("link", name="Delete documents")).to_have_count(0)


def test_another_organization_sees_nothing_of_this_one(
    keyed, open_page: Callable[..., Page]
) -> None:
    server, keys, ids = keyed
    page = signed_in(open_page(expect_errors=True), server, keys["other"]["key"])

    page.goto(f"{server.url}/console/documents")
    expect(page.get_by_text("No documents match")).to_be_visible()
    page.goto(f"{server.url}/console/documents/{ids['keys']}")
    expect(page.get_by_role("alert")).to_contain_text("There is no document")
