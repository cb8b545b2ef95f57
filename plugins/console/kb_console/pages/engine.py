"""Plugins and health: what each plugin contributes, the settings with their sources, what the doctor finds."""

from __future__ import annotations

from typing import Any

from kb_console.view import Go, Html, View
from kb_framework.api.plugins import HOST_DISTRIBUTION
from kb_framework.errors import NotFound

_TABS = {"plugins": "list_plugins", "settings": "list_settings", "health": "doctor"}


def show(view: View) -> Html:
    tabs = [name for name, operation in _TABS.items() if view.may(operation)]
    tab = view.text("tab", "plugins")
    tab = tab if tab in tabs else tabs[0] if tabs else ""
    if not tab:
        raise NotFound("there is no operation of the engine that you may use")
    answer = view.main(_TABS[tab], {})
    return view.show(
        "engine.html",
        "Plugins and health",
        tab=tab,
        tabs=tabs,
        answer=answer,
        own=HOST_DISTRIBUTION,
        listed=_listed(view, answer["data"]) if tab == "settings" else [],
        health=view.main("health", {}) if tab == "health" else None,
        switch=view.may("set_plugin"),
        repair=view.may("repair"),
    )


def _listed(view: View, settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the settings whose name or description has what was typed."""
    text = view.text("q").lower()
    return [
        item
        for item in settings
        if text in f"{item['variable']} {item['key']} {item['description']}".lower()
        and (view.text("set") != "1" or item["source"] != "default")
    ]


def switch(view: View) -> Go:
    view.call("set_plugin", name=view.path["name"], enabled=view.field("enabled") == "1")
    return Go("/console/engine?done=restart")


def repair(view: View) -> Html:
    """Repair for some seconds; the page sends it again until it is finished."""
    report = view.call("repair")
    return view.show("repair.html", "Repair", report=report)


ROUTES = [
    ("GET", "/engine", show),
    ("POST", "/engine/plugins/{name:str}", switch),
    ("POST", "/engine/repair", repair),
]
