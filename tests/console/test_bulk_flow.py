"""W3: the page is selected first, then all that match; a preview is a frozen plan; then the job."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from kb_framework.client import Engine

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install --group console"
).expect


def add(engine: Engine, count: int, *tags: str) -> None:
    for number in range(count):
        engine.add_note(f"{tags[0]} number {number}", title=f"{tags[0]} {number}", tags=[*tags])


def bar(page: Page):
    return page.get_by_role("region", name="Selection")


def test_all_that_match_is_a_second_step_and_named_with_its_number(
    serving: Any, page: Page
) -> None:
    add(serving.engine, 60, "old")
    add(serving.engine, 30, "new")
    page.goto(f"{serving.url}/console/documents?tags=old")

    page.get_by_label("Select the 50 rows of this page").check()

    expect(bar(page)).to_contain_text("50 selected on this page")
    page.get_by_role("button", name="Select all 60 that match").click()
    expect(bar(page)).to_contain_text("All 60 that match are selected")

    page.get_by_text("Change …").click()
    bar(page).get_by_role("link", name="Add and remove tags").click()
    expect(page.get_by_role("heading", name="60 documents selected")).to_be_visible()
    page.get_by_label("Add", exact=True).fill("reviewed")
    page.get_by_role("button", name="Preview").click()
    expect(
        page.get_by_role("heading", name="This will change the tags of 60 of 90 documents")
    ).to_be_visible()
    assert serving.engine.list_documents(tags=["reviewed"])["meta"]["total"] == 0

    page.get_by_role("button", name=re.compile("60 documents")).click()

    expect(page.get_by_role("status").filter(has_text="60 of 60 done")).to_be_visible()
    assert serving.engine.list_documents(tags=["reviewed"])["meta"]["total"] == 60


def test_rows_that_were_chosen_by_hand_are_deleted_and_no_others(filled: Any, page: Page) -> None:
    page.goto(f"{filled.url}/console/documents")
    page.get_by_label("Select Backups").check()
    page.get_by_text("Change …").click()
    bar(page).get_by_role("link", name="Delete documents").click()

    button = page.get_by_role("button", name="Delete 1 document")
    expect(button).to_have_class(re.compile("danger"))
    button.click()

    expect(page.get_by_role("status").filter(has_text="1 of 1 done")).to_be_visible()
    left = {item["title"] for item in filled.engine.list_documents()["data"]}
    assert "Backups" not in left
    assert len(left) == 2


def test_beyond_the_threshold_the_number_is_typed(filled: Any, page: Page) -> None:
    page.goto(f"{filled.url}/console/bulk/delete?from_id=0")
    page.get_by_role("button", name="Delete 3 documents").click()
    assert filled.engine.list_documents()["meta"]["total"] == 3

    page.get_by_label(re.compile("to go beyond the threshold")).fill("3")
    page.get_by_role("button", name="Delete 3 documents").click()

    expect(page.get_by_role("status").filter(has_text="3 of 3 done")).to_be_visible()
    assert filled.engine.list_documents()["meta"]["total"] == 0


def test_a_set_that_a_second_tab_changed_is_refused(
    filled: Any, open_page: Callable[..., Page]
) -> None:
    # The refusal is a 409, which the browser reports.
    page = open_page(expect_errors=True)
    page.goto(f"{filled.url}/console/bulk/tags?tags=draft&preview=1&add=reviewed")
    expect(page.get_by_role("heading", name="2 documents selected")).to_be_visible()
    filled.engine.add_note("A third draft.", tags=["draft"])

    page.get_by_role("button", name=re.compile("2 documents")).click()

    expect(page.get_by_role("alert")).to_contain_text("preview")
    assert filled.engine.list_documents(tags=["reviewed"])["meta"]["total"] == 0


def test_a_plan_that_expired_is_refused(
    kb_home, monkeypatch: pytest.MonkeyPatch, open_page: Callable[..., Page], request
) -> None:
    monkeypatch.setenv("KB_BULK_PLAN_SECONDS", "1")
    filled: Any = request.getfixturevalue("filled")
    page = open_page(expect_errors=True)
    page.goto(f"{filled.url}/console/bulk/tags?tags=draft&preview=1&add=reviewed")
    # What the page holds is older than its plan once its own time has passed.
    page.wait_for_function(
        "Date.now() > Date.parse(document.querySelector('main time[datetime]').dateTime) + 50"
    )

    page.get_by_role("button", name=re.compile("2 documents")).click()

    expect(page.get_by_role("alert")).to_be_visible()
    assert filled.engine.list_documents(tags=["reviewed"])["meta"]["total"] == 0


def test_a_lost_connection_is_said_and_tried_again(
    filled: Any, open_page: Callable[..., Page]
) -> None:
    page = open_page(expect_errors=True)
    page.goto(f"{filled.url}/console/documents")
    page.context.set_offline(True)
    page.get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("alert")).to_contain_text("The engine does not answer")

    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()

    expect(page.get_by_role("heading", name=re.compile("Jobs"))).to_be_visible()


def test_chunks_are_changed_by_the_same_flow(filled: Any, page: Page) -> None:
    page.goto(f"{filled.url}/console/knowledge")
    page.locator("input[name=row]").first.check()
    page.get_by_text("Change …").click()
    bar(page).locator("a[data-kind=set_policy]").click()
    page.get_by_label("Usage policy").select_option("never_generate")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name=re.compile("1 chunk$")).click()

    expect(page.get_by_role("status").filter(has_text="1 of 1 done")).to_be_visible()
    found = filled.engine.get("/knowledge/chunks", policy="never_generate")
    assert found["meta"]["total"] == 1


def test_what_was_found_by_words_is_selected_and_nothing_else(serving: Any, page: Page) -> None:
    add(serving.engine, 60, "pump")
    add(serving.engine, 5, "valve")
    page.goto(f"{serving.url}/console/knowledge?query=pump")
    page.get_by_label("Select the 50 rows of this page").check()
    page.get_by_role("button", name="Select all 60 that match").click()
    page.get_by_text("Change …").click()
    bar(page).locator("a[data-kind=deactivate]").click()
    page.get_by_role("button", name="Preview").click()
    # 60 of 65 are beyond the threshold, so the number is typed.
    page.get_by_label(re.compile("to go beyond the threshold")).fill("60")
    page.get_by_role("button", name=re.compile("60 chunks$")).click()

    expect(page.get_by_role("status").filter(has_text="60 of 60 done")).to_be_visible()
    assert serving.engine.list_chunks(status="active")["meta"]["total"] == 5


def test_a_title_that_is_typed_narrows_the_list_and_what_is_selected(
    serving: Any, page: Page
) -> None:
    add(serving.engine, 60, "pump")
    add(serving.engine, 60, "valve")
    page.goto(f"{serving.url}/console/documents")
    page.get_by_label("Title or path").fill("valve")
    page.wait_for_url("**/console/documents?named=valve")
    page.get_by_label("Select the 50 rows of this page").check()
    page.get_by_role("button", name="Select all 60 that match").click()
    page.get_by_text("Change …").click()
    bar(page).get_by_role("link", name="Add and remove tags").click()

    expect(page.get_by_role("heading", name="60 documents selected")).to_be_visible()


def test_a_changed_filter_says_that_the_selection_is_gone(filled: Any, page: Page) -> None:
    page.goto(f"{filled.url}/console/documents")
    page.get_by_label("Select Backups").check()

    page.get_by_role("link", name="draft").first.click()

    expect(
        page.get_by_role("status").filter(has_text="1 row is no longer selected")
    ).to_be_visible()


def test_going_back_from_a_change_brings_the_selection_back(filled: Any, page: Page) -> None:
    page.goto(f"{filled.url}/console/documents")
    page.get_by_label("Select Backups").check()
    page.get_by_text("Change …").click()
    bar(page).get_by_role("link", name="Add and remove tags").click()
    expect(page.get_by_role("heading", name="1 document selected")).to_be_visible()

    page.go_back()

    expect(page.get_by_label("Select Backups")).to_be_checked()
    expect(bar(page)).to_contain_text("1 selected on this page")


def test_the_filters_of_a_preview_become_a_view(filled: Any, page: Page) -> None:
    page.goto(f"{filled.url}/console/bulk/tags?tags=draft&preview=1&add=reviewed")
    expect(page.get_by_text(re.compile("The preview holds until"))).to_be_visible()
    page.get_by_text("Save as view").click()
    page.get_by_label("Name").fill("drafts")
    page.get_by_role("button", name="Save view").click()

    expect(page.get_by_role("heading", name="drafts 2")).to_be_visible()
    assert filled.engine.get_view("drafts")["filters"] == {"tags": ["draft"]}


def tab_to(page: Page, condition: str) -> None:
    """Press Tab until what has the focus meets a condition."""
    for _ in range(80):
        if page.evaluate(f"(() => {{ const at = document.activeElement; return {condition}; }})()"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"no Tab leads to {condition}")


def test_the_whole_flow_needs_no_mouse(filled: Any, page: Page) -> None:
    page.goto(f"{filled.url}/console/documents?sort=title")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(bar(page)).to_contain_text("1 selected on this page")
    page.keyboard.press("Control+k")
    page.keyboard.type("add and remove")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="1 document selected")).to_be_visible()
    tab_to(page, "at.id === 'change-add'")
    page.keyboard.type("reviewed")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=re.compile("^This will"))).to_be_visible()
    tab_to(page, "at.tagName === 'BUTTON' && at.textContent.endsWith('1 document')")
    page.keyboard.press("Enter")

    expect(page.get_by_role("status").filter(has_text="1 of 1 done")).to_be_visible()
    found = filled.engine.list_documents(tags=["reviewed"])["data"]
    assert [item["title"] for item in found] == ["Access keys"]


KIND = """
from kb_framework import api, hookimpl
from kb_framework.api.models import Body
from typing import Literal

class Stamp(Body):
    colour: Literal["red", "green"]

    def apply(self, tx, selected):
        import sqlalchemy as sa
        from kb_framework.api.tables import documents
        tx.execute(sa.update(documents).where(documents.c.id.in_(selected)).values(doc_type=self.colour))

@hookimpl
def kb_mutation_kinds():
    return [api.MutationKind("stamp", f"{__name__}:Stamp", verb="stamp", help="Stamp documents.")]
"""


def test_a_plugins_kind_is_in_the_menu_with_a_form_of_its_fields(
    kb_home, kb_plugin, request, page: Page
) -> None:
    kb_plugin("stamp", KIND)
    filled: Any = request.getfixturevalue("filled")
    page.goto(f"{filled.url}/console/documents")
    page.get_by_label("Select Backups").check()
    page.get_by_text("Change …").click()
    bar(page).get_by_role("link", name="Stamp documents").click()
    page.get_by_label("Colour").select_option("green")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Stamp 1 document").click()

    expect(page.get_by_role("status").filter(has_text="1 of 1 done")).to_be_visible()
    assert filled.engine.list_documents(doc_type="green")["meta"]["total"] == 1
