"""A process that reads files for another: whatever a file does to it costs that one file.

It speaks over its standard input and output: each message is eight bytes of length and as many bytes. A request is two
messages, the pickle of `(target, name, Cutting or None)` and the file as it is. An answer is the pickle of a pair:

- `("ok", (Extracted, Parts or None))`; of a text that was taken apart only the parts are sent
- `("failed", sentence)`, or `("no_text", sentence)` where another extractor may find text
- `("wrong", what the extractor returned)`
- `("memory", "")`
- `("error", traceback)`, or `("uncut", traceback)` where the chunker raised
"""

from __future__ import annotations

import os
import pickle
import queue
import re
import signal
import struct
import sys
import threading
import traceback
from typing import IO, Any

from kb_documents.reading import TRUNCATED, Cutting, take_apart
from kb_framework.api import Extracted, resolve
from kb_framework.errors import KBError, NoText

_LENGTH = struct.Struct(">Q")
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")


def send(stream: IO[bytes], message: Any) -> None:
    """Write one message."""
    send_bytes(stream, pickle.dumps(message, protocol=5))


def send_bytes(stream: IO[bytes], body: bytes) -> None:
    """Write one message as it is: a file may be large, and pickled it would be there twice."""
    stream.write(_LENGTH.pack(len(body)))
    stream.write(body)
    stream.flush()


def receive(stream: IO[bytes], limit: int | None = None) -> bytes:
    """Read one message as it came; EOFError where there is none, ValueError where it is longer than the limit."""
    (length,) = _LENGTH.unpack(_read(stream, _LENGTH.size))
    if limit is not None and length > limit:
        raise ValueError("the answer is too long")
    return _read(stream, length)


def _read(stream: IO[bytes], length: int) -> bytes:
    body = stream.read(length)
    if len(body) < length:
        raise EOFError
    return body


def main() -> None:
    """Answer requests until standard input ends."""
    requests, answers = _private_streams()
    if hasattr(signal, "SIGINT"):
        # Ctrl+C reaches the whole terminal group; whoever asked decides what becomes of its workers.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    _no_core_dumps()
    seconds = float(os.environ.get("KB_EXTRACT_TIMEOUT", "60"))
    memory = int(os.environ.get("KB_EXTRACT_MEMORY_BYTES", "2000000000"))
    longest = int(os.environ.get("KB_MAX_TEXT_CHARS", "20000000"))
    waiting: queue.SimpleQueue[tuple[bytes, bytes]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, waiting), daemon=True).start()
    send(answers, ("ready", ""))
    while True:
        request, data = waiting.get()
        target, name, cutting = pickle.loads(request)
        _alarm(seconds + 10)
        answer = _answer(target, data, name, cutting, memory, longest)
        del data
        send(answers, answer)
        del answer
        _alarm(0)


def _private_streams() -> tuple[IO[bytes], IO[bytes]]:
    """The pipes to the other process, out of reach of libraries that print."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)
    os.close(nothing)
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - for as long as the process lives
    return requests, answers


def _listen(requests: IO[bytes], waiting: queue.SimpleQueue[tuple[bytes, bytes]]) -> None:
    # In a thread of its own, so that a worker in the middle of a file notices that nobody waits for it any more.
    try:
        while True:
            waiting.put((receive(requests), receive(requests)))
    except (EOFError, OSError):
        os._exit(0)


def _alarm(seconds: float) -> None:
    """Have the system end this process: the last resort where native code never returns and nobody is left to kill it."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _answer(
    target: str, data: bytes, name: str, cutting: Cutting | None, memory: int, longest: int
) -> tuple[str, Any]:
    trouble = "error"
    try:
        function = resolve(target)
        _limit_memory(memory)
        try:
            extracted = function(data, name)
            if not isinstance(extracted, Extracted):
                return "wrong", f"returned {type(extracted).__name__} instead of Extracted"
            extracted = _shortened(_cleaned(extracted), longest)
            if not extracted.text.strip() and not extracted.attachments:
                return "no_text", "the file holds no text"
            if cutting is None:
                return "ok", (extracted, None)
            trouble = "uncut"
            parts = take_apart(extracted, cutting)
            return "ok", (extracted._replace(text=""), parts)
        finally:
            _limit_memory(None)
    except NoText as error:
        return "no_text", error.message
    except KBError as error:
        return "failed", error.message
    except MemoryError:
        return "memory", ""
    except RecursionError:
        return "failed", "the file is nested too deeply"
    except BaseException:  # noqa: BLE001 - native libraries raise panics that are no Exception
        return trouble, traceback.format_exc(limit=-20)


def _cleaned(extracted: Extracted) -> Extracted:
    """Replace halves of characters and NUL, which are no text but which many a format can say."""
    return extracted._replace(
        text=_clean(extracted.text),
        title=_clean(extracted.title),
        tags=tuple(map(_clean, extracted.tags)),
        metadata=_clean(dict(extracted.metadata)),
        attachments=tuple(item._replace(name=_clean(item.name)) for item in extracted.attachments),
    )


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        if value.isascii() and "\x00" not in value:
            return value
        # One character for one, since `pages` and `body_start` are offsets.
        return _NO_TEXT.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value


def _shortened(extracted: Extracted, longest: int) -> Extracted:
    """Keep the first characters of a text that is too long, up to the end of a line, and say so in its metadata."""
    length = len(extracted.text)
    if length <= longest:
        return extracted
    end = extracted.text.rfind("\n", longest // 2, longest) + 1
    text = extracted.text[: end or longest]
    return extracted._replace(
        text=text,
        metadata={**extracted.metadata, TRUNCATED: {"kept": len(text), "characters": length}},
        pages=tuple(page for page in extracted.pages if page[0] < len(text)),
    )


def _limit_memory(more: int | None) -> None:
    """Let this process grow by so many bytes, or without a limit."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = hard
    if more is not None:
        limit = _size() + more
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (OSError, ValueError):
        return


def _size() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - asked for every file
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _no_core_dumps() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        return


if __name__ == "__main__":
    main()
