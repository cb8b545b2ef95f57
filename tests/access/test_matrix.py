"""A1: role × route × organization, for every route that the OpenAPI document lists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

NO_ID = "00000000-0000-4000-8000-00000000ffff"
ROLES = ("viewer", "editor", "admin")


@pytest.fixture(scope="module")
def keys(shared: Any) -> Iterator[dict[tuple[str, str], str]]:
    shared.owner.add_note("a note", tags=["a"])
    return {(role, org): shared.key(role, org) for role in ROLES for org in ("default", "acme")}


def ask(base: Any, key: str | None, operation: Any) -> tuple[int, dict[str, Any]]:
    """The request with ids that nobody has, and a body without fields: whoever is let in gets no further than that."""
    path = re.sub(
        r"\{[^}]*_id\}", lambda match: "999999" if match[0] in INTEGERS else NO_ID, operation.path
    )
    path = re.sub(r"\{[^}]*\}", "nobody", path)
    body = {} if operation.method in {"POST", "PUT", "PATCH"} else None
    reply = base.ask(key, operation.method, path, body)
    parsed = (
        json.loads(reply.body)
        if reply.headers.get("content-type", "").startswith("application/json")
        else {}
    )
    return reply.status, parsed if isinstance(parsed, dict) else {}


INTEGERS = {"{document_id}", "{job_id}"}


def is_refusal(status: int, body: dict[str, Any], permission: str) -> bool:
    """A 403 may have other reasons; the gate's names the permission."""
    details = (
        body.get("details")
        or (body["error"].get("details") if isinstance(body.get("error"), dict) else None)
        or body
    )
    return status == 403 and details.get("permission") == permission


def test_every_operation_publishes_its_permission(shared: Any) -> None:
    operations = shared.operations()

    assert len(operations) > 30
    assert [str(item) for item in operations if not item.permission and not item.public] == [
        # Everybody's own.
        "GET /api/v1/sessions",
        "POST /api/v1/sessions/link",
        "DELETE /api/v1/sessions/{session_id}",
        "GET /api/v1/whoami",
    ]
    assert [item.path for item in operations if item.public] == ["/api/v1/health/live"]


@pytest.mark.parametrize("org", ["default", "acme"])
@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_let_in_exactly_where_it_has_the_permission(
    shared: Any, keys: dict[Any, str], role: str, org: str
) -> None:
    roles = {
        item["name"]: set(item["permissions"])
        for item in shared.engine(keys["admin", org]).list_roles()["data"]
    }
    wrong = []
    for operation in shared.operations():
        if operation.public:
            continue
        status, body = ask(shared, keys[role, org], operation)
        expected = operation.permission not in {"", *roles[role]}
        if (
            is_refusal(status, body, operation.permission) is not expected
            or status in {401, 429}
            or status >= 500
        ):
            wrong.append((str(operation), operation.permission, status, body))

    assert wrong == []


def test_what_the_built_in_roles_are_for() -> None:
    """The rest of the matrix follows from the routes; this is what people rely on."""
    from kb_framework.bootstrap import read_bootstrap
    from kb_framework.plugins import Plugins

    roles = {item.name: item.role for item in Plugins(read_bootstrap()).permissions}
    assert {
        name: role
        for name, role in roles.items()
        if name.startswith(("documents", "knowledge", "research"))
    } == {
        "documents.read": "viewer",
        "documents.write": "editor",
        "documents.delete": "admin",
        "knowledge.view": "viewer",
        "knowledge.edit": "editor",
        "knowledge.deactivate": "editor",
        "knowledge.reclassify": "editor",
        "knowledge.set_policy": "editor",
        "knowledge.delete_hard": "admin",
        "research.search": "viewer",
        "research.add_to_knowledge": "editor",
    }


@pytest.mark.parametrize("wrong_key", [None, "kb_nonsense"], ids=["no key", "a wrong key"])
def test_without_a_key_nobody_is_let_in(shared: Any, keys: Any, wrong_key: str | None) -> None:
    open_to_all = []
    for operation in shared.operations():
        status, _ = ask(shared, wrong_key, operation)
        if status != 401 and not (wrong_key and status == 429):
            open_to_all.append(str(operation))

    assert open_to_all == ["GET /api/v1/health/live"]


def test_who_is_refused_is_refused_before_the_body_is_read(
    shared: Any, keys: dict[Any, str]
) -> None:
    for operation in shared.operations():
        if operation.method == "POST" and operation.permission == "documents.write":
            path = re.sub(r"\{[^}]*\}", NO_ID, operation.path)
            assert (
                shared.ask(keys["viewer", "acme"], "POST", path, b"no json at all").status == 403
            ), path
