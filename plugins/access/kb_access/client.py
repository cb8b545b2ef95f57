"""Methods of the engine client: one function per request, shared by commands and scripts."""

from __future__ import annotations

from typing import Any

from kb_framework.client import Engine, given


def create_key(engine: Engine, user: str, role: str, **fields: Any) -> dict[str, Any]:
    return engine.post("/keys", {"user": user, "role": role, **given(**fields)})


def list_keys(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/keys", **params)


def revoke_key(engine: Engine, key_id: str) -> dict[str, Any]:
    return engine.delete(f"/keys/{key_id}")


def rotate_key(engine: Engine, key_id: str) -> dict[str, Any]:
    return engine.post(f"/keys/{key_id}/rotate")


def list_users(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/users", **params)


def remove_user(engine: Engine, user_id: str) -> None:
    engine.delete(f"/users/{user_id}")


def list_organizations(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/organizations", **params)


def create_organization(engine: Engine, name: str) -> dict[str, Any]:
    return engine.post("/organizations", {"name": name})


def list_roles(engine: Engine) -> dict[str, Any]:
    return engine.get("/roles")


def set_role(engine: Engine, name: str, permissions: list[str]) -> dict[str, Any]:
    return engine.put(f"/roles/{name}", {"permissions": permissions})


def remove_role(engine: Engine, name: str) -> None:
    engine.delete(f"/roles/{name}")


def whoami(engine: Engine) -> dict[str, Any]:
    return engine.get("/whoami")


def list_audit(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/audit", **params)
