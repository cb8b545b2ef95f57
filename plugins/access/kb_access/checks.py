"""The doctor's check of who can read the data folder."""

from __future__ import annotations

import os
from collections.abc import Iterator

from kb_framework.api import Finding
from kb_framework.api.parts import Access, HostSettings


class FolderCheck:
    """Where there are keys, check that no other user can bypass them by reading the data folder."""

    def __init__(self, access: Access, host_settings: HostSettings) -> None:
        self._access = access
        self._folder = host_settings.data_dir

    def check(self) -> Iterator[Finding]:
        is_open = os.name == "posix" and self._folder.stat().st_mode & 0o077
        if is_open and self._access.is_on():
            words = f"others on this machine can look into {self._folder}"
            yield Finding("warning", "folder", words, "chmod 700 keeps them out")
