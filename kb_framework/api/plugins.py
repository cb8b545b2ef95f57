"""For plugins that let a setting choose among contributions, or look at other plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_framework.api.lazy import lazily

if TYPE_CHECKING:
    from kb_framework.chosen import Chosen as Chosen
    from kb_framework.discovery import HOST_DISTRIBUTION as HOST_DISTRIBUTION
    from kb_framework.plugin_check import check_plugins as check_plugins

__getattr__ = lazily(
    __name__,
    {
        "kb_framework.chosen": "Chosen",
        "kb_framework.discovery": "HOST_DISTRIBUTION",
        "kb_framework.plugin_check": "check_plugins",
    },
)
