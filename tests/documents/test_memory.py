"""Adding goes on for hours, so what it no longer needs must go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import gc, sys
from kb_framework.__main__ import main

sys.argv = ["kb", "add", sys.argv[1]]
gc.callbacks.append(lambda phase, info: phase == "stop" and print("collected", file=sys.stderr))
main()
"""


def test_garbage_is_collected_while_files_are_added(kb_home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number}.md").write_text(
            f"# {number}\n\nThe text of {number}.\n", encoding="utf-8"
        )

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        capture_output=True,
        text=True,
        timeout=600,
        env=dict(os.environ),
    )

    assert "20 added" in done.stdout, done.stderr
    assert "collected" in done.stderr
