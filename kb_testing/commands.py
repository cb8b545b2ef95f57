"""`kb` commands for tests: each in a process of its own, forked from one that has imported everything.

Most of the time of a short command, and of starting a server, goes into imports. So one process per run of the tests imports what
a command needs, and forks for each command. The child gets the command's environment, folder, input and output, and runs what
`kb` runs.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from kb_testing import launcher

# Only a command that hangs takes so long, on a busy machine too.
_SECONDS = 600
FROM_THE_BEGINNING = (sys.executable, "-m", "kb_framework")
_IMPORTED_BY_SERVERS = ("kb_framework.edges.http.serve", "kb_postgres.engine")
# Python itself reads these when it starts, so a fork cannot heed them.
_AT_START = ("PYTHON", "LANG", "LC_")


class Commands:
    """Runs commands by a process that forks, or, where there is none, each from its beginning."""

    def __init__(self, address: Path | None) -> None:
        self._address = address

    @property
    def address(self) -> str | None:
        return str(self._address) if self._address else None

    def line(self, *arguments: str) -> list[str]:
        """The command line of a process that behaves as `kb` with these arguments, for `Popen`.

        The process that works is another one: to stop or kill exactly that one, or to give it limits, use `FROM_THE_BEGINNING`.
        """
        if self._address is None:
            return [*FROM_THE_BEGINNING, *arguments]
        return [sys.executable, "-I", "-S", launcher.__file__, str(self._address), *arguments]

    def run(
        self, arguments: Sequence[str], stdin: str | None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        if (
            self._address is None
            or stdin is None
            or any(name.startswith(_AT_START) for name in environment)
        ):
            return run_from_the_beginning(arguments, stdin, **environment)
        with self.started(arguments, stdin, **environment) as command:
            return command.finish()

    @contextmanager
    def started(
        self, arguments: Sequence[str], stdin: str = "", **environment: str
    ) -> Iterator[Started]:
        """A forked command while it runs. It is killed where the block ends before it does."""
        assert self._address is not None, "only where processes can be forked"
        with ThreadPoolExecutor(3) as pool, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_SECONDS)
            connection.connect(str(self._address))
            inputs, outputs, errors = os.pipe(), os.pipe(), os.pipe()
            theirs = [inputs[0], outputs[1], errors[1]]
            socket.send_fds(connection, [b"."], theirs)
            for file in theirs:
                os.close(file)
            pool.submit(_write, inputs[1], stdin)
            said, complained = pool.submit(_read, outputs[0]), pool.submit(_read, errors[0])
            asked = {
                "arguments": arguments,
                "folder": str(Path.cwd()),
                "environment": {**os.environ, **environment},
            }
            connection.sendall(json.dumps(asked).encode() + b"\n")
            with connection.makefile() as answers:
                yield Started(
                    ["kb", *arguments], int(answers.readline()), answers, said, complained
                )


@dataclass(frozen=True)
class Started:
    """A command under way."""

    arguments: list[str]
    pid: int
    answers: TextIO
    said: Future[str]
    complained: Future[str]

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def finish(self) -> subprocess.CompletedProcess[str]:
        """Wait until the command, and every process that has its output, is gone."""
        code = int(self.answers.readline())
        return subprocess.CompletedProcess(
            self.arguments, code, self.said.result(), self.complained.result()
        )


def run_from_the_beginning(
    arguments: Sequence[str], stdin: str | None = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FROM_THE_BEGINNING, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, **environment},
        timeout=_SECONDS,
    )


def _write(file: int, text: str) -> None:
    # A command need not read all of its input.
    with suppress(BrokenPipeError), open(file, "w", encoding="utf-8") as stream:
        stream.write(text)


def _read(file: int) -> str:
    with open(file, encoding="utf-8") as stream:
        return stream.read()


@contextmanager
def commands() -> Iterator[Commands]:
    """Run commands until the block ends."""
    # Elsewhere a process may not fork once certain libraries are loaded.
    if sys.platform != "linux":
        yield Commands(None)
        return
    with tempfile.TemporaryDirectory(prefix="kb-commands-") as folder:
        address = Path(folder) / "socket"
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("KB_", "PYTHONPATH"))
        }
        # The settings of the person who runs the tests are not theirs.
        clean |= {"KB_DATA_DIR": f"{folder}/home", "XDG_CONFIG_HOME": f"{folder}/config"}
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(address))
            listener.listen(128)
            # Who connects before it has imported everything is answered then.
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "kb_testing.commands", str(listener.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=clean,
                pass_fds=[listener.fileno()],
            )
        with process:
            yield Commands(address)
            # It ends with its input.
            assert process.stdin
            process.stdin.close()


_shared: list[tuple[ExitStack, Commands]] = []


def shared() -> Commands:
    """The commands of this process, started when they are first needed."""
    if not _shared:
        stack = ExitStack()
        _shared.append((stack, stack.enter_context(commands())))
    return _shared[0][1]


def share(address: str | None) -> None:
    """Use the commands of another process."""
    _shared.append((ExitStack(), Commands(Path(address) if address else None)))


def close_shared() -> None:
    while _shared:
        _shared.pop()[0].close()


def _fork_for_each(listener: socket.socket) -> None:
    for name in _imported_by_a_command():
        with suppress(ImportError):
            __import__(name)
    # Nothing of it is garbage, so that no child searches it, and copies it, for that.
    gc.freeze()
    with listener:
        # Nobody waits for the children.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            connection = listener.accept()[0]
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                _answer(connection)
                return
            connection.close()


def _imported_by_a_command() -> list[str]:
    """The modules that were loaded after a command, in this order; learnt in a child, so that nothing else of it is kept."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        from kb_framework.edges.cli.app import run

        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            sys.stdout = sys.stderr = nowhere
            run(["note", "a text"])
            run(["search", "text"])
        for name in _IMPORTED_BY_SERVERS:
            with suppress(ImportError):
                importlib.import_module(name)
        with os.fdopen(writing, "w", encoding="utf-8") as names:
            names.write("\n".join(name for name in sys.modules if name != "__main__"))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as names:
        found = names.read().split("\n")
    os.waitpid(child, 0)
    return found


def _answer(connection: socket.socket) -> None:
    files = list(socket.recv_fds(connection, 1, 3)[1])
    with connection.makefile() as lines:
        asked = json.loads(lines.readline())
    child = os.fork()
    if child == 0:
        connection.close()
        _become(asked, files)
    for file in files:
        os.close(file)
    connection.sendall(f"{child}\n".encode())
    ended = os.pidfd_open(child)
    if ended not in select.select([ended, connection], [], [])[0]:
        # The process that asked for it is gone.
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(BrokenPipeError):
        connection.sendall(f"{code}\n".encode())
    connection.close()


def _become(asked: dict[str, Any], files: list[int]) -> None:
    from kb_framework.__main__ import main

    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # Made anew, as the former ones know what the files were; they last as long as the process.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    sys.path[0:0] = [
        entry for entry in asked["environment"].get("PYTHONPATH", "").split(os.pathsep) if entry
    ]
    sys.argv = ["kb", *asked["arguments"]]
    main()


if __name__ == "__main__":
    _fork_for_each(socket.socket(fileno=int(sys.argv[1])))
