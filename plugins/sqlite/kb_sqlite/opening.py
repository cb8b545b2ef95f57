"""Opening the SQLite file in the data folder."""

from __future__ import annotations

from kb_framework.api import StoreLocation
from kb_framework.api.data_folder import DATABASE
from kb_framework.errors import ConfigInvalid
from kb_sqlite.engine import SqliteEngine
from kb_sqlite.settings import AcceleratorSettings


def open_engine(location: StoreLocation, settings: AcceleratorSettings) -> SqliteEngine:
    if location.url is not None:
        raise ConfigInvalid(
            "KB_DATABASE_URL cannot name a SQLite file",
            hint="unset it: SQLite uses kb.sqlite in the data folder, KB_DATA_DIR",
        )
    path = location.data_dir / DATABASE
    return SqliteEngine(path, location.busy_timeout, settings.min_chunks, settings.tail_rows)
