"""Which tests run on PostgreSQL as well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_on_postgresql_runs_what_uses_a_database_and_is_not_above_the_store(store: str) -> None:
    files = ["host/test_text.py", "host/test_settings.py", "host/test_system.py"]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "--store", store]

    done = subprocess.run([*command, *(str(TESTS / name) for name in files)], capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stdout + done.stderr
    assert [name in done.stdout for name in files] == ([True] * 3 if store == "sqlite" else [False, False, True])


def test_what_is_left_out_on_postgresql_is_there(request: pytest.FixtureRequest) -> None:
    (suite,) = [p for p in request.config.pluginmanager.get_plugins() if hasattr(p, "ABOVE_THE_STORE")]

    assert [name for name in suite.ABOVE_THE_STORE if not (TESTS / name).is_file()] == []
