"""What commands print with, and how they spell arguments and flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_framework.api.lazy import lazily

if TYPE_CHECKING:
    from kb_framework.edges.cli.console import STDIN as STDIN
    from kb_framework.edges.cli.console import Cli as Cli
    from kb_framework.edges.cli.console import harmless as harmless
    from kb_framework.edges.cli.console import interactive as interactive
    from kb_framework.edges.cli.console import pairs as pairs
    from kb_framework.edges.cli.lists import CommaList as CommaList
    from kb_framework.edges.cli.lists import CommaListOrNone as CommaListOrNone
    from kb_framework.edges.cli.operations import Option as Option
    from kb_framework.edges.cli.operations import flag_names as flag_names
    from kb_framework.edges.cli.operations import flag_of as flag_of

__getattr__ = lazily(
    __name__,
    {
        "kb_framework.edges.cli.console": "Cli STDIN harmless interactive pairs",
        "kb_framework.edges.cli.lists": "CommaList CommaListOrNone",
        "kb_framework.edges.cli.operations": "Option flag_names flag_of",
    },
)
