"""Hooks that the console calls."""

from __future__ import annotations

from collections.abc import Iterable

from kb_framework import api
from kb_framework.api.hooks import registration

# Registration


@registration(api.Page)
def kb_pages() -> Iterable[api.Page]:  # type: ignore[empty-body]
    """Declare pages of the console.

    Called at start. Return pages; each is mounted at `/console` + its path and listed in the menu for those who may see it.
    The target, if there is one, is an `api.PageTarget`: it is called with a function that calls operations as the person who
    looks, and with the page's query. A page that raises while it is shown becomes a card with the plugin's name. An exception
    here marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl(optionalhook=True)
    def kb_pages():
        return [
            api.Page("weather", "/weather", "Weather", target="kb_weather.pages:show", permission="documents.read")
        ]

    def show(call, query):
        return {"documents": call("list_documents", tags=query.get("tags", []))["meta"]["total"]}
    ```
    """


@registration(api.Panel)
def kb_panels() -> Iterable[api.Panel]:  # type: ignore[empty-body]
    """Declare panels: parts of the home page, or beside a document, a chunk, a job or a preview.

    Called at start. Return panels; the target is an `api.PanelTarget`, called whenever its page is shown. It returns the
    values to show, or None for no panel. One that raises becomes a card with the plugin's name, and the page is shown. An
    exception here marks the plugin as failed.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl(optionalhook=True)
    def kb_panels():
        return [api.Panel("weather", "document", "Weather", "kb_weather.pages:of_document")]

    def of_document(call, document):
        return {"City": document["metadata"].get("city")} if "weather" in document["tags"] else None
    ```
    """


@registration(api.PageAsset)
def kb_page_assets() -> Iterable[api.PageAsset]:  # type: ignore[empty-body]
    """Declare style sheets and modules that every page of the console loads.

    Called at start. Return assets: files of the plugin's package that end in `.css` or `.js`. Pages allow no inline script or
    style and load nothing from elsewhere. An exception marks the plugin as failed; so does a file that is not there.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl(optionalhook=True)
    def kb_page_assets():
        return [api.PageAsset("weather", "kb_weather:pages/weather.css")]
    ```
    """
