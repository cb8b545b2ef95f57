"""The table of kills that ends a run: per scenario and store how many there were, what they left, and what was wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

_COLUMNS = ("scenario", "store", "kills", "nothing", "part", "all", "finished", "violations")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if hasattr(terminalreporter.config, "workerinput"):
        # Of a run in several processes the first one has all reports.
        return
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
    ]
    rows = [
        json.loads(value)
        for report in reports
        for name, value in report.user_properties
        if name == "kills"
    ]
    if not rows:
        return
    if kept := os.environ.get("KB_SOAK_REPORT"):
        # The runs on both stores write to it, so that the last one shows both.
        Path(kept).parent.mkdir(parents=True, exist_ok=True)
        with Path(kept).open("a", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
        rows = [json.loads(line) for line in Path(kept).read_text(encoding="utf-8").splitlines()]
    totals = {name: sum(row[name] for row in rows) for name in _COLUMNS[2:]}
    terminalreporter.section("kills: what a killed process left of its work")
    for row in (
        dict(zip(_COLUMNS, _COLUMNS, strict=True)),
        *rows,
        {"scenario": "all", "store": "", **totals},
    ):
        terminalreporter.write_line(
            f"{row['scenario']:12}{row['store']:10}"
            + "".join(f"{row[n]:>12}" for n in _COLUMNS[2:])
        )
    for row in rows:
        for violation in row["found"]:
            terminalreporter.write_line(f"{row['scenario']} on {row['store']}: {violation}")


@pytest.fixture
def store(request: pytest.FixtureRequest) -> str:
    return request.config.getoption("--store")
