"""The pages of the API documentation."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from litestar import Router, get
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme
from litestar.response import Redirect
from litestar.static_files import create_static_files_router

from kb_framework import __version__
from kb_framework.api import PUBLIC
from kb_framework.edges.http.openapi import Json, Swagger
from kb_framework.edges.http.params import KEY_SCHEME
from kb_framework.operations import Dispatcher

_ASSETS = "/assets/swagger"


DOCS = "/schema/swagger"


_OPEN = {"permission": PUBLIC}


def pages(home: str) -> list[Any]:
    @get("/", include_in_schema=False, sync_to_thread=False, opt=_OPEN)
    def root() -> Redirect:
        return Redirect(home)

    @get("/docs", include_in_schema=False, sync_to_thread=False, opt=_OPEN)
    def docs() -> Redirect:
        return Redirect(DOCS)

    spec = importlib.util.find_spec("swagger_ui")
    folder = Path((spec.submodule_search_locations or [""])[0] if spec else "") / "static"
    assets = create_static_files_router(
        _ASSETS, directories=[folder], include_in_schema=False, opt=_OPEN
    )
    return [root, docs, assets]


_BEARER = SecurityScheme(
    type="http",
    scheme="bearer",
    description="A key (`kb keys create`) with the permission that the route lists. As long as no key was made, none is needed.",
)


def openapi(dispatcher: Dispatcher) -> OpenAPIConfig:
    swagger = Swagger(
        dispatcher,
        js_url=f"{_ASSETS}/swagger-ui-bundle.js",
        css_url=f"{_ASSETS}/swagger-ui.css",
        standalone_preset_js_url=f"{_ASSETS}/swagger-ui-standalone-preset.js",
        favicon=f"<link rel='icon' href='{_ASSETS}/favicon-32x32.png'>",
    )
    return OpenAPIConfig(
        title="kb",
        version=__version__,
        openapi_router=Router("/schema", route_handlers=[], opt=_OPEN, include_in_schema=False),
        render_plugins=[swagger, Json(dispatcher)],
        use_handler_docstrings=True,
        components=Components(security_schemes={KEY_SCHEME: _BEARER}),
    )
