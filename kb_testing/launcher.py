"""Run one `kb` command in a process forked from another one, and behave as that process does.

The arguments are the address of the forking process and the command's own. This file imports little, so that it starts fast:
run it with `python -I -S`. Signals are passed on, the exit code is the command's, and the command ends if this process is killed.
"""

import json
import os
import signal
import socket
import sys

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCONT, signal.SIGUSR1)


def launch(address: str, arguments: list[str]) -> int:
    child: list[int] = []
    early: list[int] = []

    def forward(number: int, _: object) -> None:
        if not child:
            early.append(number)
            return
        try:
            os.kill(child[0], number)
        except ProcessLookupError:
            # It has just ended.
            return

    for number in FORWARDED:
        signal.signal(number, forward)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [b"."], [0, 1, 2])
        for file in (0, 1, 2):
            # The command has them now: a reader waits for the end of its output only.
            os.close(file)
        asked = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109
        connection.sendall(json.dumps(asked).encode() + b"\n")
        with connection.makefile() as answers:
            child.append(int(answers.readline()))
            for number in early:
                forward(number, None)
            return int(answers.readline())


if __name__ == "__main__":
    code = launch(sys.argv[1], sys.argv[2:])
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
