"""A1, A2: keys, roles and who may hand them out; what the local person needs no key for."""

from __future__ import annotations

import hmac
import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from kb_access import authentication
from kb_access import keys as key_format
from kb_access.keys import make_key, parse_key
from kb_access.tables import api_keys

from kb_framework.api.times import now
from kb_framework.client import connect
from kb_framework.errors import EngineError
from kb_testing.fixtures import Run, start_server, stop_server

NOTES = "/api/v1/notes"
DOCUMENTS = "/api/v1/documents"


def stored(base: Any) -> list[dict[str, Any]]:
    with base.kb.store.read() as tx:
        return [dict(row) for row in tx.rows(sa.select(api_keys))]


def change(base: Any, key_id: str, **values: Any) -> None:
    with base.kb.store.write() as tx:
        tx.execute(sa.update(api_keys).where(api_keys.c.id == key_id).values(values))


# What a key is


def test_a_key_is_recognisable_and_checks_itself() -> None:
    keys = [make_key() for _ in range(50)]

    assert len({key.text for key in keys}) == len({key.prefix for key in keys}) == 50
    for key in keys:
        assert re.fullmatch(r"kb_[0-9A-Za-z]{48}", key.text)
        assert parse_key(key.text) == (key.prefix, key.secret_hash)
        swapped = key.text[:20] + ("a" if key.text[20] != "a" else "b") + key.text[21:]
        assert parse_key(swapped) is None
    for text in (
        "",
        "kb_",
        "kb_" + "a" * 48,
        keys[0].text + "a",
        keys[0].text.upper(),
        "Bearer x",
        "kb_é" + "a" * 47,
    ):
        assert parse_key(text) is None


def test_of_a_key_only_a_hash_is_kept_and_it_is_shown_once(base: Any) -> None:
    made = base.owner.post("/keys", {"user": "ann", "role": "viewer"})

    secret = made["key"][len(made["prefix"]) :]
    everything = b"".join(
        path.read_bytes() for path in base.kb.settings.host.data_dir.glob("kb.sqlite*")
    )
    assert secret.encode() not in everything
    assert secret[:16].encode() not in everything
    assert base.owner.get("/keys")["data"] == [
        {name: value for name, value in made.items() if name != "key"}
    ]
    assert "secret_hash" not in json.dumps(base.owner.get("/keys"))
    assert secret not in json.dumps(base.owner.get("/audit"))


def test_the_hash_is_compared_in_constant_time_also_when_the_key_is_unknown(
    base: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = base.key("viewer")
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def watched(one: Any, other: Any) -> bool:
        compared.append((len(one), len(other)))
        return real(one, other)

    monkeypatch.setattr(authentication.hmac, "compare_digest", watched)
    # The beginning of a real key, with another secret; and a key that nobody has.
    forged = make_key().text
    near = key[:13] + forged[13:45]
    near += key_format._checksum(near[3:])

    assert base.ask(near, "GET", DOCUMENTS).status == 401
    assert base.ask(forged, "GET", DOCUMENTS).status == 401
    assert compared == [(64, 64), (64, 64)]


# Local default, and the first key


def test_without_any_key_the_local_person_is_admin(base: Any) -> None:
    assert base.ask(None, "POST", NOTES, {"text": "a note"}).status == 201
    who = json.loads(base.ask(None, "GET", "/api/v1/whoami").body)
    assert (who["access_control"], who["local"], who["organization"], who["role"]) == (
        False,
        True,
        "default",
        "admin",
    )
    assert set(who["permissions"]) == {item.name for item in base.plugins.permissions}


def test_the_first_key_switches_access_control_on_and_revoking_the_last_does_not_switch_it_off(
    base: Any,
) -> None:
    made = base.owner.post("/keys", {"user": "ann", "role": "admin"})

    refused = base.ask(None, "GET", DOCUMENTS)
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert base.ask(made["key"], "GET", DOCUMENTS).status == 200

    base.owner.delete(f"/keys/{made['id']}")
    assert base.ask(made["key"], "GET", DOCUMENTS).status == 401
    assert base.ask(None, "GET", DOCUMENTS).status == 401
    assert base.owner.get("/documents")["meta"]["total"] == 0


def test_a_wrong_key_is_refused_also_before_any_was_made(base: Any) -> None:
    for header in ("Bearer nonsense", "Bearer", "Basic YTpi", "Bearer " + make_key().text, "x"):
        assert base.ask(None, "GET", DOCUMENTS, headers={"Authorization": header}).status == 401


def test_what_everyone_may_ask_needs_no_key(base: Any) -> None:
    base.key("viewer")

    for path in ("/api/v1/health/live", "/schema/openapi.json", "/schema/swagger", "/"):
        assert base.ask(None, "GET", path).status in {200, 302}, path
    assert base.ask(None, "GET", "/api/v1/nowhere").status == 404


# The life of a key


def test_a_key_ends_when_it_said(base: Any) -> None:
    made = base.owner.post("/keys", {"user": "ann", "role": "viewer", "expires": "1h"})
    assert base.ask(made["key"], "GET", DOCUMENTS).status == 200

    change(base, made["id"], expires_at=now())

    assert base.ask(made["key"], "GET", DOCUMENTS).status == 401
    assert base.owner.get("/keys")["data"][0]["state"] == "expired"


def test_a_rotated_key_keeps_its_id_and_role_and_the_old_one_ends_at_once(base: Any) -> None:
    old = base.owner.post("/keys", {"user": "ann", "role": "editor"})

    new = base.owner.post(f"/keys/{old['id']}/rotate")

    assert new["key"] != old["key"]
    assert (new["id"], new["role"], new["user_id"]) == (old["id"], old["role"], old["user_id"])
    assert base.ask(old["key"], "GET", DOCUMENTS).status == 401
    assert base.ask(new["key"], "GET", DOCUMENTS).status == 200
    base.owner.delete(f"/keys/{old['id']}")
    with pytest.raises(EngineError) as caught:
        base.owner.post(f"/keys/{old['id']}/rotate")
    assert caught.value.http_status == 409


def test_its_last_use_is_noted(base: Any) -> None:
    key = base.key("viewer")
    assert stored(base)[0]["last_used_at"] is None

    base.ask(key, "GET", DOCUMENTS)

    assert stored(base)[0]["last_used_at"] > stored(base)[0]["created_at"]


def test_a_user_who_is_removed_has_no_keys_in_force(base: Any) -> None:
    keys = [base.key("viewer", user="ann"), base.key("editor", user="ann")]
    other = base.key("viewer", user="bob")
    (ann,) = [user for user in base.owner.get("/users")["data"] if user["name"] == "ann"]
    assert ann["keys"] == 2

    base.owner.delete(f"/users/{ann['id']}")

    assert [base.ask(key, "GET", DOCUMENTS).status for key in (*keys, other)] == [401, 401, 200]
    again = base.owner.post("/keys", {"user": "ann", "role": "viewer"})
    assert (again["user_id"], base.ask(again["key"], "GET", DOCUMENTS).status) == (ann["id"], 200)


# What a key may do


def test_an_editor_adds_and_changes_but_does_not_delete_also_not_in_bulk(base: Any) -> None:
    editor, viewer, admin = (
        base.engine(base.key("editor")),
        base.engine(base.key("viewer")),
        base.engine(base.key("admin")),
    )
    ids = [editor.add_note(f"note {number}", tags=["x"])["document"]["id"] for number in range(3)]
    assert editor.bulk_tags(document_ids=ids[:1], add=["y"])["succeeded"] == 1

    for engine, call in (
        (editor, lambda engine: engine.bulk_delete(document_ids=ids[:1])),
        (editor, lambda engine: engine.delete_document(ids[0])),
        (editor, lambda engine: engine.forget_sources("/", [{"source": "/a.md"}])),
        (viewer, lambda engine: engine.bulk_tags(document_ids=ids[:1], add=["z"])),
        (viewer, lambda engine: engine.add_note("no")),
        (editor, lambda engine: engine.create_key("eve", "admin")),
        (editor, lambda engine: engine.get("/audit")),
    ):
        with pytest.raises(EngineError) as caught:
            call(engine)
        assert (caught.value.http_status, caught.value.code) == (403, "forbidden")
        assert caught.value.details["permission"] in caught.value.message

    assert viewer.list_documents()["meta"]["total"] == 3
    assert admin.bulk_delete(document_ids=ids[:1])["succeeded"] == 1


def test_the_pipeline_asks_for_the_operations_permission_whatever_route_led_there(
    base: Any,
) -> None:
    from kb_documents.mutations import Delete

    from kb_framework.api import Actor
    from kb_framework.api.tables import documents
    from kb_framework.errors import Forbidden

    actor = Actor(permissions=frozenset({"documents.read", "documents.write"}), key_id="x")
    with pytest.raises(Forbidden):
        base.kb.mutation.run("delete", Delete(), documents.c.id == 1, actor)


def test_a_key_may_have_fewer_permissions_than_its_role(base: Any) -> None:
    key = base.key("admin", permissions=["documents.read"])

    who = base.engine(key).whoami()

    assert who["permissions"] == ["documents.read"]
    assert base.ask(key, "GET", DOCUMENTS).status == 200
    assert base.ask(key, "GET", "/api/v1/health").status == 403
    assert base.ask(key, "POST", NOTES, {"text": "a"}).status == 403


def test_a_role_of_ones_own_is_made_of_permissions_and_changes_its_keys(base: Any) -> None:
    base.owner.put("/roles/writer", {"permissions": ["documents.write"]})
    key = base.key("writer")
    assert base.ask(key, "POST", NOTES, {"text": "a"}).status == 201
    assert base.ask(key, "GET", DOCUMENTS).status == 403

    base.owner.put("/roles/writer", {"permissions": ["documents.read"]})

    assert base.ask(key, "POST", NOTES, {"text": "a"}).status == 403
    assert base.ask(key, "GET", DOCUMENTS).status == 200
    for method, path, body, status in (
        ("DELETE", "/roles/writer", None, 409),
        ("PUT", "/roles/admin", {"permissions": ["documents.read"]}, 409),
        ("PUT", "/roles/x", {"permissions": ["no.such"]}, 400),
        ("DELETE", "/roles/nobody", None, 404),
    ):
        assert base.ask(base.key("admin"), method, "/api/v1" + path, body).status == status


PLUGIN = """
from litestar import get
from kb_framework import api, hookimpl

@get("/tide", sync_to_thread=True, opt={"permission": "tide.view"})
def tide() -> dict:
    return {"tide": "high"}

handlers = [tide]

@hookimpl
def kb_permissions():
    return [api.Permission("tide.view", "See the tide.", role="editor")]

@hookimpl
def kb_routes():
    return [api.Routes("tide", "tide_plugin:handlers")]
"""


def test_kb_permissions_adds_to_roles_and_keys_what_a_plugin_declares(
    kb_plugin: Any, request: pytest.FixtureRequest
) -> None:
    kb_plugin("tide", PLUGIN, module="tide_plugin")
    base = request.getfixturevalue("base")

    roles = {role["name"]: role["permissions"] for role in base.owner.get("/roles")["data"]}
    assert [name for name, permissions in roles.items() if "tide.view" in permissions] == [
        "editor",
        "admin",
    ]
    keys = [base.key(role) for role in ("viewer", "editor", "admin")]
    assert [base.ask(key, "GET", "/api/v1/tide").status for key in keys] == [403, 200, 200]
    assert (
        base.ask(base.key("admin", permissions=["tide.view"]), "GET", "/api/v1/tide").status == 200
    )


def test_two_plugins_that_declare_one_permission_clash(kb_home: Path, kb_plugin: Any) -> None:
    from kb_framework.bootstrap import read_bootstrap
    from kb_framework.plugins import Plugins

    kb_plugin("tide", PLUGIN, module="tide_plugin")
    source = (
        "from kb_framework import api, hookimpl\n"
        "@hookimpl\ndef kb_permissions():\n    return [api.Permission('tide.view', '')]"
    )
    kb_plugin("waves", source, module="waves_plugin")

    states = {info.name: (info.state, info.reason) for info in Plugins(read_bootstrap()).infos}
    assert states["tide"] == ("active", None)
    assert states["waves"][0] == "failed"
    assert "'tide.view'" in str(states["waves"][1])


# Nobody gives away more than they have


def test_nobody_hands_out_what_they_do_not_have(base: Any) -> None:
    base.owner.put(
        "/roles/clerk", {"permissions": ["access.manage", "documents.read", "engine.view"]}
    )
    clerk = base.engine(base.key("clerk"))

    assert clerk.create_key("new", "clerk")["role"] == "clerk"
    assert clerk.create_key("another", "viewer", permissions=["documents.read"])["role"] == "viewer"
    admin_key = base.owner.post("/keys", {"user": "boss", "role": "admin"})["id"]
    for call in (
        lambda: clerk.create_key("eve", "admin"),
        lambda: clerk.create_key("eve", "editor"),
        lambda: clerk.set_role("clerk", ["access.manage", "documents.delete"]),
        lambda: clerk.rotate_key(admin_key),
        lambda: clerk.create_key("eve", "clerk", organization="elsewhere"),
        lambda: clerk.create_organization("elsewhere"),
    ):
        with pytest.raises(EngineError) as caught:
            call()
        assert caught.value.http_status == 403
    assert [item["name"] for item in base.owner.get("/organizations")["data"]] == ["default"]


def test_a_key_in_another_users_name_needs_a_permission_of_its_own_and_the_record_names_its_maker(
    base: Any,
) -> None:
    base.owner.put("/roles/clerk", {"permissions": ["access.manage", "documents.read"]})
    clerk, ann = (
        base.key("clerk", user="clerk"),
        base.owner.post("/keys", {"user": "ann", "role": "clerk"}),
    )
    boss = base.key("admin", user="boss")

    def make(key: str, user: str) -> int:
        return base.ask(key, "POST", "/api/v1/keys", {"user": user, "role": "clerk"}).status

    assert (make(clerk, "clerk"), make(clerk, "somebody new")) == (201, 201)
    assert make(clerk, "ann") == 403
    refused = base.ask(clerk, "POST", f"/api/v1/keys/{ann['id']}/rotate")
    assert (refused.status, json.loads(refused.body)["permission"]) == (403, "access.other_users")

    assert make(boss, "ann") == 201
    event = base.engine(boss).get("/audit")["data"][0]
    assert (event["action"], event["details"]["user"]) == ("key.created", "ann")
    assert event["user_id"] == base.engine(boss).get("/whoami")["user_id"]


def test_a_snapshots_answer_is_given_by_its_own_user_or_by_an_editor(base: Any) -> None:
    base.owner.add_note("The harbour is 9 metres deep.")
    ann, eve, editor = (
        base.key("viewer", user="ann"),
        base.key("viewer", user="eve"),
        base.key("editor"),
    )

    def snapshot() -> str:
        return base.engine(ann).post("/knowledge/context", {"query": "how deep is the harbour"})[
            "snapshot_id"
        ]

    def answer(key: str, snapshot_id: str) -> int:
        body = {"text": "Nine metres.", "model": "a model"}
        return base.ask(
            key, "PUT", f"/api/v1/knowledge/snapshots/{snapshot_id}/answer", body
        ).status

    first, second = snapshot(), snapshot()
    assert answer(eve, first) == 403
    assert (answer(ann, first), answer(editor, second)) == (200, 200)


def test_an_admin_of_another_organization_does_not_run_the_engine(base: Any) -> None:
    key = base.key("admin", org="acme")

    for method, path in (
        ("GET", "/backup"),
        ("GET", "/doctor"),
        ("POST", "/doctor/repair"),
        ("POST", "/reindex"),
    ):
        assert (
            base.ask(key, method, f"/api/v1{path}", {} if method == "POST" else None).status == 403
        )
    engine = base.engine(key)
    assert engine.create_key("ann", "admin")["organization"] == "acme"
    with pytest.raises(EngineError) as caught:
        engine.set_role("spy", ["engine.operate"])
    assert caught.value.http_status == 400
    with pytest.raises(EngineError) as caught:
        engine.create_key("ann", "admin", organization="default")
    assert caught.value.http_status == 403
    assert {item["organization"] for item in engine.list_keys()["data"]} == {"acme"}
    assert [item["name"] for item in engine.list_organizations()["data"]] == ["acme"]


def test_why_a_plugin_failed_is_told_to_those_who_run_the_engine(
    kb_plugin: Any, request: pytest.FixtureRequest
) -> None:
    kb_plugin("broken", "raise RuntimeError('no such file: /secret/place')", module="broken_plugin")
    base = request.getfixturevalue("base")

    told, silent = (
        base.engine(base.key("admin", org)).get("/health") for org in ("default", "acme")
    )

    assert "/secret/place" in told["plugins"]["failed"]["broken"]
    assert silent["status"] == "degraded"
    assert "/secret/place" not in json.dumps(silent)


def test_the_doctor_warns_of_a_folder_that_others_can_look_into(base: Any) -> None:
    home: Path = base.kb.settings.host.data_dir
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert "folder" not in {check["name"] for check in base.owner.get("/doctor")["checks"]}

    home.chmod(0o755)
    base.key("viewer")

    assert [
        check["state"] for check in base.owner.get("/doctor")["checks"] if check["name"] == "folder"
    ] == ["warning"]


# The record


def test_administration_is_recorded_and_logged(base: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="kb.audit")
    admin = base.engine(base.key("admin", user="boss"))
    made = admin.create_key("ann", "viewer", expires="90d")
    admin.rotate_key(made["id"])
    admin.revoke_key(made["id"])
    admin.set_role("reader", ["documents.read"])
    admin.remove_role("reader")
    admin.create_organization("acme")

    events = admin.list_audit()["data"]

    who = admin.whoami()
    mine = [event for event in events if event["key_id"] == who["key_id"]]
    assert [event["action"] for event in reversed(mine)] == [
        "user.created",
        "key.created",
        "key.rotated",
        "key.revoked",
        "role.set",
        "role.removed",
        "organization.created",
    ]
    assert {event["user_id"] for event in mine} == {who["user_id"]}
    assert made["key"] not in json.dumps(events)
    logged = [
        (record.action, record.key_id) for record in caplog.records if record.name == "kb.audit"
    ]  # type: ignore[attr-defined]
    assert ("key.revoked", who["key_id"]) in logged


def test_what_was_refused_is_not_recorded(base: Any) -> None:
    key = base.key("editor")
    before = base.owner.get("/audit")["meta"]["total"]

    base.ask(key, "POST", "/api/v1/keys", {"user": "a", "role": "admin"})
    base.ask(
        base.key("admin", user="editor of default"),
        "POST",
        "/api/v1/keys",
        {"user": "a", "role": "nobody"},
    )

    assert base.owner.get("/audit")["meta"]["total"] == before + 1


def test_changed_settings_and_switched_plugins_are_recorded_when_the_engine_starts_to_serve(
    kb_home: Path, kb_run: Run
) -> None:
    for environment in (
        {},
        {"KB_BULK_SAFETY_PERCENT": "50"},
        {"KB_BULK_SAFETY_PERCENT": "50", "KB_DISABLED_PLUGINS": "quickstart"},
        {},
    ):
        stop_server(start_server(**environment))

    with connect() as engine:
        events = [
            (e["action"], e["subject"], e["details"]) for e in reversed(engine.list_audit()["data"])
        ]
    # Where the tests run on PostgreSQL, that is a setting too.
    assert [event for event in events if event[1] != "KB_DATABASE_URL"] == [
        ("setting.changed", "KB_BULK_SAFETY_PERCENT", {"before": None, "after": 50}),
        ("plugin.disabled", "quickstart", {}),
        ("setting.changed", "KB_BULK_SAFETY_PERCENT", {"before": 50, "after": None}),
        ("plugin.enabled", "quickstart", {}),
    ]


# The person at the data folder


def test_commands_make_keys_and_use_them(kb_home: Path, kb_run: Run) -> None:
    made = kb_run("keys", "create", "--user", "ann", "--role", "viewer", "--org", "acme", "--json")
    assert made.returncode == 0, made.stderr
    key = json.loads(made.stdout)
    assert {"key", "id"} <= set(key)

    # Whoever can open the folder owns it, also when there are keys; with a key they are its user.
    assert kb_run("note", "mine").returncode == 0
    assert json.loads(kb_run("list", "--json").stdout)["meta"]["total"] == 1
    assert json.loads(kb_run("list", "--json", KB_API_KEY=key["key"]).stdout)["meta"]["total"] == 0
    refused = kb_run("note", "no", "--json", KB_API_KEY=key["key"])
    assert (refused.returncode, json.loads(refused.stderr)["code"]) == (1, "forbidden")
    assert kb_run("list", KB_API_KEY="kb_wrong").returncode == 1
    shown = kb_run("keys", "create", "--user", "ann", "--role", "viewer")
    assert re.fullmatch(r"kb_[0-9A-Za-z]{48}\n", shown.stdout)
    for arguments in (
        ("keys", "list"),
        ("keys", "rotate", key["id"]),
        ("keys", "revoke", key["id"]),
    ):
        assert json.loads(kb_run(*arguments, "--json").stdout)
    assert json.loads(kb_run("users", "remove", key["user_id"], "--json").stdout)["removed"] is True


def test_a_running_server_knows_the_owner_by_a_secret_that_only_the_owner_can_read(
    kb_home: Path, kb_run: Run
) -> None:
    server = start_server()
    try:
        key = json.loads(
            kb_run(
                "keys", "create", "--user", "a", "--role", "viewer", "--org", "acme", "--json"
            ).stdout
        )["key"]
        left = kb_home / "engine.json"
        assert stat.S_IMODE(left.stat().st_mode) == 0o600

        # The server closed at once, for everyone but the owner.
        with server.engine as anyone, pytest.raises(EngineError) as caught:
            anyone.get("/documents")
        assert caught.value.http_status == 401
        assert kb_run("note", "mine").returncode == 0
        assert json.loads(kb_run("whoami", "--json").stdout)["local"] is True
        assert (
            json.loads(kb_run("whoami", "--json", KB_API_KEY=key).stdout)["organization"] == "acme"
        )
    finally:
        stop_server(server)
    assert not left.exists()


def test_it_listens_beyond_loopback_only_with_keys(kb_home: Path, kb_run: Run) -> None:
    refused = kb_run("serve", "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 2
    assert "kb keys create" in refused.stderr

    assert kb_run("keys", "create", "--user", "a", "--role", "admin").returncode == 0
    server = start_server("--host", "0.0.0.0")
    try:
        with server.engine as anyone, pytest.raises(EngineError) as caught:
            anyone.get("/documents")
        assert caught.value.http_status == 401
        assert kb_run("list").returncode == 0
    finally:
        stop_server(server)


def test_without_the_access_plugin_everything_is_refused_once_there_are_keys(
    kb_home: Path, kb_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = json.loads(kb_run("keys", "create", "--user", "a", "--role", "viewer", "--json").stdout)[
        "key"
    ]
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "access")
    server = start_server()
    try:
        with server.engine as anyone, pytest.raises(EngineError) as caught:
            anyone.get("/documents")
        assert caught.value.http_status == 401
        for command in (["list"], ["note", "no"]):
            refused = kb_run(*command, KB_ENGINE_URL=server.url, KB_API_KEY=key)
            assert refused.returncode == 1
            assert "no active plugin recognises this key" in refused.stderr
    finally:
        stop_server(server)
