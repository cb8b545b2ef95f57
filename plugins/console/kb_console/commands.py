"""Commands: open the console."""

from __future__ import annotations

import os
import sys
import webbrowser
from typing import Annotated

from cyclopts import Parameter

from kb_framework.api.cli import Cli, interactive
from kb_framework.errors import EngineUnreachable

_START = "start it: kb serve"


def console(
    *,
    print: Annotated[bool, Parameter(name="--print", negative=())] = False,
    cli: Cli,
) -> None:
    """Open the console of the running engine in a browser.

    Where keys are needed, the address is a link that opens one session, once and within a minute.

    Parameters
    ----------
    print
        Print the address, and open nothing.

    Examples
    --------
    kb console
    kb console --print
    """
    address = address_of(cli)
    if address is None:
        raise EngineUnreachable("no engine is running, so there is no console", hint=_START)
    if not cli.json and not print and sys.stdout.isatty() and interactive() and _has_browser():
        cli.say(f"kb: opening {address}")
        webbrowser.open(address)
        return
    cli.result({"url": address}, address)


def address_of(cli: Cli) -> str | None:
    """Return the address of the running engine's console; None where no engine is running."""
    base = cli.engine.url
    if base is None:
        return None
    if not cli.plugins.has_method("whoami") or not cli.engine.whoami()["access_control"]:
        return f"{base}/console"
    token = cli.engine.create_session_link()["token"]
    # After the #, so that no log and no server in between sees it.
    return f"{base}/console/open#{token}"


def _has_browser() -> bool:
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
