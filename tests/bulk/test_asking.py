"""B11: over MCP, what exceeds the threshold is put to the person, where the client can ask; else the refusal is whole.

Real clients, of both generations of the protocol: one asks while the tool waits, the other between two calls.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import Client

from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine, connect
from kb_framework.edges.mcp.tools import bind_tools
from kb_framework.plugins import Plugins
from kb_testing.fixtures import RunningServer, kb_mcp

Mode = Literal["auto", "legacy"]
Action = Literal["accept", "decline", "cancel"]
REFUSED = {
    "error": "safety_threshold_exceeded",
    "message": "Operation would affect 3 of 4 documents (75.0%). Exceeds safety threshold of 70%. Use force: true to proceed.",
    "matched": 3,
    "total": 4,
    "percent": 75.0,
    "threshold": 70,
}


class Person:
    """Answers what it is asked, and remembers it; may do something else before it answers."""

    def __init__(self, action: Action, before: Any = None) -> None:
        self.action: Action = action
        self.before = before
        self.asked: list[str] = []

    async def __call__(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        if self.before:
            await asyncio.to_thread(self.before)
        return types.ElicitResult(
            action=self.action, content={} if self.action == "accept" else None
        )


def call(where: Any, mode: Mode, person: Person | None, tool: str, **arguments: Any) -> Any:
    async def run() -> Any:
        async with Client(
            where, mode=mode, elicitation_callback=person, read_timeout_seconds=600
        ) as client:
            return await client.call_tool(tool, arguments)

    result = asyncio.run(run())
    assert json.loads(result.content[0].text) == result.structured_content
    return result


@pytest.fixture(params=["stdio", "http"])
def served(request: pytest.FixtureRequest, kb_home: object) -> Iterator[tuple[Any, Engine]]:
    """Where a client connects to, and the engine behind it: four notes, three of them old."""
    if request.param == "http":
        server: RunningServer = request.getfixturevalue("kb_server")
        where: Any = f"{server.url}/mcp"
    else:
        where = kb_mcp()
    with connect() as engine:
        for number in range(4):
            engine.add_note(f"note {number}", tags=["old"] if number else [])
        yield where, engine


def left(engine: Engine) -> int:
    return engine.list_documents()["meta"]["total"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_b11_a_person_who_accepts_lets_it_happen(served: tuple[Any, Engine], mode: Mode) -> None:
    where, engine = served
    person = Person("accept")

    result = call(where, mode, person, "kb_bulk_delete", tags=["old"], doc_type="note")

    assert person.asked == [
        "This will delete 3 documents matching: tags=[old] type=note. "
        "That is 75.0% of 4, more than the safety threshold of 70%. Proceed?"
    ]
    assert not result.is_error
    assert (result.structured_content["succeeded"], left(engine)) == (3, 1)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("action", "said"), [("decline", "declined"), ("cancel", "did not answer")]
)
def test_b11_a_person_who_does_not_accept_changes_nothing(
    served: tuple[Any, Engine], mode: Mode, action: Action, said: str
) -> None:
    where, engine = served
    person = Person(action)

    result = call(where, mode, person, "kb_bulk_delete", tags=["old"])

    assert len(person.asked) == 1
    assert result.is_error
    assert result.structured_content["code"] == "declined"
    assert (
        result.structured_content["message"]
        == f"the person was asked, and {said}; nothing was changed"
    )
    assert left(engine) == 4
    assert engine.list_jobs(job_type="bulk_delete")["meta"]["total"] == 0


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_b11_a_client_that_cannot_ask_is_given_the_whole_refusal(
    served: tuple[Any, Engine], mode: Mode
) -> None:
    where, engine = served

    result = call(where, mode, None, "kb_bulk_delete", tags=["old"])

    assert result.is_error
    assert result.structured_content == REFUSED
    assert left(engine) == 4


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_b11_what_the_person_accepted_is_what_happens_or_nothing(
    kb_server: RunningServer, mode: Mode
) -> None:
    """A document that comes to match while the person thinks was not accepted."""
    with kb_server.engine as engine:
        for number in range(4):
            engine.post("/notes", {"text": f"note {number}", "tags": ["old"]})
        person = Person(
            "accept", before=lambda: engine.post("/notes", {"text": "one more", "tags": ["old"]})
        )

        result = call(f"{kb_server.url}/mcp", mode, person, "kb_bulk_delete", tags=["old"])

        assert result.is_error
        assert (result.structured_content["error"], result.structured_content["matched"]) == (
            "selection_changed",
            5,
        )
        assert engine.get("/documents")["meta"]["total"] == 5


def test_b11_nobody_is_asked_below_the_threshold_or_when_forced(kb_server: RunningServer) -> None:
    where, person = f"{kb_server.url}/mcp", Person("decline")
    with kb_server.engine as engine:
        for number in range(4):
            engine.post("/notes", {"text": f"note {number}"})

        below = call(where, "auto", person, "kb_bulk_tags", document_ids=[1], add=["x"])
        forced = call(where, "auto", person, "kb_bulk_set_tags", from_id=1, new_tags=[], force=True)

    assert (below.structured_content["succeeded"], forced.structured_content["succeeded"]) == (1, 4)
    assert person.asked == []


def test_b11_an_answer_to_a_question_that_was_never_asked_is_refused(
    kb_server: RunningServer,
) -> None:
    """A client that makes up state and answer has no plan that this engine signed."""
    with kb_server.engine as engine:
        engine.post("/notes", {"text": "note"})

        async def run() -> Any:
            async with Client(f"{kb_server.url}/mcp", read_timeout_seconds=600) as client:
                return await client.session.call_tool(
                    "kb_bulk_delete",
                    {"from_id": 1},
                    input_responses={"confirm": types.ElicitResult(action="accept", content={})},
                    request_state="eJyLBQAAXQBd.x",
                )

        result = asyncio.run(run())

        assert result.is_error
        assert engine.get("/documents")["meta"]["total"] == 1


def test_b11_descriptions_keep_filter_and_operation_apart(kb_home: object) -> None:
    tools = {
        name: tool.description
        for name, tool in bind_tools(Plugins(read_bootstrap()), "curate").items()
    }

    for name in ("kb_bulk_delete", "kb_bulk_tags", "kb_bulk_set_tags"):
        text = tools[name].description or ""
        assert "`tags` is a filter: it picks documents that have ALL of these tags" in text
        assert "never names tags to delete or change" in text
        assert "at least one" in text
        assert len(text) < 500
        properties = tools[name].input_schema["properties"]
        assert {"document_ids", "tags", "doc_type", "from_id", "to_id", "force"} <= set(properties)
        assert "ask" not in properties and "plan" not in properties
        filters = ("document_ids", "tags", "doc_type", "from_id", "to_id", "on_hold")
        assert all(properties[field]["description"].startswith("Selects") for field in filters)
    assert "`add` and `remove` say what is changed" in (tools["kb_bulk_tags"].description or "")
    assert "`new_tags` say what is changed" in (tools["kb_bulk_set_tags"].description or "")
    assert tools["kb_bulk_set_tags"].input_schema["required"] == ["new_tags"]
