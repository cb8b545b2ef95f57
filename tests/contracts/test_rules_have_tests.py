"""Every scenario of the bulk requirements, and every rule of B and C, has a test that is called so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
REQUIREMENTS = (
    Path(__file__).parents[3] / "shared" / "specs" / "000-bulk-operations-requirements.md"
)
RULES = [*(f"b{number}" for number in range(1, 14)), *(f"c{number}" for number in range(1, 6))]


def names_in(files: list[Path]) -> set[str]:
    return {
        name
        for file in files
        for name in re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))
    }


@pytest.mark.skipif(
    not REQUIREMENTS.exists(), reason="the requirements are not beside this project"
)
def test_every_scenario_of_the_bulk_requirements_is_a_test_of_its_name() -> None:
    titles = re.findall(r"^#### Scenario: (.+)$", REQUIREMENTS.read_text(encoding="utf-8"), re.M)
    wanted = {"test_" + "_".join(re.findall(r"[a-z0-9]+", title.lower())) for title in titles}

    assert len(wanted) == 21
    assert wanted - names_in([TESTS / "bulk" / "test_scenarios.py"]) == set()


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_of_bulk_operations_and_of_chunks_by_id_has_a_test(rule: str) -> None:
    assert any(
        name.startswith(f"test_{rule}_") for name in names_in(sorted(TESTS.rglob("test_*.py")))
    )
