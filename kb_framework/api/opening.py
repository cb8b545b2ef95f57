"""Opening a knowledge base or its parts by hand, for commands that work without an engine or beside one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_framework.api.lazy import lazily

if TYPE_CHECKING:
    from kb_framework.app import load_plugin_settings as load_plugin_settings
    from kb_framework.app import open_engine as open_engine
    from kb_framework.app import open_kb as open_kb
    from kb_framework.app import open_store as open_store
    from kb_framework.app import plugin_steps as plugin_steps
    from kb_framework.bootstrap import Bootstrap as Bootstrap
    from kb_framework.running import PATIENT_SECONDS as PATIENT_SECONDS
    from kb_framework.running import running_engine as running_engine
    from kb_framework.settings_loading import load_settings as load_settings
    from kb_framework.storage.migrations import UNFINISHED_COPY as UNFINISHED_COPY
    from kb_framework.storage.migrations import require_current as require_current

__getattr__ = lazily(
    __name__,
    {
        "kb_framework.app": "load_plugin_settings open_engine open_kb open_store plugin_steps",
        "kb_framework.bootstrap": "Bootstrap",
        "kb_framework.running": "PATIENT_SECONDS running_engine",
        "kb_framework.settings_loading": "load_settings",
        "kb_framework.storage.migrations": "UNFINISHED_COPY require_current",
    },
)
