"""Sending files to the engine, several at a time, and what became of each."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from kb_documents.folders import LARGE, File, Listing, open_file, together
from kb_documents.skip_rules import SECRET, is_private_key, why_unread
from kb_framework.api.cli import Cli
from kb_framework.api.client import given
from kb_framework.errors import EngineError

_CONTINUES = "; the same command continues"
STATES = ("added", "updated", "unchanged", "failed")
LEFT_OUT = "left_out"
IS_KEY = "it holds a private key or credentials; --all adds it"


def send(
    cli: Cli, listing: Listing, compared: dict[str, Any], fields: dict[str, Any]
) -> list[dict[str, Any]]:
    """Upload the wanted files, several at a time; return what became of each."""
    files: list[File] = compared["files"]
    if files:
        # Commands end before their garbage matters; this one may go on for hours. What is there by now is there to stay.
        gc.freeze()
        gc.enable()
    wanted = {file.source for file in files}
    outcomes = [_not_sent(file, compared) for file in listing.files if file.source not in wanted]
    outcomes += [
        {"path": place, "state": "failed", "reason": reason}
        for place, reason in listing.unreadable.items()
    ]
    outcomes += [
        _left_out(shown, reason) for reason, places in listing.left_out.items() for shown in places
    ]
    limit = compared["max_file_bytes"]
    # Small files go several at a time; of the large ones only one is under way.
    one_large_file = threading.Lock()

    def send(files: list[File]) -> list[dict[str, Any]]:
        if files[0].size <= LARGE:
            return _send_together(cli, files, fields, limit, keys=listing.everything)
        with one_large_file:
            return [_send_large(cli, files[0], fields, limit)]

    with ThreadPoolExecutor(max_workers=(os.cpu_count() or 1) + 1) as pool:
        jobs = [pool.submit(send, group) for group in together(files, lambda file: file.size)]
        try:
            arriving = (item for job in as_completed(jobs) for item in job.result())
            with cli.progress(files, "adding", arriving) as done:
                outcomes += done
        except KeyboardInterrupt:
            _cancel(jobs)
            # What is under way is finished, so that the count is right.
            finished = [job for job in jobs if not job.cancelled() and not job.exception()]
            raise KeyboardInterrupt(
                _so_far([item for job in finished for item in job.result()])
            ) from None
        except BaseException:
            _cancel(jobs)
            raise
    return sorted(outcomes, key=lambda item: item["path"])


def _so_far(outcomes: list[dict[str, Any]]) -> str:
    done = {state: sum(item["state"] == state for item in outcomes) for state in STATES}
    return (
        ", ".join(f"{count} {state}" for state, count in done.items() if count or state == "added")
        + _CONTINUES
    )


def _cancel(jobs: Iterable[Future[Any]]) -> None:
    for job in jobs:
        job.cancel()


def _send_together(
    cli: Cli, files: list[File], fields: dict[str, Any], limit: int, *, keys: bool
) -> list[dict[str, Any]]:
    """Send several small files in one request; `keys` says whether private keys are among what is wanted."""
    failed: list[dict[str, Any]] = []
    read: list[tuple[File, bytes]] = []
    for file in files:
        try:
            data = _content(file)
        except OSError as error:
            failed.append(_failed(file, error.strerror or str(error)))
            continue
        if len(data) > limit:
            failed.append(_too_large(file, len(data), limit))
        elif file.source and not keys and is_private_key(data, file.shown):
            failed.append(_not_added(file, SECRET, IS_KEY))
        else:
            read.append((file, data))
    if not read:
        return failed
    try:
        answers = cli.engine.add_files(
            [(Path(file.shown).name, data, given(**_known(file), **fields)) for file, data in read]
        )["results"]
    except EngineError as error:
        if error.http_status >= 500:
            raise
        if len(read) > 1:
            # Something is wrong with one of them: send each alone.
            return failed + [
                outcome
                for file, _ in read
                for outcome in _send_together(cli, [file], fields, limit, keys=keys)
            ]
        return [
            *failed,
            _outcome(
                read[0][0], {"error": {"message": error.message, **error.details}, "response": None}
            ),
        ]
    return failed + [
        _outcome(file, answer) for (file, _), answer in zip(read, answers, strict=True)
    ]


def _send_large(cli: Cli, file: File, fields: dict[str, Any], limit: int) -> dict[str, Any]:
    """Upload a file part by part, so that the sender does not hold it in memory."""
    if file.size > limit:
        return _too_large(file, file.size, limit)
    assert file.place is not None
    try:
        upload = cli.engine.start_upload(Path(file.shown).name, **_known(file), **fields)
        with open_file(file.place) as content:
            while part := content.read(LARGE):
                upload = cli.engine.append_upload(upload["upload_id"], upload["received"], part)
        return _outcome(
            file, {"response": cli.engine.finish_upload(upload["upload_id"]), "error": None}
        )
    except OSError as error:
        return _failed(file, error.strerror or str(error))
    except EngineError as error:
        if error.http_status >= 500:
            raise
        return _outcome(
            file, {"error": {"message": error.message, **error.details}, "response": None}
        )


def _content(file: File) -> bytes:
    if file.place is None:
        return file.content
    with open_file(file.place) as content:
        return content.read()


def _known(file: File) -> dict[str, Any]:
    source = (
        {"source": file.source, "modified_ns": file.modified_ns, "stamp": file.stamp}
        if file.place
        else {}
    )
    return {"path": file.shown, **source}


def _too_large(file: File, size: int, limit: int) -> dict[str, Any]:
    return _failed(file, f"{size} bytes; at most {limit} (KB_MAX_FILE_BYTES)")


def _not_sent(file: File, compared: dict[str, Any]) -> dict[str, Any]:
    """Return what became of a file that need not be sent."""
    if kind := compared[LEFT_OUT].get(file.source):
        return _not_added(file, kind, why_unread(kind))
    before = compared["refused"].get(file.source)
    return _refused_before(file, before) if before else _unchanged(file)


def _unchanged(file: File) -> dict[str, Any]:
    return {"path": file.shown, "state": "unchanged"}


def _refused_before(file: File, before: dict[str, Any]) -> dict[str, Any]:
    return _failed(file, before["reason"], job_id=before["job_id"], read=False)


def _left_out(shown: str, reason: str) -> dict[str, Any]:
    return {"path": shown, "state": LEFT_OUT, "reason": reason}


def _not_added(file: File, kind: str, why: str) -> dict[str, Any]:
    """Return that a file is left out; the only file that was named fails instead, so that the command says why."""
    return _failed(file, why) if file.named else _left_out(file.shown, kind)


def _failed(file: File, reason: str, **more: Any) -> dict[str, Any]:
    return {"path": file.shown, "state": "failed", "reason": reason, **more}


def _outcome(file: File, answer: dict[str, Any]) -> dict[str, Any]:
    error, added = answer["error"], answer["response"]
    if error and "file_kind" in error:
        return _not_added(file, error["file_kind"], error["message"])
    if error:
        return _failed(file, error["message"], job_id=error.get("job_id"))
    outcome = {"path": file.shown, "state": added["status"], "document_id": added["document"]["id"]}
    outcome |= {name: True for name in ("returned", "is_copy") if added[name]}
    outcome |= _cut(added)
    outcome |= {"tags_added": added["tags_added"]} if added["tags_added"] else {}
    return outcome | ({"attachments": added["attachments"]} if added["attachments"] else {})


def _cut(added: dict[str, Any]) -> dict[str, Any]:
    """Return how much of a text was read, where it was only the first part."""
    found = added["document"]["metadata"].get("truncated")
    return {"truncated": found} if isinstance(found, dict) else {}
