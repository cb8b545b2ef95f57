"""Reading a file: which extractor, in a worker process, and in which words it fails."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import pickle
import subprocess
import sys
import threading
from pathlib import PurePosixPath
from typing import Any

from kb_text.api import detect

from kb_documents.reading import Cutting, Parts
from kb_documents.skip_rules import EMPTY
from kb_documents.worker import receive, send, send_bytes
from kb_framework.api import Attachment, ChunkText, Extracted, Extractor
from kb_framework.api.parts import HostSettings, Plugins
from kb_framework.errors import ExtractionFailed, NoText, WrongType

log = logging.getLogger("kb.extraction")

MAX_DEPTH = 3
_FILES_PER_WORKER = 500
_START_SECONDS = 60
# Guesses: where content says no more than this, an extractor that claims the file's name knows better.
_VAGUE = frozenset({"text", "binary", "xml", "zip", "ole"})
# Kinds whose content always tells them: text under such a name is a text with a wrong name.
_TOLD_BY_CONTENT = frozenset(
    [
        "pdf",
        "docx",
        "xlsx",
        "pptx",
        "odt",
        "ods",
        "odp",
        "epub",
        "doc",
        "xls",
        "ppt",
        "msg",
        "hwp",
        "rtf",
    ],
)

# Kinds of files without text. Where no plugin reads one, that is no failure.
NOT_TEXT = frozenset(("image", "audio", "video", "program", "font", "database", "binary"))
_IN_WORDS = {
    "image": "an image",
    "audio": "a sound recording",
    "video": "a video",
    "program": "a program",
    "database": "a database",
    "font": "a font",
    "binary": "binary data of an unknown kind",
    "rar": "a RAR archive",
    "7z": "a 7z archive",
    "zstd": "a Zstandard archive",
    "chm": "a compiled Windows help file",
    "wordperfect": "a WordPerfect document",
    "excel4": "an Excel workbook of version 4 or older",
    "works": "a Microsoft Works document",
    "hwp3": "a Hangul document of version 3 or older",
    "xps": "an XPS document",
    "iwork": "an Apple iWork document",
    "ole": "an unknown kind of Office document",
    "djvu": "a DjVu document",
    "postscript": "a PostScript document",
}


class Extraction:
    """Turns files into text for as long as an engine lives."""

    def __init__(self, plugins: Plugins, host_settings: HostSettings) -> None:
        self._plugins = plugins
        self._settings = host_settings
        self._workers = _Workers(host_settings)

    def extract(self, data: bytes, name: str, depth: int = 0) -> Extracted:
        """The text of a file. `depth` says in how many files it lay: attachments of attachments end at `MAX_DEPTH`."""
        return self._read(data, name, None, depth)[0]

    def take_apart(
        self, data: bytes, name: str, cutting: Cutting, depth: int = 0
    ) -> tuple[Extracted, Parts]:
        """The parts of a file's text, and all that was extracted but the text itself."""
        extracted, parts = self._read(data, name, cutting, depth)
        assert parts is not None
        return extracted, parts

    def _read(
        self, data: bytes, name: str, cutting: Cutting | None, depth: int
    ) -> tuple[Extracted, Parts | None]:
        if not data.strip(b" \t\r\n\x00\xef\xbb\xbf"):
            raise LeftOut("the file is empty", file_kind=EMPTY)
        kind = detect(data, name)
        if kind == "encrypted":
            raise ExtractionFailed("the file is password-protected")
        extractors = self._extractors(kind, name)
        if not extractors:
            unread = f"nothing here reads files of this kind ({_IN_WORDS.get(kind, kind)})"
            raise LeftOut(unread, file_kind=kind) if kind in NOT_TEXT else ExtractionFailed(unread)
        extracted, parts = self._first_text(extractors, data, name, cutting)
        # A worker that a hostile file took over may say anything: few bytes can stand for the same text many times. Chunks may
        # overlap, so they may have more than the text.
        longest = self._settings.max_text_chars
        if len(extracted.text) > longest or (
            parts and sum(len(piece.content) for piece in parts.pieces) > 2 * longest
        ):
            raise ExtractionFailed(
                f"the file holds more than {longest} characters of text (KB_MAX_TEXT_CHARS)"
            )
        if depth >= MAX_DEPTH and extracted.attachments:
            note = {
                "files_not_read": f"{len(extracted.attachments)} files inside, nested too deeply"
            }
            extracted = extracted._replace(metadata={**extracted.metadata, **note}, attachments=())
        return extracted, parts

    def _first_text(
        self, extractors: list[Extractor], data: bytes, name: str, cutting: Cutting | None
    ) -> tuple[Extracted, Parts | None]:
        """Return what the first extractor returns that finds text."""
        without: NoText | None = None
        for extractor in extractors:
            try:
                return self._workers.run(extractor, data, name, cutting)
            except NoText as error:
                without = without or error
            except _WrongExtractor as error:
                plugin = self._plugins.registry(Extractor).plugin_of(extractor.name)
                told = self._plugins.report(plugin, f"the extractor {extractor.name!r}", error)
                raise NotNow(told.message, hint=told.hint) from error
        assert without
        raise without

    def _extractors(self, kind: str, name: str) -> list[Extractor]:
        """Return the extractors for a file; a later one is for when those before it find no text."""
        suffix = PurePosixPath(name.replace("\\", "/")).suffix.lower()
        extractors = self._plugins.registry(Extractor).by_precedence()
        by_kind = [item for item in extractors if item.media == kind]
        by_name = [item for item in extractors if suffix and suffix in item.suffixes]
        if by_name and kind == "text" and by_name[0].media in _TOLD_BY_CONTENT:
            by_name = []
        return (by_name or by_kind) if kind in _VAGUE else by_kind

    def close(self) -> None:
        """End the workers. A later `extract` starts new ones."""
        self._workers.close()


class _WrongExtractor(WrongType):
    """An extractor returned something else than `Extracted`."""


class _Workers:
    """Worker processes: started when needed, kept, replaced when they die; never more than there are processors."""

    def __init__(self, settings: HostSettings) -> None:
        self._settings = settings
        self._slots = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()

    def run(
        self, extractor: Extractor, data: bytes, name: str, cutting: Cutting | None
    ) -> tuple[Extracted, Parts | None]:
        request = (extractor.target, name, cutting)
        with self._slots:
            try:
                status, value = self._asked(request, data)
            except _CrashedLater:
                # Perhaps an earlier file is to blame, or nobody: only a process of its own tells.
                status, value = self._asked(request, data, fresh=True)
        if status == "ok":
            return value
        if status == "failed":
            raise ExtractionFailed(value)
        if status == "no_text":
            raise NoText(value)
        if status == "wrong":
            raise _WrongExtractor(value)
        if status == "memory":
            limit = self._settings.extract_memory_bytes
            raise ExtractionFailed(
                f"reading took more memory than {limit} bytes (KB_EXTRACT_MEMORY_BYTES)"
            )
        who = (
            f"the extractor {extractor.name}"
            if status == "error"
            else f"the chunker {cutting.chunker if cutting else ''}"
        )
        log.warning("%s failed unexpectedly: %s", who, value.strip().splitlines()[-1])
        log.debug("%s", value)
        if status == "error":
            raise ExtractionFailed(
                f"the file could not be read as {extractor.name}: it is damaged, or unlike any file seen so far"
            )
        raise ExtractionFailed(
            "the text of the file could not be cut into chunks: the chunker failed (KB_CHUNKER)"
        )

    def _asked(
        self, request: tuple[str, str, Cutting | None], data: bytes, *, fresh: bool = False
    ) -> tuple[str, Any]:
        worker = self._take(fresh=fresh)
        try:
            answer = worker.ask(request, data)
            if answer[0] == "memory":
                # What the file took may not come back; the next one gets a fresh process.
                worker.stop()
            return answer
        except BaseException:
            worker.stop()
            raise
        finally:
            self._give_back(worker)

    def _take(self, *, fresh: bool) -> _Worker:
        with self._lock:
            worker = self._idle.pop() if self._idle and not fresh else _Worker(self._settings)
            if worker.started and not worker.usable:
                # It died while nobody used it.
                worker.discard()
                worker = _Worker(self._settings)
            self._busy.add(worker)
        return worker

    def _give_back(self, worker: _Worker) -> None:
        with self._lock:
            keep = worker in self._busy and worker.usable
            self._busy.discard(worker)
            if keep:
                self._idle.append(worker)
        if not keep:
            worker.discard()

    def close(self) -> None:
        with self._lock:
            idle, busy = self._idle, self._busy
            self._idle, self._busy = [], set()
        for worker in busy:
            # Whoever waits for it is told that reading failed, and discards it.
            worker.stop()
        for worker in idle:
            worker.discard()


class LeftOut(ExtractionFailed):
    """The file has no text: it is empty, or of a `file_kind` such as image that no plugin reads."""


class NotNow(ExtractionFailed):
    """What happened says nothing about the file: another time it may be read."""


class _CrashedLater(ExtractionFailed):
    """A process that had read other files before is gone."""


class _Worker:
    """One worker process, used by one thread at a time."""

    def __init__(self, settings: HostSettings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Lock()
        self._stopped = False
        self._timed_out = False
        self._files = 0

    @property
    def started(self) -> bool:
        return self._process is not None

    @property
    def usable(self) -> bool:
        alive = self._process is not None and self._process.poll() is None
        return alive and not self._stopped and self._files < _FILES_PER_WORKER

    def ask(self, request: tuple[str, str, Cutting | None], data: bytes) -> tuple[str, Any]:
        """The worker's answer; where it hung, crashed or said too much, the process is gone and ExtractionFailed says why."""
        settings = self._settings
        if self._process is None:
            self._process = _start(settings)
            if self._stopped:
                self.stop()
            try:
                self._timed(_START_SECONDS, lambda: self._receive(1000))
            except (EOFError, OSError, ValueError):
                raise NotNow("the process that reads files could not be started") from None
        self._files += 1
        try:
            return self._timed(settings.extract_timeout, lambda: self._exchange(request, data))
        except ValueError:
            raise ExtractionFailed(
                "the file expands to more than can be kept (KB_MAX_FILE_BYTES, KB_MAX_TEXT_CHARS)"
            ) from None
        except (EOFError, OSError):
            if self._timed_out:
                raise ExtractionFailed(
                    f"reading took longer than {settings.extract_timeout:g} s (KB_EXTRACT_TIMEOUT)"
                ) from None
            if self._stopped:
                raise NotNow("reading was interrupted") from None
            raise (ExtractionFailed if self._files == 1 else _CrashedLater)(
                "the file made its reader crash: it is damaged, or needs more memory than KB_EXTRACT_MEMORY_BYTES allows"
            ) from None
        except pickle.UnpicklingError:
            raise ExtractionFailed("the file's reader gave an answer that cannot be used") from None

    def _exchange(self, request: tuple[str, str, Cutting | None], data: bytes) -> tuple[str, Any]:
        assert self._process is not None and self._process.stdin is not None
        send(self._process.stdin, request)
        send_bytes(self._process.stdin, data)
        settings = self._settings
        return self._receive(4 * settings.max_text_chars + 10 * settings.max_file_bytes + 1_000_000)

    def _receive(self, limit: int) -> tuple[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        return _Answers(io.BytesIO(receive(self._process.stdout, limit))).load()

    def _timed(self, seconds: float, action: Any) -> Any:
        def expire() -> None:
            self._timed_out = True
            self.stop()

        # Killing ends the pipe, which ends the wait: the one way of timing out a read that works everywhere.
        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            return action()
        finally:
            timer.cancel()

    def stop(self) -> None:
        """End the process; from any thread, while another one waits for its answer."""
        with self._stopping:
            self._stopped = True
            if self._process is not None:
                self._process.kill()

    def discard(self) -> None:
        """End the process and its pipes; only when no other thread uses them."""
        self.stop()
        if self._process is None:
            return
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


def _start(settings: HostSettings) -> subprocess.Popen[bytes]:
    limits = {
        "KB_EXTRACT_TIMEOUT": f"{settings.extract_timeout:g}",
        "KB_EXTRACT_MEMORY_BYTES": str(settings.extract_memory_bytes),
        "KB_MAX_TEXT_CHARS": str(settings.max_text_chars),
        "KB_MAX_FILE_BYTES": str(settings.max_file_bytes),
        "KB_MAX_ARCHIVE_FILES": str(settings.max_archive_files),
        # The pool is what runs in parallel. Threads of native libraries would each reserve address space, which counts.
        "RAYON_NUM_THREADS": "1",
        "TOKIO_WORKER_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
    }
    return subprocess.Popen(
        # -P: a module in the current folder, which may be the one being added, is never taken for a library.
        [sys.executable, "-P", "-m", "kb_documents.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **limits},
    )


class _Answers(pickle.Unpickler):
    """Takes nothing but texts: a hostile file that took over its worker must not reach further."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return _ALLOWED[module_name, global_name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module_name}.{global_name}") from None


_ALLOWED = {
    (kind.__module__, kind.__name__): kind for kind in (Extracted, Attachment, ChunkText, Parts)
}
