"""What sessions of the console need to agree on with the access plugin."""

from __future__ import annotations

COOKIE = "kb_session"
