"""Settings, validated: the host's own as `KB_<FIELD>`, a plugin's section as `KB_<SECTION>_<FIELD>`.

The place in a TOML file is the same name in lower case, where a section's name may be a table: `KB_BULK_PLAN_SECONDS` is
`bulk_plan_seconds` or `plan_seconds` in `[bulk]`, never both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SecretStr

from kb_framework.api.settings import (
    Address,
    DatabaseUrl,
    Number,
    Section,
    StringList,
    WholeNumber,
    valid_database_url,
    without_credentials,
)
from kb_framework.bootstrap import default_data_dir


class HostSettings(Section):
    data_dir: Path = Field(
        default_factory=default_data_dir, description="Holds everything: database, files, keys."
    )
    files_url: Annotated[str | None, BeforeValidator(without_credentials)] = Field(
        None,
        description="Where files are stored: s3://BUCKET/PREFIX?endpoint=URL or file:///FOLDER; by default the data folder.",
    )
    config_file: Path | None = Field(
        None,
        description="A TOML or .env file to read instead of those in the data and configuration folders; also --config.",
    )
    engine_url: Address | None = Field(
        None, description="Use the engine at this address instead of one in this process."
    )
    api_key: SecretStr | None = Field(None, description="The key to send to that engine.")
    disabled_plugins: StringList = Field(
        [], description="Plugins that are not loaded, comma-separated."
    )
    required_plugins: StringList = Field(
        [], description="Plugins without which nothing starts, comma-separated."
    )
    trace_hooks: bool = Field(False, description="Log every hook call with its results.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="How much the engine logs."
    )
    database_url: Annotated[DatabaseUrl | None, BeforeValidator(valid_database_url)] = Field(
        None,
        description="postgresql://… for a PostgreSQL database; by default a SQLite file in the data folder.",
    )
    busy_timeout: Number = Field(
        30.0, gt=0, le=3600, description="Seconds to wait for another process's write."
    )
    disk_reserve_bytes: WholeNumber = Field(
        4_000_000,
        ge=0,
        description="With less room than this on its disk the engine reports the disk as full; 0 never does.",
    )
    bulk_safety_percent: WholeNumber = Field(
        70,
        ge=0,
        le=100,
        description="Bulk operations on a larger share of all documents need force; 0 switches this off.",
    )
    worker_lease: Number = Field(
        60.0,
        gt=0,
        le=86_400,
        description="Seconds after which the file of a worker that gave no sign of life is taken over.",
    )
    max_file_bytes: WholeNumber = Field(100_000_000, ge=1, description="Larger files are refused.")
    max_text_chars: WholeNumber = Field(
        20_000_000,
        ge=1000,
        description="Characters of a file's text that are read; what is longer is cut there.",
    )
    max_archive_files: WholeNumber = Field(
        10_000, ge=1, description="An archive with more files than this is refused."
    )
    extract_timeout: float = Field(
        60.0, gt=0, le=3600, description="Seconds that reading one file may take."
    )
    extract_memory_bytes: WholeNumber = Field(
        2_000_000_000, ge=100_000_000, description="Memory that reading one file may take."
    )
    max_body_bytes: WholeNumber = Field(
        32_000_000, ge=1024, description="Larger JSON bodies are refused."
    )
    body_timeout: Number = Field(
        60.0, gt=0, le=3600, description="Seconds to wait for more of a request's body."
    )
    unauthorized_per_minute: WholeNumber = Field(
        100, ge=0, description="How many wrong keys an address may try in a minute; 0 is no limit."
    )
    local_secret: Literal["auto", "required"] = Field(
        "auto",
        description="Without keys: auto lets in the data folder's owner, by the user id of the connection where the system tells "
        "it; required asks every client for the secret in engine.json.",
    )
    trusted_proxies: StringList = Field(
        [], description="Addresses of proxies whose X-Forwarded-For tells the caller's address."
    )
    search_reranker: str = Field(
        "none",
        description="What orders the best hits of a hybrid search anew; 'none' for nothing.",
        json_schema_extra={"names": "reranker", "none": True},
    )
    chunker: str = Field(
        "structure",
        description="How text is cut into chunks.",
        json_schema_extra={"names": "chunker"},
    )
    allowed_hosts: StringList = Field(
        [], description="Host names, beyond loopback, under which this engine is reached."
    )
