"""Write docs/hooks.md, the hook reference, from the signatures and docstrings of all hook specifications."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = {
    "host": [
        HERE.parent / "kb_framework" / "hookspecs" / f"{part}.py"
        for part in ("registering", "in_flight")
    ],
    **{
        path.parent.parent.name: [path]
        for path in sorted(HERE.parent.glob("plugins/*/kb_*/hookspecs.py"))
    },
}
TARGET = HERE / "hooks.md"

INTRODUCTION = """\
<!-- Made by `python docs/make_hooks.py` from all hook specifications. Change the docstrings there, then run it. -->

# Hooks

A plugin is a module with functions named after hooks, marked `@hookimpl`. [plugins.md](plugins.md) shows how to write one.
The nouns (`api.Command`, `api.Plan`, …) are in `kb_framework.api`. An implementation may leave out parameters.

A *registration* hook is asked once, at start, and returns frozen descriptions. A `target` in them is an import path,
`"package.module:attribute"`, imported only when it is needed. Names are unique across plugins; a clash is an error that
names both. A plugin that raises here has failed: its contributions are gone, the rest works, and documents cannot be
changed until it is fixed or switched off, because it might be the one that guards them.

Hooks that only one plugin calls are in its own `hookspecs.py`; a plugin of yours may bring hooks as well
([kb_hookspecs](#kb_hookspecs)). While their caller is switched off, they are accepted and nobody calls them.

An *in-flight* hook is called while an operation runs. Beside the hook's parameters an implementation may name `settings`, the
plugin's own section, and parts of the host and services, as a [service's constructor](#kb_services) does:
`def kb_guard_mutation(plan, tx, settings, holds)`. Every plugin is asked, the built-in ones first, then by name. Where
the first answer decides, the order is reversed, so that a plugin may answer in place of a built-in one.
"""


@dataclass(frozen=True)
class Hook:
    name: str
    caller: str
    part: str
    signature: str
    returns: str
    first_result: bool
    summary: str
    body: str

    @property
    def combined(self) -> str:
        """How the answers of several plugins become one."""
        if self.first_result:
            return "the first that is not None decides"
        if self.part == "Registration":
            return "merged by name"
        if "ColumnElement" in self.returns:
            return "combined with AND"
        return "–" if self.returns == "None" else "collected"

    @property
    def exception(self) -> str:
        """The docstring's own sentence about exceptions."""
        found = re.search(
            r"An exception (?:here |in a step )?(\w[^.;]*)[.;]", " ".join(self.body.split())
        )
        if found is None:
            raise SystemExit(
                f"{self.name}: its docstring must say what an exception does: 'An exception …'"
            )
        return found.group(1).replace("marks the plugin as failed", "the plugin has failed")


def read_hooks(path: Path, caller: str) -> list[Hook]:
    source = path.read_text(encoding="utf-8")
    in_flight = source.partition("\n# In flight\n")[0].count("\n") + 1
    if path.stem == "in_flight":
        in_flight = 0
    functions = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("kb_")
    ]
    return [
        _hook(node, caller, "In flight" if node.lineno > in_flight else "Registration")
        for node in functions
    ]


def _hook(node: ast.FunctionDef, caller: str, part: str) -> Hook:
    documentation = ast.get_docstring(node)
    if not documentation:
        raise SystemExit(f"{node.name} has no docstring")
    summary, _, body = documentation.partition("\n")
    if "```python" not in body:
        raise SystemExit(f"{node.name}: its docstring must have an example")
    returns = ast.unparse(node.returns) if node.returns else "None"
    return Hook(
        name=node.name,
        caller=caller,
        part=part,
        signature=f"def {node.name}({ast.unparse(node.args)}) -> {returns}",
        returns=returns,
        first_result=any(
            "firstresult" in ast.unparse(decorator) for decorator in node.decorator_list
        ),
        summary=summary,
        # Formatted as a module of its own: two lines before a function.
        body=body.strip().replace("\n\n@hookimpl", "\n\n\n@hookimpl"),
    )


def render() -> str:
    """The whole page."""
    hooks = [
        hook
        for caller, paths in SOURCES.items()
        for path in paths
        for hook in read_hooks(path, caller)
    ]
    lines = [INTRODUCTION]
    for part in ("Registration", "In flight"):
        chosen = [hook for hook in hooks if hook.part == part]
        lines += [
            f"# {part}\n",
            "| hook | called by | what it does | answers are | an exception |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| [{h.name}](#{h.name}) | {h.caller} | {h.summary.rstrip('.')} | {h.combined} | {h.exception} |"
            for h in chosen
        ]
        lines.append("")
        for hook in chosen:
            lines += [
                f"## {hook.name}\n",
                f"```text\n{hook.signature}\n```\n",
                hook.summary + "\n",
                hook.body + "\n",
            ]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
