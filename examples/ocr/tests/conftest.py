from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["kb_testing.fixtures"]


@pytest.fixture(autouse=True)
def patient(kb_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let reading take as long as it takes on a busy machine."""
    monkeypatch.setenv("KB_EXTRACT_TIMEOUT", "3600")
