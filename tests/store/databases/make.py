"""Make a data folder with rows in every table, of the version that runs this: `python make.py DATA_FOLDER NOTES_FOLDER`.

Run it once per released version, pack the folder (`tar cJf VERSION.tar.xz -C DATA_FOLDER .`), and keep the archive for ever.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from kb_framework.client import connect


def kb(*arguments: str, stdin: str = "") -> str:
    process = subprocess.run(
        [sys.executable, "-m", "kb_framework", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    return process.stdout


def main(home: Path, folder: Path) -> None:
    os.environ |= {
        "KB_DATA_DIR": str(home),
        # Small enough that a few notes make a segment, a tail, and a removal.
        "KB_SIDE_INDEX_MIN_CHUNKS": "20",
        "KB_SIDE_INDEX_TAIL_ROWS": "10",
        "KB_KNOWLEDGE_HARD_DELETE": "true",
    }
    folder.mkdir()
    for name, text in {
        "pumps.md": "# Pumps\n\nHeat pumps hum at night.\n\n## Sizing\n\nThe heat load decides.\n",
        "한국어.md": "# 열쇠\n\n열쇠는 서른 날마다 바뀐다.\n",
        "keys.txt": "Keys are rotated every thirty days.\n",
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4\nnot really\n")
    kb("sync", str(folder), "--tags", "folder,mine")
    with connect() as engine:
        for number in range(40):
            engine.add_note(
                f"Note {number}: turbine blade {number} was inspected in hangar {number % 7}.",
                title=f"Inspection {number}",
                tags=["inspection", f"hangar:{number % 7}"],
                metadata={"number": number, "nested": {"list": [1, 2, 3]}},
                trust="primary" if number % 2 else "secondary",
            )
        chunks = engine.list_chunks(per_page=100)["data"]
        first, second, third, fourth = [chunk["id"] for chunk in chunks[:4]]
        engine.deactivate_chunk(first, "wrong")
        engine.reclassify_chunk(second, "quote", "a quotation")
        engine.set_chunk_policy(third, "never_generate", "private")
        engine.delete_chunk(fourth, confirm=True, reason="gone")
        context = engine.knowledge_context("turbine blade")
        engine.answer_snapshot(context["snapshot_id"], "It was inspected.", "a model")
        engine.research_search("keys rotated")
        engine.research_add(
            "Copper conducts heat well.",
            "fact",
            source_type="web",
            source_ref="https://example.org/copper",
            source_title="Copper",
        )
        plan = engine.bulk_preview("tags", tags=["hangar:3"], add=["third"])["plan"]
        engine.bulk_tags(tags=["hangar:3"], add=["third"], plan=plan)
        engine.bulk_delete(tags=["hangar:5"])
        engine.search("turbine blade")
        engine.start_upload("later.txt", tags=["later"])
        engine.add_file("queued.txt", b"This text waits in the queue.", queue=True)["job"]
        engine.set_role("librarian", ["documents.read", "documents.write"])
        engine.create_organization("second")
        engine.create_key("ana", "librarian")
        revoked = engine.create_key("ben", "viewer")
        engine.revoke_key(revoked["id"])
    # Curation of a text that is gone, and waits for it to come back.
    (folder / "keys.txt").write_text("Keys are rotated every ninety days.\n", encoding="utf-8")
    with connect() as engine:
        for chunk in engine.list_chunks(q="rotated", per_page=100)["data"]:
            engine.deactivate_chunk(chunk["id"], "outdated")
    kb("sync", str(folder), "--tags", "folder,mine")
    # A stored file whose removal was interrupted.
    dbapi2: Any = importlib.import_module("pysqlite3.dbapi2")
    with closing(dbapi2.connect(str(home / "kb.sqlite"))) as connection, connection:
        connection.execute(
            "INSERT INTO file_removals VALUES (?, '2026-01-01T00:00:00.000000Z')",
            ["00/" + "0" * 64],
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())
