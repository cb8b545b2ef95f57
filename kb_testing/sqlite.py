"""The database with which tests on SQLite begin: a copy of one that was migrated once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kb_framework.api.data_folder import DATABASE


@pytest.fixture(scope="session")
def kb_begin(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Path], None]:
    """Makes a data folder with a new database, where tests run on SQLite."""
    if request.config.getoption("--store") != "sqlite":
        return lambda home: None
    from kb_framework.app import open_kb
    from kb_framework.bootstrap import read_bootstrap

    folder = tmp_path_factory.mktemp("new-database")
    environment = {"KB_DATA_DIR": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
    open_kb(read_bootstrap(environment)).close()
    database = folder / DATABASE

    def begin(home: Path) -> None:
        home.mkdir(mode=0o700)
        # Its mode is copied too.
        shutil.copy(database, home / DATABASE)

    return begin
