"""HTTP: legal holds."""

from __future__ import annotations

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from litestar.status_codes import HTTP_200_OK

from kb_framework.api import Actor
from kb_framework.http import PageNumber, PerPage, QueryText
from kb_framework.paging import Page
from kb_legalhold.models import HoldIn, HoldPage, Placed, Released, ReleaseIn
from kb_legalhold.service import LegalHoldService


@get("/legal-holds", sync_to_thread=True, opt={"permission": "legalhold.view"})
def list_holds(
    legalhold: NamedDependency[LegalHoldService],
    actor: NamedDependency[Actor],
    matter: QueryText = None,
    page: PageNumber = 1,
    per_page: PerPage = 20,
) -> HoldPage:
    """The holds in force, oldest first."""
    return legalhold.list(actor, Page(page, per_page), matter)


@post("/legal-holds", sync_to_thread=True, opt={"permission": "legalhold.place"})
def place_hold(data: JSONBody[HoldIn], legalhold: NamedDependency[LegalHoldService], actor: NamedDependency[Actor]) -> Placed:
    """Put documents on hold; sealed ones are also left out of every selection and search."""
    return legalhold.place(data, actor)


@post("/legal-holds/release", sync_to_thread=True, status_code=HTTP_200_OK, opt={"permission": "legalhold.release"})
def release_hold(
    data: JSONBody[ReleaseIn], legalhold: NamedDependency[LegalHoldService], actor: NamedDependency[Actor]
) -> Released:
    """End the holds on documents, of one matter or of all."""
    return legalhold.release(data, actor)


handlers = [list_holds, place_hold, release_hold]
