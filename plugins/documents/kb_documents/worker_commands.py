"""`kb worker`: an engine without a door, which makes documents of the files that wait."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

from cyclopts import Parameter

from kb_framework.api.cli import Cli
from kb_framework.errors import ConfigInvalid, KBError


def worker(*, once: Annotated[bool, Parameter(negative=())] = False, cli: Cli) -> int:
    """Read the files that were sent with `queue=true`, and add them. Run as many as you like, on any machine.

    A worker that dies loses nothing: after KB_WORKER_LEASE seconds another takes its file. It ends after the file at hand when
    it is told to (SIGTERM, Ctrl+C).

    Parameters
    ----------
    once
        End when nothing waits any more. The exit code is 1 if a file failed.

    Examples
    --------
    kb worker
    kb worker --once
    """
    from kb_framework.api.opening import open_kb

    if cli.bootstrap.engine_url:
        raise ConfigInvalid(
            "a worker works on the database itself, not through an engine",
            hint="unset KB_ENGINE_URL",
        )
    kb = open_kb(cli.bootstrap, cli.plugins)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    failed = 0
    try:
        cli.say("kb: working")
        for work, result in kb.services["ingest_queue"].run(stop, until_empty=once):
            bad = isinstance(result, KBError)
            failed += bad
            told = (
                result.message
                if isinstance(result, KBError)
                else f"document {result.document_id} {result.status}"
            )
            cli.say(f"kb: job {work.queued.job_id} {work.filename}: {told}")
    finally:
        kb.close()
    return 1 if once and failed else 0
