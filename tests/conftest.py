"""Fixtures of the whole suite; the same that plugin authors use."""

pytest_plugins = ["kb_framework.testing"]
