"""What can be said of plugins without importing all of them: targets that are missing, and whether two sets are the same."""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kb_framework.api import Operation, resolve


def targets_of(item: Any) -> list[str]:
    """The import paths that a contribution names."""
    if isinstance(item, Operation):
        functions = [item.call] if ":" in item.call else []
        answers = [target for target, _ in item.http.answers.values()]
        render = item.command.render if item.command else ""
        shape = item.tool.shape if item.tool else ""
        named = [item.input, item.output, item.http.form, render, shape, *functions, *answers]
    else:
        named = [getattr(item, "target", ""), getattr(item, "adapt", "")]
    return [target for target in named if target]


def missing_target(target: Any) -> str | None:
    """Say why a target cannot resolve; None where it does, as far as the source tells.

    A name that the module's source does not define at its top level is looked for by importing the module.
    """
    if not isinstance(target, str) or not re.fullmatch(r"[\w.]+:\w+", target):
        return f"the target {target!r} is not an import path: write it as package.module:name"
    module, name = target.split(":")
    loaded = sys.modules.get(module)
    if loaded is None:
        try:
            spec = find_spec(module)
        except (ImportError, ValueError, AttributeError):
            spec = None
        if spec is None:
            return f"the target {target!r} cannot be found: there is no module {module!r}"
        if spec.origin and spec.origin.endswith(".py") and name in _defined(Path(spec.origin)):
            return None
    try:
        resolve(target)
    except AttributeError:
        known = [word for word in vars(sys.modules[module]) if not word.startswith("_")]
        return f"the target {target!r} cannot be found: {module} has no {name!r}" + did_you_mean(
            name, known
        )
    except Exception as error:  # noqa: BLE001 - a module may raise anything while it is imported
        return f"the target {target!r} cannot be imported: {type(error).__name__}: {error}"
    return None


_DEFINITION = re.compile(
    r"^(?:async\s+def|def|class)\s+(\w+)|^(\w+)\s*(?::[^=\n]+)?=(?!=)", re.MULTILINE
)


def _defined(path: Path) -> set[str]:
    """The functions, classes and variables that a module's source defines at its top level."""
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return set()
    return {match[1] or match[2] for match in _DEFINITION.finditer(source)}


def stamp(module: Any) -> str:
    """A short text that changes with the source of a plugin: that of its whole package, or of its one file."""
    package = sys.modules.get(module.__name__.split(".")[0])
    folders = [Path(folder) for folder in getattr(package, "__path__", ())]
    files = [path for folder in folders for path in folder.rglob("*.py")] or [
        Path(getattr(module, "__file__", None) or "")
    ]
    found = sorted(
        (str(path), status.st_size, status.st_mtime_ns)
        for path in files
        if (status := _status(path))
    )
    return f"{zlib.crc32(repr(found).encode()):08x}"


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def differences(theirs: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """How the plugins of a running engine differ from those of this process, by name; `Plugins.prints` of both."""
    found = {}
    for name in sorted({*theirs, *ours}):
        there, here = theirs.get(name, "").split(), ours.get(name, "").split()
        if there == here:
            continue
        if not there or (there[0] == "disabled" and here):
            found[name] = "not in the running engine" if here[0] == "active" else ""
        elif not here or here[0] == "disabled":
            found[name] = "only in the running engine" if there[0] == "active" else ""
        elif there[0] != here[0]:
            found[name] = f"{there[0]} in the running engine, {here[0]} here"
        elif there[1] != here[1]:
            found[name] = f"version {there[1]} in the running engine, {here[1]} here"
        else:
            found[name] = "older or newer source in the running engine"
    return {name: words for name, words in found.items() if words}


def did_you_mean(word: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
