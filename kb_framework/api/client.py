"""The engine client, for commands, tools and scripts."""

from __future__ import annotations

from kb_framework.client import Engine as Engine
from kb_framework.client import connect as connect
from kb_framework.client import given as given
