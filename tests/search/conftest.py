"""What the tests of search share: a corpus that nobody changes, and a check of everything that is sent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest

from kb_framework.client import Engine, connect
from kb_testing.fixtures import StoreOf

NOTES: list[tuple[str, dict[str, Any]]] = [
    ("Access keys are rotated every 90 days.", {"title": "Keys", "tags": ["ops", "security"]}),
    (
        "Backups run every night; keys to the vault are not in them.",
        {"title": "Backups", "tags": ["ops"]},
    ),
    (
        "백업정책은 매일 밤 실행된다. 열쇠는 90일마다 바꾼다.",
        {"title": "백업", "tags": ["ko"], "lang": "ko"},
    ),
    (
        "毎晩バックアップを取る。鍵は九十日ごとに交換する。",
        {"title": "バックアップ", "tags": ["ja"], "lang": "ja"},
    ),
    (
        "A generated summary about keys.",
        {"title": "Summary", "trust": "generated", "doc_type": "summary"},
    ),
    (
        "Second-hand words about keys.",
        {"title": "Hearsay", "trust": "secondary", "tags": ["security"], "lang": "pt-BR"},
    ),
]
FILES = [
    ("src/main.md", b"# Main\n\n## Start\n\nThe keys of the source tree.\n"),
    ("src/deep/inner/tool.md", b"# Tool\n\nKeys in a deep folder.\n"),
    ("docs/keys.txt", b"Keys in plain text, without any heading."),
    (
        "docs/2026-01-a.html",
        b"<html><head><title>Page</title></head><body><h1>Page</h1><p>Keys on a page.</p></body></html>",
    ),
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, kb_store_of: StoreOf) -> Iterator[Engine]:
    """An engine over a few documents of every kind; for tests that only read."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.upper().startswith("KB_")]:
            patch.delenv(name)
        patch.setenv("KB_DATA_DIR", str(tmp_path_factory.mktemp("corpus") / "kb-home"))
        for name, value in kb_store_of().items():
            patch.setenv(name, value)
        with connect() as engine:
            for text, fields in NOTES:
                engine.add_note(text, **fields)
            for path, data in FILES:
                engine.add_file(path.rsplit("/", 1)[1], data, path=path)
            yield engine


@pytest.fixture(scope="session")
def wire() -> Callable[[Engine], Callable[[Any], None]]:
    """Makes a check that an object is what the schema of its version says."""

    def checker(engine: Engine) -> Callable[[Any], None]:
        published: dict[str, Any] = {}

        def check(data: Any) -> None:
            name = data["schema_version"]
            if name not in published:
                published[name] = engine.get(f"/wire/{name}")
                jsonschema.Draft202012Validator.check_schema(published[name])
            jsonschema.Draft202012Validator(published[name]).validate(data)

        return check

    return checker


def titles(found: dict[str, Any]) -> list[str]:
    return [hit["title"] for hit in found["hits"]]
