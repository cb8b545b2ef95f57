"""Plugins and health: what each plugin contributes, the settings with their sources, what the doctor finds."""

from __future__ import annotations

from kb_console.view import Go, Html, View
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
        switch=view.may("set_plugin"),
        repair=view.may("repair"),
    )


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
