"""The parts of an open knowledge base, as types: a constructor of a plugin is given them by its parameters' names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_framework.api.lazy import lazily

if TYPE_CHECKING:
    from kb_framework.access import Access as Access
    from kb_framework.api.files import Files as Files
    from kb_framework.operations import Dispatcher as Dispatcher
    from kb_framework.pipelines.mutation import Mutation as Mutation
    from kb_framework.pipelines.retrieval import Retrieval as Retrieval
    from kb_framework.pipelines.selection import Selector as Selector
    from kb_framework.plugins import Plugins as Plugins
    from kb_framework.settings import HostSettings as HostSettings
    from kb_framework.settings_loading import Settings as Settings
    from kb_framework.storage.store import Store as Store
    from kb_framework.storage.store import Tx as Tx
    from kb_framework.upkeep import Upkeep as Upkeep

__getattr__ = lazily(
    __name__,
    {
        "kb_framework.access": "Access",
        "kb_framework.api.files": "Files",
        "kb_framework.operations": "Dispatcher",
        "kb_framework.pipelines.mutation": "Mutation",
        "kb_framework.pipelines.retrieval": "Retrieval",
        "kb_framework.pipelines.selection": "Selector",
        "kb_framework.plugins": "Plugins",
        "kb_framework.settings": "HostSettings",
        "kb_framework.settings_loading": "Settings",
        "kb_framework.storage.store": "Store Tx",
        "kb_framework.upkeep": "Upkeep",
    },
)
