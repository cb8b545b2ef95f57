"""Whatever a file does to its worker costs that file only."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kb_documents.extraction import Extraction, NotNow

from kb_framework.errors import ExtractionFailed
from kb_testing.fixtures import Install

# A plugin whose extractor does what the file says.
OBEDIENT = """
from kb_framework import api, hookimpl

@hookimpl
def kb_extractors():
    return [api.Extractor("obedient", __name__ + ":extract", media="obedient", suffixes=(".obey",))]

def extract(data, name):
    import ctypes, os, sys, time
    order, _, rest = data.decode().partition(" ")
    if order == "hang":
        time.sleep(600)
    if order == "hang-natively":
        ctypes.CDLL(None).sleep(600)
    if order == "exit":
        os._exit(int(rest))
    if order == "leave-a-trap":
        sys.trapped = True
    if order == "step" and hasattr(sys, "trapped"):
        os._exit(1)
    if order == "segfault":
        ctypes.string_at(0)
    if order == "memory":
        bomb = []
        while True:
            bomb.append(bytes(10_000_000))
    if order == "recursion":
        def deeper(n):
            return deeper(n + 1) + 1
        deeper(0)
    if order == "raise":
        raise ValueError("secret/path/inside")
    if order == "huge":
        return api.Extracted("x" * int(rest), media="obedient")
    if order == "attach":
        files = tuple(api.Attachment(str(n), bytes(1000000)) for n in range(int(rest)))
        return api.Extracted("x", media="obedient", attachments=files)
    if order == "print":
        print("stray" * 1000)
        sys.stdout.flush()
        os.write(1, b"stray bytes" * 1000)
        os.system("echo stray")
    if order == "evil":
        class Evil:
            def __reduce__(self):
                return os.system, ("touch " + rest,)
        return api.Extracted("x", media="obedient", metadata={"evil": Evil()})
    if order == "halves":
        half = chr(0xd800) + chr(0)
        return api.Extracted(
            "a" + half, "obedient", half, (half,), {half: [half]}, attachments=(api.Attachment(half, b"x"),)
        )
    if order == "nothing":
        return None
    if order == "pid":
        return api.Extracted(str(os.getpid()), media="obedient")
    return api.Extracted(f"read {name}: {rest}", media="obedient")
"""


@pytest.fixture
def obedient(kb_plugin: Install) -> None:
    kb_plugin("obedient", OBEDIENT)


def order(extraction: Extraction, text: str) -> str:
    return extraction.extract(text.encode(), "file.obey").text


def refused(extraction: Extraction, text: str) -> str:
    with pytest.raises(ExtractionFailed) as caught:
        order(extraction, text)
    return caught.value.message


LIMITS = {
    "extract_memory_bytes": 200_000_000,
    "max_text_chars": 100_000,
    "max_file_bytes": 1_000_000,
}


@pytest.fixture
def limited(obedient, make_extraction) -> Extraction:
    return make_extraction(extract_timeout=600, **LIMITS)


@pytest.mark.parametrize("how", ["hang", "hang-natively"])
def test_a_hang_ends_at_the_limit(obedient, make_extraction, how):
    quick = make_extraction(extract_timeout=2.0, **LIMITS)
    started = time.monotonic()
    assert refused(quick, how) == "reading took longer than 2 s (KB_EXTRACT_TIMEOUT)"
    # It would hang for ten minutes.
    assert time.monotonic() - started < 300
    # From now on there is time, on a busy machine too.
    vars(quick._settings)["extract_timeout"] = 600
    assert order(quick, "say hello") == "read file.obey: hello"


def test_halves_of_characters_and_nul_are_replaced(limited):
    found = limited.extract(b"halves ", "file.obey")

    other = "\ufffd" * 2
    assert (found.text, found.title, found.tags, found.metadata) == (
        "a" + other,
        other,
        (other,),
        {other: [other]},
    )
    assert found.attachments[0].name == other


@pytest.mark.parametrize("how", ["exit 0", "exit 3", "segfault"])
def test_a_crash_costs_one_file(limited, how):
    assert "made its reader crash" in refused(limited, how)
    assert order(limited, "say hello") == "read file.obey: hello"


@pytest.mark.skipif(sys.platform != "linux", reason="only here the system limits memory")
def test_a_memory_bomb_is_stopped(obedient, make_extraction):
    extraction = make_extraction(extract_memory_bytes=200_000_000)
    assert "KB_EXTRACT_MEMORY_BYTES" in refused(extraction, "memory")
    assert order(extraction, "say hello") == "read file.obey: hello"


def test_too_much_text_is_cut(limited):
    assert len(order(limited, "huge 100001")) == 100_000
    assert len(order(limited, "huge 100000")) == 100_000


def test_too_many_bytes_are_refused(limited):
    assert "expands to more" in refused(limited, "attach 30")
    assert order(limited, "say hello") == "read file.obey: hello"


def test_an_exception_shows_nothing_of_the_inside(limited):
    message = refused(limited, "raise")
    assert "secret" not in message and "ValueError" not in message and "obedient" in message
    assert "nested too deeply" in refused(limited, "recursion")
    assert (
        "'obedient' failed in the extractor 'obedient': returned NoneType instead of Extracted"
        in refused(limited, "nothing")
    )


def test_stray_prints_do_no_harm(limited):
    for _ in range(3):
        assert order(limited, "print it") == "read file.obey: it"


def test_an_answer_cannot_run_code_here(limited, tmp_path: Path):
    mark = tmp_path / "was-run"
    assert "cannot be used" in refused(limited, f"evil {mark}")
    assert not mark.exists()


def test_workers_are_kept_and_used_in_parallel(obedient, make_extraction):
    extraction = make_extraction()
    assert order(extraction, "pid") == order(extraction, "pid")
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: order(extraction, f"say {n}"), range(200)))
        pids = set(threads.map(lambda _: order(extraction, "pid"), range(50)))
    assert answers == [f"read file.obey: {n}" for n in range(200)]
    assert len(pids) <= (os.cpu_count() or 1)


def test_good_and_bad_files_at_once(limited):
    def one(n: int) -> str:
        return refused(limited, "exit 1") if n % 5 == 0 else order(limited, f"say {n}")

    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(one, range(30)))
    assert all(
        ("crash" in answer) if n % 5 == 0 else answer.endswith(str(n))
        for n, answer in enumerate(answers)
    )


def test_close_ends_the_workers_and_new_ones_may_follow(limited):
    pid = int(order(limited, "pid"))
    limited.close()
    assert _gone(pid)
    assert int(order(limited, "pid")) != pid


def test_what_is_interrupted_is_no_fault_of_the_file(obedient, make_extraction):
    extraction = make_extraction()
    order(extraction, "pid")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(order, extraction, "hang")
        # Until the file is with its reader.
        while not extraction._workers._busy:
            time.sleep(0.01)
        time.sleep(0.2)
        extraction.close()
        with pytest.raises(NotNow, match="interrupted"):
            waiting.result(timeout=600)


def test_a_worker_that_was_killed_is_replaced(limited):
    pid = int(order(limited, "pid"))
    os.kill(pid, 9)
    assert _gone(pid)
    assert int(order(limited, "pid")) != pid


def test_a_file_does_not_pay_for_what_an_earlier_one_left_behind(limited):
    order(limited, "leave-a-trap")
    assert order(limited, "step hello") == "read file.obey: hello"


def test_a_worker_is_replaced_after_many_files(limited, monkeypatch):
    monkeypatch.setattr("kb_documents.extraction._FILES_PER_WORKER", 3)
    assert len({order(limited, "pid") for _ in range(7)}) == 3


@pytest.mark.parametrize("busy", ["say hello", "hang"])
def test_no_worker_outlives_its_parent(obedient, kb_home, busy):
    script = f"""
import os, threading, time
from kb_documents.extraction import Extraction, NotNow
from kb_framework.bootstrap import read_bootstrap
from kb_framework.api.parts import Plugins
from kb_framework.api.parts import HostSettings
extraction = Extraction(Plugins(read_bootstrap()), HostSettings())
print(extraction.extract(b"pid", "a.obey").text, flush=True)
threading.Thread(target=lambda: extraction.extract({busy.encode()!r}, "a.obey"), daemon=True).start()
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    time.sleep(0.5)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert _gone(pid)


def _gone(pid: int) -> bool:
    for _ in range(6000):
        try:
            os.kill(pid, 0)
            state = (
                Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                if sys.platform == "linux"
                else ""
            )
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False
