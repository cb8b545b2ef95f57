"""What the operations of access take and give."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from kb_framework.api.models import Body, Model, Text
from kb_framework.api.paging import PageIn, PageMeta
from kb_framework.api.times import format_time

_UNITS = {"h": "hours", "d": "days"}


def _name(text: str) -> str:
    text = unicodedata.normalize("NFC", text.strip())
    if not 1 <= len(text) <= 128:
        raise ValueError("a name has 1 to 128 characters")
    if any(unicodedata.category(char).startswith("C") for char in text):
        raise ValueError("a name has no control characters")
    return text


def _moment(text: str) -> str:
    """When a key ends, as the store writes times: `90d` or `12h` from now, or an ISO time with its zone."""
    match = re.fullmatch(r"([1-9][0-9]{0,4})([hd])", text)
    if match:
        moment = datetime.now(UTC) + timedelta(**{_UNITS[match[2]]: int(match[1])})
    else:
        try:
            moment = datetime.fromisoformat(text)
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            raise ValueError("must be like 90d, 12h or 2030-01-31T00:00:00Z") from None
    if moment <= datetime.now(UTC):
        raise ValueError("must be in the future")
    return format_time(moment)


Name = Annotated[Text, AfterValidator(_name)]
RoleName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
PermissionName = Annotated[Text, Field(min_length=1, max_length=128)]


class KeyIn(Body):
    user: Annotated[Name, Field(description="Whose key it is; made if it is not there.")]
    role: Annotated[
        RoleName, Field(description="viewer, editor, admin, or a role of the organization's own.")
    ]
    organization: Annotated[
        Name | None, Field(description="By default the caller's own; made if it is not there.")
    ] = None
    permissions: Annotated[
        Annotated[list[PermissionName], Field(min_length=1)] | None,
        Field(
            description="Of the role's permissions only these; documents.read for one that only reads."
        ),
    ] = None
    expires: Annotated[
        Annotated[Text, AfterValidator(_moment)] | None,
        Field(description="90d, 12h, or an ISO time; by default never."),
    ] = None


class KeysIn(PageIn):
    organization: Annotated[
        Annotated[Text, Field(max_length=10_000)] | None,
        Field(description="Only keys of this organization."),
    ] = None


class KeyRef(Body):
    key_id: Annotated[str, Field(description="The key's id, as the list of keys shows it.")]


class Key(Model):
    """A key as it may be shown: its beginning, never the rest."""

    id: str
    prefix: str
    state: Literal["active", "expired", "revoked"]
    user: str
    user_id: str
    organization: str
    organization_id: str
    role: str
    permissions: list[str] | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class NewKey(Key):
    """A new key; `key` is shown this once."""

    key: str


class KeyPage(Model):
    data: list[Key]
    meta: PageMeta


class UserRef(Body):
    user_id: Annotated[str, Field(description="The user's id, as the list of users shows it.")]


class User(Model):
    id: str
    name: str
    organization: str
    organization_id: str
    keys: int
    created_at: str
    removed_at: str | None


class UserPage(Model):
    data: list[User]
    meta: PageMeta


class OrganizationIn(Body):
    name: Annotated[Name, Field(description="What it is called.")]


class Organization(Model):
    id: str
    name: str
    created_at: str


class OrganizationPage(Model):
    data: list[Organization]
    meta: PageMeta


class RoleRef(Body):
    name: Annotated[RoleName, Field(description="The role: small letters, digits, - and _.")]


class RoleIn(RoleRef):
    permissions: Annotated[
        list[PermissionName],
        Field(
            min_length=1, description="What its keys may do; the list of roles names all there are."
        ),
    ]


class Role(Model):
    name: str
    built_in: bool
    permissions: list[str]


class Permission(Model):
    name: str
    help: str
    role: str
    engine: bool


class RoleList(Model):
    data: list[Role]
    permissions: list[Permission]


class Whoami(Model):
    """Whom the engine takes the caller for. `access_control` says whether keys are needed here."""

    access_control: bool
    local: bool
    user: str
    user_id: str
    organization: str
    organization_id: str
    key_id: str | None
    role: str
    permissions: list[str]


class SessionLink(Model):
    """A token that opens one session, once and soon."""

    token: str
    expires_at: str


class Session(Model):
    """A person's session in a browser; it ends with its key."""

    id: str
    user: str
    organization: str
    key_id: str | None
    created_at: str
    expires_at: str


class SessionPage(Model):
    data: list[Session]
    meta: PageMeta


class SessionRef(Body):
    session_id: Annotated[
        str, Field(description="The session's id, as the list of sessions shows it.")
    ]


class AuditEvent(Model):
    id: str
    organization_id: str
    user_id: str
    key_id: str | None
    action: str
    subject: str
    details: dict[str, Any]
    created_at: str


class AuditPage(Model):
    data: list[AuditEvent]
    meta: PageMeta
