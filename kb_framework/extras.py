"""The command that installs an optional dependency, matching how this package was installed."""

from __future__ import annotations

import importlib.metadata
import json
import shlex
from urllib.parse import unquote, urlsplit

_DISTRIBUTION = "kb-framework"


def install_command(extra: str) -> str:
    """Return the pip command for an extra. A package installed from a folder is not on an index, so it names the folder."""
    try:
        origin = json.loads(
            importlib.metadata.distribution(_DISTRIBUTION).read_text("direct_url.json") or "{}"
        )
    except (importlib.metadata.PackageNotFoundError, ValueError):
        origin = {}
    url = str(origin.get("url", ""))
    if "dir_info" not in origin or not url.startswith("file://"):
        return f"pip install '{_DISTRIBUTION}[{extra}]'"
    editable = "-e " if origin["dir_info"].get("editable") else ""
    return f"pip install {editable}{shlex.quote(f'{unquote(urlsplit(url).path)}[{extra}]')}"
