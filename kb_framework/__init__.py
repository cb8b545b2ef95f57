"""The host: it turns selections into guarded mutations and queries into retrievals."""

from kb_framework.api.hooks import hookimpl

__version__ = "0.1.0"

__all__ = ["__version__", "hookimpl"]
