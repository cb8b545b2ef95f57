"""What decides whether a file can be read, besides the file itself."""

from __future__ import annotations

import hashlib

from kb_framework.api.parts import HostSettings, Plugins

# Increased when what reads files reads more than before: then all that could not be read is read again once.
_READING = 2
_LIMITS = (
    "max_file_bytes",
    "max_text_chars",
    "max_archive_files",
    "extract_timeout",
    "extract_memory_bytes",
    "chunker",
)


def readers(plugins: Plugins, settings: HostSettings) -> str:
    """Return a digest of the plugins that read files and of their limits; with another one, unread files are read again."""
    there = sorted((info.name, info.version, info.state) for info in plugins.infos)
    limits = [getattr(settings, name) for name in _LIMITS]
    return hashlib.sha256(repr((_READING, there, limits)).encode()).hexdigest()
