"""Commands: export, import, backup, restore, migrate-store, reindex."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from kb_framework.api import Upload
from kb_framework.api.cli import STDIN, Cli
from kb_framework.errors import ConfigInvalid, InvalidInput
from kb_maintenance.archive import ArchiveEnd

Flag = Parameter(negative=())
_PART = 1 << 18


def export(file: str, *, force: Annotated[bool, Flag] = False, cli: Cli) -> int:
    """Write documents, files, chunks, tags and jobs to one archive, as they are at this moment.

    A damaged stored file is named and left out; then the exit code is 1.

    Parameters
    ----------
    file
        The archive, by custom *.kbz; - for standard output.
    force
        Replace a file that is there.

    Examples
    --------
    kb export everything.zip
    """
    return _save(cli, file, cli.engine.download("export_archive"), force=force, what="exported")


def backup(file: str, *, force: Annotated[bool, Flag] = False, cli: Cli) -> int:
    """Write a copy of the database and all files, while others go on writing.

    A damaged stored file is named and left out; then the exit code is 1.

    Parameters
    ----------
    file
        The backup; - for standard output.
    force
        Replace a file that is there.

    Examples
    --------
    kb backup monday.zip
    """
    return _save(cli, file, cli.engine.download("download_backup"), force=force, what="backed up")


def _save(cli: Cli, file: str, parts: Iterator[bytes], *, force: bool, what: str) -> int:
    """Write an archive to a file that has its name only once it is complete; 1 if something in it is damaged."""
    end = ArchiveEnd()
    # The command line passes a single dash as `STDIN`.
    if file in ("-", STDIN):
        for part in parts:
            end.take(part)
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        return _warn(cli, end.messages)
    target = Path(file).expanduser()
    if target.exists() and not force:
        raise ConfigInvalid(f"{target} exists", hint="--force replaces it")
    if not target.parent.is_dir():
        raise InvalidInput(f"there is no folder {target.parent}")
    handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    size = 0
    try:
        stopped = cli.interruptible("no archive was written; the same command starts again")
        with stopped, os.fdopen(handle, "wb") as out, cli.counting(what) as advance:
            for part in parts:
                end.take(part)
                out.write(part)
                size += len(part)
                advance(size, None)
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)
    found = {"file": str(target), "bytes": size, "damaged": end.messages}
    cli.result(found, f"{what} to {target}: {size} bytes")
    return _warn(cli, end.messages)


def _warn(cli: Cli, messages: Sequence[str]) -> int:
    for message in messages:
        cli.say(f"kb: {message}")
    if messages:
        cli.say("kb: the archive is complete but for this, and can be used")
    return 1 if messages else 0


def import_archive(
    file: str,
    *,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False,
    dry_run: Annotated[bool, Flag] = False,
    cli: Cli,
) -> int:
    """Add what an archive holds and is not here yet; what is here stays as it is. Twice is the same as once.

    Parameters
    ----------
    file
        The archive.
    yes
        Do not ask.
    dry_run
        Only say what would be added.

    Examples
    --------
    kb import everything.zip
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise InvalidInput(f"there is no file {file!r}")
    size = path.stat().st_size
    with cli.interruptible("nothing was added"), cli.counting("checking", size) as advance:
        preview = cli.engine.upload_import(Upload(_counted(_read(path), advance, size), size))
    new = preview["documents"]["new"] + sum(table["new"] for table in preview["tables"].values())
    if not cli.json:
        _say_preview(cli, preview)
    try:
        if dry_run or not new:
            cli.result(
                {"preview": preview, "imported": None},
                "nothing is new" if not new else f"{new} rows would be added",
            )
            return 1 if preview["damaged"] else 0
        if not yes and not cli.confirm("Add what is new?", "--yes"):
            return 1
        stopped = cli.interruptible("a part may have been added; the same command adds the rest")
        with stopped, cli.counting("importing") as advance:
            while not (done := cli.engine.apply_import(preview["import_id"]))["finished"]:
                advance(done["done"], done["total"])
    finally:
        cli.engine.discard_import(preview["import_id"])
    words = f"{done['documents']} documents with {done['chunks']} chunks added"
    words += "".join(f", {count} {name}" for name, count in done["rows"].items())
    words += f", {len(done['refused'])} documents refused" if done["refused"] else ""
    cli.result({"preview": preview, "imported": done}, words)
    if not cli.json:
        for old, number in list(done["renumbered"].items())[:20]:
            cli.say(f"document {old} is document {number} here")
        for item in done["refused"][:20]:
            cli.say(f"refused: {item['title']}: {item['error']}")
        if done["hint"]:
            cli.say(f"kb: {done['hint']}")
    return 1 if preview["damaged"] or done["refused"] else 0


def _say_preview(cli: Cli, preview: dict[str, Any]) -> None:
    rows = {"documents": preview["documents"], "chunks": preview["chunks"], **preview["tables"]}
    for name, counts in rows.items():
        cli.say(f"{name}: " + ", ".join(f"{count} {state}" for state, count in counts.items()))
    for item in preview["sample"]:
        if item["state"] == "different":
            cli.say(f"different here, left as it is: {item['title']}")
    for message in preview["damaged"]:
        cli.say(f"kb: {message}")
    if preview["ignored"]:
        cli.say(f"not known here, left out: {', '.join(preview['ignored'])}")


def restore(file: str, *, force: Annotated[bool, Flag] = False, cli: Cli) -> int:
    """Put a backup in the place of the data folder's content, once it has been verified. No engine may be running.

    A stored file that is damaged in the backup is named and left out; then the exit code is 1.

    Parameters
    ----------
    file
        The backup.
    force
        Replace what is there; it is kept in a folder of its own.

    Examples
    --------
    kb restore monday.zip
    """
    from kb_maintenance.restore import restore_backup

    path = Path(file).expanduser()
    if not path.is_file():
        raise InvalidInput(f"there is no file {file!r}")
    done = restore_backup(cli.bootstrap, cli.plugins, path, force=force)
    words = (
        f"restored {done['documents']} documents and {done['files']} files of {done['created_at']}"
    )
    cli.result(done, words + (f"; what was there is in {done['kept']}" if done["kept"] else ""))
    for message in done["damaged"]:
        cli.say(f"kb: {message}")
    return 1 if done["damaged"] else 0


def migrate_store(sqlite_path: str, postgres_url: str | None = None, *, cli: Cli) -> None:
    """Copy a SQLite database into an empty PostgreSQL database, with all ids, and compare both. Interrupted, it goes on.

    Examples
    --------
    kb migrate-store ~/.local/share/kb/kb.sqlite postgresql://kb@db.example/kb

    Parameters
    ----------
    sqlite_path
        The database file; no engine may be running on it. It is only read.
    postgres_url
        The database, postgresql://…; without it that of KB_DATABASE_URL, which keeps a password out of the command line.
    """
    from kb_maintenance.moving import move_store

    with cli.counting("copying") as advance:
        done = move_store(
            cli.bootstrap, cli.plugins, Path(sqlite_path).expanduser(), postgres_url, advance
        )
    words = f"copied and compared {done['documents']} documents with {done['chunks']} chunks and {done['vectors']} vectors"
    cli.result(done, f"{words}: {done['rows']} rows in {len(done['tables'])} tables")
    if cli.json:
        return
    files = done["files"]
    if files["missing"]:
        cli.say(
            f"kb: {files['missing']} of {files['wanted']} stored files are not where KB_FILES_URL or KB_DATA_DIR says"
        )
        if files["folder"]:
            cli.say(f"    copy them from {files['folder']}")
    elif files["wanted"]:
        cli.say(
            f"kb: the {files['wanted']} stored files are no part of the database: keep them where they are"
        )
    cli.say(f"kb: set KB_DATABASE_URL to use it: {done['database']}")


def reindex(
    *, embedder: str | None = None, compact: Annotated[bool, Flag] = False, cli: Cli
) -> None:
    """Embed all chunks anew beside the vectors in use, which are replaced at the end. Interrupted, it goes on the next time.

    Parameters
    ----------
    embedder
        Another embedder than the configured one.
    compact
        Embed nothing; move the vectors to an index without holes.

    Examples
    --------
    kb reindex
    kb reindex --compact
    """
    if compact and embedder:
        raise ConfigInvalid(
            "--compact keeps the vectors as they are; it does not go with --embedder"
        )
    stopped = cli.interruptible("searches use the vectors from before; the same command continues")
    with stopped, cli.counting("compacting" if compact else "embedding") as advance:
        while not (
            done := cli.engine.compact() if compact else cli.engine.reindex(embedder=embedder)
        )["finished"]:
            advance(done["done"], done["total"])
    if compact:
        before, after = done["before"], done["after"]
        words = (
            f"the vector index has {after['bytes']} bytes, it had {before['bytes']}"
            if after
            else "there are no vectors"
        )
        cli.result(done, words)
        return
    cli.result(done, f"{done['done']} chunks embedded with {done['model']}")
    hint = done["hint"] or _to_keep(cli)
    if hint and not cli.json:
        cli.say(f"kb: {hint}")


def _to_keep(cli: Cli) -> str | None:
    """Return how to keep an embedder that only the environment names: a command without it would not use the vectors."""
    environment, *files = cli.bootstrap.sources
    chosen = environment.find("KB_EMBEDDER")
    kept = next((found for file in files if (found := file.find("KB_EMBEDDER"))), None)
    if cli.bootstrap.engine_url or chosen is None or (kept and kept[1] == chosen[1]):
        return None
    return f"only the environment names this embedder; to use it without: kb config set embedder {chosen[1]}"


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(_PART):
            yield part


def _counted(
    parts: Iterable[bytes], advance: Callable[[int, int | None], None], total: int
) -> Iterator[bytes]:
    done = 0
    for part in parts:
        yield part
        done += len(part)
        advance(done, total)
