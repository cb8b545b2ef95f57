"""The operations of legal holds. Holds can be read and placed by models; releasing one is left to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_framework.api import Command, Http, Operation, Tool

if TYPE_CHECKING:
    from kb_legalhold.models import HoldIn, HoldPage, HoldsIn, Placed, Released, ReleaseIn

LIST: Operation[HoldsIn, HoldPage] = Operation(
    "list_holds",
    "legalhold.list",
    "legalhold.view",
    Http("GET", "/legal-holds"),
    input="kb_legalhold.models:HoldsIn",
    output="kb_legalhold.models:HoldPage",
    help="List the holds in force, oldest first.",
    command=Command(
        "hold list",
        group="Legal hold",
        render="kb_legalhold.render:holds",
        examples=("kb hold list",),
    ),
    tool=Tool(
        "kb_hold_list",
        title="List legal holds",
        read_only=True,
        idempotent=True,
        help="The legal holds in force. A document on hold cannot be changed or deleted.",
    ),
)

PLACE: Operation[HoldIn, Placed] = Operation(
    "place_hold",
    "legalhold.place",
    "legalhold.place",
    Http("POST", "/legal-holds", status=201),
    input="kb_legalhold.models:HoldIn",
    output="kb_legalhold.models:Placed",
    help="Put documents on hold: they cannot be changed until they are released.",
    command=Command(
        "hold place",
        group="Legal hold",
        positional=("document_ids",),
        render="kb_legalhold.render:placed",
        examples=('kb hold place 42 43 --matter "Smith v. Jones"',),
    ),
    tool=Tool(
        "kb_hold_place",
        title="Place a legal hold",
        profile="curate",
        idempotent=True,
        help="Put documents on legal hold: they cannot be changed or deleted until a person releases them.",
    ),
)

RELEASE: Operation[ReleaseIn, Released] = Operation(
    "release_hold",
    "legalhold.release",
    "legalhold.release",
    Http("POST", "/legal-holds/release"),
    input="kb_legalhold.models:ReleaseIn",
    output="kb_legalhold.models:Released",
    help="End the holds on documents, of one matter or of all.",
    command=Command(
        "hold release",
        help="Release documents from hold.",
        group="Legal hold",
        positional=("document_ids",),
        render="kb_legalhold.render:released",
        examples=("kb hold release 42",),
    ),
)

OPERATIONS = [LIST, PLACE, RELEASE]
