"""Commands: eval."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from kb_framework.api.cli import Cli
from kb_framework.api.client import Engine, connect
from kb_framework.errors import ConfigInvalid
from kb_search.evaluation import MODES, Collection, Quality, fill, load_collection, measure


def evaluate(
    folder: Path,
    *,
    mode: Annotated[
        list[Literal["lexical", "vector", "hybrid"]] | None, Parameter(negative=())
    ] = None,
    compare: Annotated[list[str] | None, Parameter(negative=())] = None,
    cli: Cli,
) -> None:
    """Measure how well search finds known answers, with the settings that are in force here.

    The documents go into a temporary data folder; the knowledge base itself is not touched.

    Parameters
    ----------
    folder
        A collection: corpus.jsonl, queries.jsonl, qrels.tsv.
    mode
        Which kinds of search; all three if not given.
    compare
        Measure once more with this setting changed, as NAME=VALUE; several are changed together.

    Examples
    --------
    kb eval my-questions
    kb eval my-questions --compare KB_EMBEDDER=multilingual
    """
    collection = load_collection(folder)
    modes = mode or list(MODES)
    runs = [_run(cli, collection, modes, {})]
    if changed := _settings(compare or []):
        runs.append(_run(cli, collection, modes, changed))
    rows = [_row(name, [run[name] for run in runs]) for name in modes]
    data = {
        "collection": collection.name,
        "documents": len(collection.documents),
        "queries": len(collection.queries),
        "compared": changed,
        "results": rows,
    }
    cli.table(data, [[_cell(value) for value in row.values()] for row in rows], list(rows[0]))


def _run(
    cli: Cli, collection: Collection, modes: Sequence[str], changed: Mapping[str, str]
) -> dict[str, Quality]:
    def progress(items: Sequence[Any], label: str) -> Iterable[Any]:
        with cli.progress(items, label) as counted:
            yield from counted

    what = " ".join(f"{name}={value}" for name, value in changed.items()) or "the settings in force"
    cli.say(
        f"{collection.name}: {len(collection.documents)} documents, {len(collection.queries)} queries, {what}"
    )
    with (
        tempfile.TemporaryDirectory(prefix="kb-eval-") as home,
        _engine(cli, Path(home), changed) as engine,
    ):
        ids = fill(engine, collection, progress)
        return {mode: measure(engine, collection, ids, mode, progress) for mode in modes}


@contextmanager
def _engine(cli: Cli, home: Path, changed: Mapping[str, str]) -> Iterator[Engine]:
    """An engine in this process over an empty data folder, with this person's settings, plugins and models."""
    own = cli.bootstrap
    models = own.data_dir / "models"
    if models.is_dir():
        (home / "models").symlink_to(models.resolve(), target_is_directory=True)
    variables = {
        "KB_DISABLED_PLUGINS": ",".join(sorted(own.disabled_plugins)),
        **changed,
        "KB_ENGINE_URL": "",
        "KB_DATA_DIR": str(home),
        "KB_FILES_URL": (home / "files").as_uri(),
        # Nothing of a collection may get into the person's own database.
        "KB_DATABASE_URL": "",
        "KB_DATABASE_REPLICA_URL": "",
    }
    with connect(own.with_values(variables)) as engine:
        yield engine


# Where a run keeps its documents is not for the person to say.
_OWN = {
    "KB_DATA_DIR",
    "KB_ENGINE_URL",
    "KB_DATABASE_URL",
    "KB_DATABASE_REPLICA_URL",
    "KB_FILES_URL",
}


def _settings(given: Sequence[str]) -> dict[str, str]:
    pairs = [item.partition("=") for item in given]
    for name, equals, _ in pairs:
        if not equals or not name.startswith("KB_") or name in _OWN:
            raise ConfigInvalid(
                f"--compare takes a setting, such as KB_EMBEDDER=multilingual, not {name!r}"
            )
    return {name: value for name, _, value in pairs}


def _row(mode: str, found: Sequence[Quality]) -> dict[str, Any]:
    """A mode's figures; where two runs are compared, both and the difference."""
    names = {"nDCG@10": "ndcg", "Recall@100": "recall", "ms": "milliseconds"}
    row: dict[str, Any] = {"mode": mode}
    for label, field in names.items():
        values = [round(getattr(quality, field), 4) for quality in found]
        row[label] = values[0]
        if len(values) == 2:
            row[f"{label} compared"] = values[1]
            row[f"{label} difference"] = round(values[1] - values[0], 4)
    return row


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else value
