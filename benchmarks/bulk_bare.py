"""What a person would write by hand for each bulk operation: set-based SQL on the same tables, without this program."""

from __future__ import annotations

import importlib
import importlib.util
import json
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kb_framework.api import DEFAULT_ORGANIZATION, LOCAL_USER
from kb_framework.api.times import now

dbapi2: Any = importlib.import_module("pysqlite3.dbapi2")

_IN_PLAN = "document_id IN (SELECT document_id FROM plan)"


class Bare:
    column = "bare SQL"

    def __init__(self, home: Path) -> None:
        self._files = home / "files"
        self.clock = time.process_time
        self._run = self._open(home / "kb.sqlite")
        self._run("PRAGMA journal_mode=WAL")
        for pragma in (
            "foreign_keys=ON",
            "synchronous=FULL",
            "temp_store=MEMORY",
            "cache_size=-16384",
            "secure_delete=ON",
        ):
            self._run(f"PRAGMA {pragma}")
        self._run("CREATE TEMP TABLE plan (document_id INTEGER PRIMARY KEY)")

    def _open(self, path: Path) -> Any:
        self._connection = dbapi2.connect(str(path), isolation_level=None)
        spec = importlib.util.find_spec("sqlite_vec")
        assert spec is not None
        self._connection.enable_load_extension(True)
        self._connection.load_extension(
            str(Path((spec.submodule_search_locations or [""])[0]) / "vec0")
        )
        return self._connection.execute

    def _begin(self, tag: str) -> int:
        self._run("BEGIN IMMEDIATE")
        self._run("DELETE FROM plan")
        chosen = "INSERT INTO plan SELECT document_id FROM document_tags WHERE organization_id = ? AND tag = ?"
        return self._run(chosen, (DEFAULT_ORGANIZATION, tag)).rowcount

    def _touch(self) -> None:
        self._run(
            "UPDATE documents SET updated_at = ? WHERE id IN (SELECT document_id FROM plan)",
            (now(),),
        )
        self._run("COMMIT")

    def _add(self, tag: str) -> None:
        add = "INSERT OR IGNORE INTO document_tags (organization_id, document_id, tag) SELECT ?, document_id, ? FROM plan"
        self._run(add, (DEFAULT_ORGANIZATION, tag))

    def add_tag(self) -> int:
        count = self._begin("all")
        self._add("x")
        self._touch()
        return count

    def remove_tag(self) -> int:
        count = self._begin("all")
        self._run(f"DELETE FROM document_tags WHERE tag = 'x' AND {_IN_PLAN}")
        self._touch()
        return count

    def replace_tags(self) -> int:
        count = self._begin("all")
        self._run(f"DELETE FROM document_tags WHERE {_IN_PLAN}")
        self._add("y")
        self._add("z")
        self._touch()
        return count

    def delete_old(self) -> int:
        count = self._begin("old")
        gone = f"(SELECT seq FROM chunks WHERE {_IN_PLAN})"
        self._run(f"DELETE FROM chunks_fts_1 WHERE rowid IN {gone}")
        self._run(f"DELETE FROM chunks_vec_1 WHERE rowid IN {gone}")
        self._run(
            "INSERT INTO knowledge_chunk_events (id, organization_id, user_id, chunk_id, event_type, before, reason, created_at) "
            "SELECT lower(hex(randomblob(16))), organization_id, ?, id, 'deleted_hard', "
            "json_object('content_hash', content_hash), 'deleted with its document', ? "
            f"FROM chunks WHERE {_IN_PLAN}",
            (LOCAL_USER, now()),
        )
        self._run(f"DELETE FROM chunks WHERE {_IN_PLAN}")
        self._run(f"DELETE FROM document_tags WHERE {_IN_PLAN}")
        keys = self._run(
            "SELECT file FROM documents WHERE file IS NOT NULL AND id IN (SELECT document_id FROM plan)"
        ).fetchall()
        self._run("DELETE FROM documents WHERE id IN (SELECT document_id FROM plan)")
        self._run("COMMIT")
        for (key,) in keys:
            (self._files / key).unlink(missing_ok=True)
        return count

    def fetch(self, ids: Sequence[str], vectors: bool) -> int:
        embedding = ", v.embedding" if vectors else ""
        join = "JOIN chunks_vec_1 v ON v.rowid = c.seq" if vectors else ""
        query = (
            f"SELECT c.id, c.job_id, c.chunk_index, c.content, c.content_hash, c.metadata, c.created_at{embedding} "
            # The plus keeps the planner from walking through all chunks of the organization.
            f"FROM chunks c {join} WHERE +c.organization_id = ? AND c.id IN (SELECT value FROM json_each(?)) ORDER BY c.id"
        )
        names = (
            "id",
            "job_id",
            "chunk_index",
            "content",
            "content_hash",
            "metadata",
            "created_at",
            "embedding",
        )
        found = [
            dict(zip(names, row, strict=False))
            for row in self._run(query, (DEFAULT_ORGANIZATION, json.dumps(list(ids))))
        ]
        for chunk in found:
            chunk["metadata"] = json.loads(chunk["metadata"])
            if vectors:
                chunk["embedding"] = list(
                    struct.unpack(f"<{len(chunk['embedding']) // 4}f", chunk["embedding"])
                )
        return len(found)

    def close(self) -> None:
        self._connection.close()
