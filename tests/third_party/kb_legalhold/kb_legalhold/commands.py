"""Commands: hold place, hold release, hold list."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from kb_framework.console import Cli
from kb_framework.errors import ConfigInvalid


def place(
    *ids: int,
    matter: str | None = None,
    reason: str | None = None,
    sealed: Annotated[bool, Parameter(negative=())] = False,
    cli: Cli,
) -> None:
    """Put documents on hold: they cannot be changed until they are released.

    Parameters
    ----------
    ids
        The documents.
    matter
        The case they are held for; KB_LEGALHOLD_DEFAULT_MATTER by default.
    reason
        Why.
    sealed
        Also leave them out of every selection and search.

    Examples
    --------
    kb hold place 42 43 --matter "Smith v. Jones"
    """
    _require(ids)
    result = cli.engine.place_hold(list(ids), matter=matter, reason=reason, sealed=sealed or None)
    cli.result(result, f"{result['placed']} documents put on hold for {result['matter']}, {result['already_held']} already held")


def release(*ids: int, matter: str | None = None, cli: Cli) -> None:
    """Release documents from hold.

    Parameters
    ----------
    ids
        The documents.
    matter
        Only the holds of this case; by default all.

    Examples
    --------
    kb hold release 42
    """
    _require(ids)
    result = cli.engine.release_hold(list(ids), matter=matter)
    cli.result(result, f"{result['released']} holds released")


def list_holds(*, matter: str | None = None, page: int = 1, per_page: int = 20, cli: Cli) -> None:
    """List the holds in force, oldest first.

    Parameters
    ----------
    matter
        Only the holds of this case.
    page
        Pages count from 1.
    per_page
        At most 100.

    Examples
    --------
    kb hold list
    """
    found = cli.engine.list_holds(matter=matter, page=page, per_page=per_page)
    columns = ("id", "document_id", "matter", "reason", "sealed", "created_at")
    cli.table(found, [[item[name] for name in columns] for item in found["data"]], columns)
    if found["meta"]["total_pages"] > 1:
        cli.say(f"page {page} of {found['meta']['total_pages']}, {found['meta']['total']} in all")


def _require(ids: tuple[int, ...]) -> None:
    if not ids:
        raise ConfigInvalid("give the ids of documents")
