"""Promises and limits of changes, for plugins that announce a change before it is made."""

from __future__ import annotations

from kb_framework.pipelines.promises import Fingerprint as Fingerprint
from kb_framework.pipelines.promises import Promise as Promise
from kb_framework.pipelines.promises import fingerprint as fingerprint
from kb_framework.pipelines.safety import Share as Share
