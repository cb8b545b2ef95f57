"""`kb eval`: measures search on a collection, with the person's settings, beside their knowledge base."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from kb_search.evaluation import load_collection, ndcg, recall

from kb_framework.errors import ConfigInvalid
from kb_testing.fixtures import Run, stored

COLLECTION = Path(__file__).parent / "collection"


@pytest.mark.new_database
def test_a_table_of_all_modes_is_printed_and_nothing_is_left_behind(
    kb_run: Run, kb_home: Path
) -> None:
    done = kb_run("eval", str(COLLECTION), "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["documents"], found["queries"]) == (12, 12)
    figures = {row["mode"]: row for row in found["results"]}
    assert list(figures) == ["lexical", "vector", "hybrid"]
    assert (
        figures["hybrid"]["nDCG@10"]
        >= max(figures["lexical"]["nDCG@10"], figures["vector"]["nDCG@10"]) - 0.002
    )
    assert figures["hybrid"]["nDCG@10"] > 0.9
    assert "12 documents" in done.stderr
    assert not (kb_home / "kb.sqlite").exists()


@pytest.mark.postgres_only
def test_a_collection_never_comes_into_the_database_of_the_settings(kb_run: Run) -> None:
    assert kb_run("eval", str(COLLECTION), "--mode", "lexical").returncode == 0

    assert stored("SELECT count(*) FROM documents") == [(0,)]


def test_two_settings_are_compared(kb_run: Run) -> None:
    done = kb_run(
        "eval", str(COLLECTION), "--mode", "hybrid", "--compare", "KB_EMBEDDER=none", "--json"
    )

    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["results"]
    assert row["nDCG@10 difference"] == pytest.approx(
        row["nDCG@10 compared"] - row["nDCG@10"], abs=2e-4
    )
    assert row["nDCG@10 difference"] < 0


def test_the_settings_of_the_knowledge_base_count(kb_run: Run, kb_home: Path) -> None:
    kb_home.mkdir(exist_ok=True)
    (kb_home / "kb.toml").write_text('embedder = "none"\n')

    done = kb_run("eval", str(COLLECTION), "--mode", "vector")

    assert done.returncode != 0
    assert "KB_EMBEDDER=none" in done.stderr


@pytest.mark.parametrize(
    "setting", ["multilingual", "EMBEDDER=x", "KB_DATA_DIR=/x", "KB_DATABASE_URL=postgresql://x"]
)
def test_what_is_no_setting_is_refused(kb_run: Run, setting: str) -> None:
    done = kb_run("eval", str(COLLECTION), "--compare", setting)

    assert done.returncode == 2
    assert "--compare" in done.stderr


@pytest.mark.parametrize("missing", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_a_folder_that_is_no_collection_is_refused(tmp_path: Path, missing: str) -> None:
    folder = shutil.copytree(COLLECTION, tmp_path / "collection")
    (folder / missing).unlink()

    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load_collection(folder)


@pytest.mark.parametrize(
    ("file", "line"),
    [("corpus.jsonl", "{"), ("queries.jsonl", '{"_id": 1}'), ("qrels.tsv", "q1\td1")],
)
def test_a_line_that_makes_no_sense_is_pointed_out(tmp_path: Path, file: str, line: str) -> None:
    folder = shutil.copytree(COLLECTION, tmp_path / "collection")
    with (folder / file).open("a") as opened:
        opened.write(line + "\n")

    with pytest.raises(ConfigInvalid, match=file):
        load_collection(folder)


def test_measures() -> None:
    assert ndcg(["a", "b"], {"a": 1, "b": 1}) == 1
    assert ndcg(["b", "a"], {"a": 2, "b": 1}) == pytest.approx(
        (1 + 2 / 1.58496) / (2 + 1 / 1.58496), abs=1e-4
    )
    assert ndcg(["x"] * 10 + ["a"], {"a": 1}) == 0
    assert recall(["a", "x"], {"a": 1, "b": 1}) == 0.5
