"""Pages that plugins add."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from kb_console.forms import controls
from kb_console.view import Html, View
from kb_framework.api import Page, resolve
from kb_framework.errors import KBError

log = logging.getLogger("kb.console")


def shows(page: Page) -> Callable[[View], Html]:
    """Return the function that shows a plugin's page."""

    def show(view: View) -> Html:
        if page.permission:
            view.actor.require(page.permission)
        form: list[Any] = []
        try:
            values: dict[str, Any] = {}
            if page.target:
                values |= resolve(page.target)(view.console.caller(view.actor), view.query)
            elif page.operation:
                model = view.model(page.operation)
                form = controls(
                    model,
                    [name for name in model.model_fields if name not in ("page", "per_page")],
                    view.query,
                )
                values["answer"] = view.main(page.operation, view.values(page.operation))
            body = (
                view.console.render(page.template, view=view, **values)
                if page.template
                else view.console.render(
                    "answer.html", view=view, values=values, answer=values.get("answer")
                )
            )
        except KBError:
            raise
        except Exception as error:
            plugin = view.console.plugin_of(page)
            log.warning("the page %s of %s failed", page.name, plugin, exc_info=error)
            return view.show("failed_page.html", page.title, plugin=plugin, status=500)
        return view.show("own.html", page.title, body=Markup(body), form=form)

    return show
