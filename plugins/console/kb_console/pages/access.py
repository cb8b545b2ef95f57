"""Access: keys, users, roles, sessions, and the record of administration."""

from __future__ import annotations

from typing import Any

from kb_console.forms import controls
from kb_console.view import Go, Html, View, typed

_TABS = {
    "keys": "list_keys",
    "users": "list_users",
    "roles": "list_roles",
    "sessions": "list_sessions",
    "audit": "list_audit",
}


def show(view: View, new: Any = None) -> Html:
    tabs = [name for name, operation in _TABS.items() if view.may(operation)]
    tab = view.text("tab", "keys")
    tab = tab if tab in tabs else tabs[0]
    paged = {} if tab == "roles" else {"page": view.page, "per_page": view.console.per_page}
    answer = view.main(_TABS[tab], paged)
    return view.show(
        "access.html",
        "Access",
        tab=tab,
        tabs=tabs,
        answer=answer,
        new=new,
        making=controls(view.model("create_key")) if view.may("create_key") else [],
        roles=[item["name"] for item in (view.attempt("list_roles") or {"data": []})["data"]],
    )


def create(view: View) -> Html:
    """Make a key; the page shows it this once."""
    model = view.model("create_key")
    new = view.call("create_key", **typed(model, view.fields))
    return show(view, new)


def rotate(view: View) -> Html:
    return show(view, view.call("rotate_key", key_id=view.path["key_id"]))


def revoke(view: View) -> Go:
    view.call("revoke_key", key_id=view.path["key_id"])
    return Go("/console/access")


def remove_user(view: View) -> Go:
    view.call("remove_user", user_id=view.path["user_id"])
    return Go("/console/access?tab=users")


def end_session(view: View) -> Go:
    view.call("end_session", session_id=view.path["session_id"])
    return Go("/console/access?tab=sessions")


ROUTES = [
    ("GET", "/access", show),
    ("POST", "/access/keys", create),
    ("POST", "/access/keys/{key_id:str}/rotate", rotate),
    ("POST", "/access/keys/{key_id:str}/revoke", revoke),
    ("POST", "/access/users/{user_id:str}/remove", remove_user),
    ("POST", "/access/sessions/{session_id:str}/end", end_session),
]
