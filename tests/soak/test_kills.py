"""A process that is killed at any moment loses nothing that was acknowledged and leaves nothing half done.

Each scenario kills a real process (`SIGKILL`) at random moments of its work, then checks what is there, runs the command again,
and checks that everything is as if it had never been killed. The moments are spread over the writes of an undisturbed run, and
over its time. One kill of each here; `tox -e soak` makes it a thousand in all, over both stores (`KB_SOAK_KILLS`).
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import sys
import tarfile
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from kb_framework.app import open_kb
from kb_framework.client import Engine, connect
from kb_framework.edges.http.app import create_app
from kb_framework.errors import KBError
from kb_framework.remote import HttpTransport
from kb_testing.application import AsgiTransport
from kb_testing.commands import Started, shared
from kb_testing.fixtures import start_server, stop_server, stored
from kb_testing.postgres import Databases, postgres_folder, start_postgres

# Nine scenarios on SQLite, eight on PostgreSQL.
EACH = math.ceil(int(os.environ.get("KB_SOAK_KILLS", "17")) / 17)
# Another one draws other moments.
SEED = os.environ.get("KB_SOAK_SEED", "")
FILES = 40 if "KB_SOAK_KILLS" in os.environ else 12
OLD_DATABASES = Path(__file__).parents[1] / "store" / "databases"
# Told by a doctor that has nothing to repair.
HARMLESS = {("side index", "warning")}

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="commands are forked"),
    # What a killed process leaves to Python is swept by the system.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@dataclass
class Place:
    """A data folder with its database, which can be put back to what it was when it was kept."""

    home: Path
    kept: Path
    databases: Databases | None
    url: str | None
    kept_url: str | None = None

    def keep(self) -> None:
        shutil.rmtree(self.kept, ignore_errors=True)
        if self.home.exists():
            shutil.copytree(self.home, self.kept)
        if self.databases and self.url:
            self.kept_url = self.databases.copy(self.url)

    def put_back(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)
        if self.kept.exists():
            shutil.copytree(self.kept, self.home)
        if self.databases and self.url and self.kept_url:
            self.databases.replace(self.url, self.kept_url)

    def settle(self) -> None:
        """Wait until the server of the database has ended what the killed process had sent."""
        if self.databases and self.url:
            self.databases.wait_until_unused(self.url)

    def writes_of(self, pid: int, opened: ExitStack) -> FileWrites | LogBytes:
        if self.url is None:
            return FileWrites(pid)
        # To another database: that of the test is replaced while nobody is connected to it.
        server = urlunsplit(urlsplit(self.url)._replace(path="/postgres"))
        return LogBytes(pid, opened.enter_context(psycopg.connect(server, autocommit=True)))


@pytest.fixture
def place(
    kb_home: Path, tmp_path: Path, kb_databases: Databases | None, kb_database: str | None
) -> Place:
    return Place(kb_home, tmp_path / "kept", kb_databases, kb_database)


@dataclass(frozen=True)
class State:
    """What the data folder holds."""

    documents: dict[str, str | None]
    tags: frozenset[tuple[str, str]]
    # Hidden because their files vanished.
    missing: frozenset[str]
    chunks: int
    problems: tuple[str, ...]


def look() -> State:
    """Open the data folder as the next process does, and read everything; problems are what must never be."""
    kb = open_kb()
    with Engine(AsgiTransport(create_app(kb), kb.close), kb.plugins) as engine:
        # An engine that serves begins by removing what a killed process left to be removed.
        kb.plugins.serving()
        checks = engine.get("/doctor")["checks"]
        problems = [
            f"doctor: {check['name']}: {check['message']}"
            for check in checks
            if check["state"] != "ok" and (check["name"], check["state"]) not in HARMLESS
        ]
        with kb.store.read() as tx:
            read = tx.connection.exec_driver_sql
            rows = read(
                "SELECT id, coalesce(path, title), file FROM documents ORDER BY id"
            ).fetchall()
            names = {number: name for number, name, _ in rows}
            bare = read(
                "SELECT id FROM documents WHERE id NOT IN (SELECT document_id FROM chunks)"
            ).fetchall()
            tags = frozenset(
                (names[number], tag)
                for number, tag in read("SELECT document_id, tag FROM document_tags")
            )
            hidden = read("SELECT id FROM documents WHERE missing_since IS NOT NULL")
            missing = frozenset(names[number] for (number,) in hidden)
            chunks = read("SELECT count(*) FROM chunks").scalar_one()
            text = tx.text.maintenance.count()
            waiting = read("SELECT key FROM file_removals").fetchall()
        files = kb.files.keys()
    problems += [f"document {number} has no chunks" for (number,) in bare]
    problems += [
        f"the file of {name} is not there" for _, name, file in rows if file and file not in files
    ]
    problems += [
        f"{name} is there {count} times"
        for name, count in Counter(names.values()).items()
        if count > 1
    ]
    problems += (
        [f"{len(left)} stored files belong to no document"]
        if (left := files - {row[2] for row in rows})
        else []
    )
    problems += [f"{len(waiting)} files still wait to be removed"] if waiting else []
    problems += [f"{chunks} chunks, but {text} in the full text"] if text != chunks else []
    return State({name: file for _, name, file in rows}, tags, missing, chunks, tuple(problems))


class Scenario(ABC):
    """One kind of work that is killed."""

    # Whether something is wrong with it from the beginning.
    damaged = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def prepare(self) -> None:
        """Make what is there before the work begins."""

    @abstractmethod
    def command(self, number: int) -> list[str]:
        """The command to kill."""

    def wrong(self, state: State, before: State, after: State, number: int) -> Iterator[str]:
        """What must not be, after the kill. By default the work is done or not at all."""
        if not (same(state, before) or same(state, after)):
            yield f"half done: {len(state.documents)} documents, {state.chunks} chunks, {len(state.tags)} tags"

    def variant(self, number: int) -> int:
        """Scenarios of several commands: which one it is."""
        return 0

    def again(self, number: int) -> list[str]:
        """The command that completes the work."""
        return self.command(number)

    def marks(self) -> list[tuple[object, ...]]:
        """Rows that the work changes besides documents, tags and chunks; how they are left is only counted."""
        return []

    def harmless(self, problem: str) -> bool:
        """Found between the kill and the next run, and no harm."""
        return is_orphan(problem)


def is_orphan(problem: str) -> bool:
    """A stored file whose document was not committed: the doctor finds and removes it, and adding the file again uses it."""
    return "belong to no document" in problem


def same(one: State, other: State) -> bool:
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("documents", "tags", "missing", "chunks")
    )


def write(folder: Path, numbers: range, version: str = "first") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        sections = "\n\n".join(
            f"## Part {part}\n\nThe {version} words{number} of part {part}. " * 8
            for part in range(3)
        )
        (folder / f"{number}.md").write_text(f"# File {number}\n\n{sections}\n", encoding="utf-8")


def run(*arguments: str) -> str:
    done = shared().run(arguments, "")
    assert done.returncode == 0, (
        f"kb {' '.join(arguments)}: {done.returncode}: {done.stderr[-2000:]}"
    )
    return done.stdout


class Files(Scenario):
    """`kb add` of a folder: each file is there, with its chunks and its stored content, or not at all."""

    def prepare(self) -> None:
        write(self.folder, range(FILES))
        run("list")

    def command(self, number: int) -> list[str]:
        return ["add", str(self.folder), "--tags", "added"]

    def wrong(self, state: State, before: State, after: State, number: int) -> Iterator[str]:
        if extra := state.documents.items() - after.documents.items():
            yield f"documents that are not the folder's: {sorted(extra)[:3]}"
        if untagged := state.documents.keys() - {name for name, _ in state.tags}:
            yield f"documents without their tags: {sorted(untagged)[:3]}"


class Bulk(Scenario):
    """A bulk operation does all or nothing, and its job tells which."""

    COMMANDS = (
        ["bulk-remove", "--tags", "old"],
        ["bulk-tag", "--tags", "old", "--add", "new,newer", "--remove", "all"],
        ["bulk-set-tags", "--tags", "old", "--set", "old,final"],
    )

    def prepare(self) -> None:
        write(self.folder / "old", range(FILES))
        write(self.folder / "new", range(FILES, 2 * FILES))
        run("add", str(self.folder / "old"), "--tags", "old,all")
        run("add", str(self.folder / "new"), "--tags", "all")

    def variant(self, number: int) -> int:
        # Deletes have the most to lose.
        return (0, 1, 0, 2)[number % 4]

    def command(self, number: int) -> list[str]:
        return [*self.COMMANDS[self.variant(number)], "--yes", "--force"]

    def wrong(self, state: State, before: State, after: State, number: int) -> Iterator[str]:
        yield from super().wrong(state, before, after, number)
        jobs = stored("SELECT status, matched, succeeded FROM jobs WHERE job_type <> 'ingest'")
        done = [("done", FILES, FILES)] if same(state, after) else []
        if [tuple(job) for job in jobs] != done:
            yield f"its jobs tell {jobs}, and not {done}"


class Sync(Scenario):
    """`kb sync` of a folder that gained, lost and changed files."""

    def prepare(self) -> None:
        write(self.folder, range(FILES))
        run("sync", str(self.folder))
        write(self.folder, range(FILES, FILES + 10))
        write(self.folder, range(5), "second")
        for number in range(5, 10):
            (self.folder / f"{number}.md").unlink()

    def command(self, number: int) -> list[str]:
        return ["sync", str(self.folder), "--force"]

    def wrong(self, state: State, before: State, after: State, number: int) -> Iterator[str]:
        known = before.documents.items() | after.documents.items()
        if extra := state.documents.items() - known:
            yield f"documents of no version of the folder: {sorted(extra)[:3]}"
        if lost := before.documents.keys() & after.documents.keys() - state.documents.keys():
            yield f"documents that are in the folder are gone: {sorted(lost)[:3]}"
        if hidden := state.missing - after.missing:
            yield f"documents that are in the folder are missing: {sorted(hidden)[:3]}"


class Import(Scenario):
    """`kb import` into a knowledge base that holds something else."""

    def prepare(self) -> None:
        write(self.folder / "theirs", range(FILES))
        run("add", str(self.folder / "theirs"), "--tags", "theirs")
        run("export", str(self.folder / "archive.kbz"))
        run("bulk-remove", "--tags", "theirs", "--yes", "--force")
        write(self.folder / "ours", range(FILES, FILES + 10))
        run("add", str(self.folder / "ours"), "--tags", "ours")

    def command(self, number: int) -> list[str]:
        return ["import", str(self.folder / "archive.kbz"), "--yes"]

    def wrong(self, state: State, before: State, after: State, number: int) -> Iterator[str]:
        if before.documents.items() - state.documents.items():
            yield "documents that were there are gone"
        if extra := state.documents.items() - after.documents.items():
            yield f"documents that are not the archive's: {sorted(extra)[:3]}"


class Restore(Scenario):
    """`kb restore` over a knowledge base that holds something else: the old one or the new one, never a mixture."""

    def prepare(self) -> None:
        write(self.folder / "theirs", range(FILES))
        run("add", str(self.folder / "theirs"), "--tags", "theirs")
        run("backup", str(self.folder / "backup.zip"))
        run("bulk-remove", "--tags", "theirs", "--yes", "--force")
        write(self.folder / "ours", range(FILES, FILES + 10))
        run("add", str(self.folder / "ours"), "--tags", "ours")

    def command(self, number: int) -> list[str]:
        return ["restore", str(self.folder / "backup.zip"), "--force"]


class Reindex(Scenario):
    """`kb reindex`: searches find the same before, after and in between."""

    def prepare(self) -> None:
        write(self.folder, range(FILES))
        run("add", str(self.folder))

    def command(self, number: int) -> list[str]:
        return ["reindex", "--compact"] if self.variant(number) else ["reindex"]

    def variant(self, number: int) -> int:
        return number % 4 == 3

    def wrong(self, state: State, before: State, after: State, number: int) -> Iterator[str]:
        yield from super().wrong(state, before, after, number)
        with connect() as engine:
            found = engine.search("words7 of part", mode="vector", k=5)["hits"]
        if len(found) != 5:
            yield f"a search for vectors finds {len(found)} of 5"

    def marks(self) -> list[tuple[object, ...]]:
        return stored("SELECT index_name, active FROM embedding_spaces ORDER BY id")

    def harmless(self, problem: str) -> bool:
        return "reindex" in problem or is_orphan(problem)


class Migrations(Scenario):
    """Opening a knowledge base whose full text is of a former version."""

    def prepare(self) -> None:
        write(self.folder, range(FILES))
        run("add", str(self.folder), "--tags", "kept")
        stored("DELETE FROM kb_migrations WHERE plugin = 'full text'")

    def command(self, number: int) -> list[str]:
        return ["list"]

    def marks(self) -> list[tuple[object, ...]]:
        return stored("SELECT plugin, version FROM kb_migrations ORDER BY plugin, version")


class OldVersion(Migrations):
    """Opening a data folder of the first version. It holds a document whose chunk was deleted, and a file to be removed."""

    damaged = True

    def prepare(self) -> None:
        home = Path(os.environ["KB_DATA_DIR"])
        home.mkdir(mode=0o700, exist_ok=True)
        with tarfile.open(min(OLD_DATABASES.glob("*.tar.xz"))) as archive:
            archive.extractall(home, filter="data")


class Clock:
    """How far a command is, in seconds of CPU: they tell how far it is on a busy machine too."""

    def __init__(self, pid: int) -> None:
        # The clock of another process: see clock_getcpuclockid(3).
        self._clock = (~pid << 3) | 2

    def now(self) -> float:
        return time.clock_gettime(self._clock)


class FileWrites:
    """How far a command is, in writes to files and pipes."""

    def __init__(self, pid: int) -> None:
        self._counters = Path(f"/proc/{pid}/io")

    def now(self) -> float:
        counters = dict(line.split(": ") for line in self._counters.read_text().splitlines())
        return int(counters["syscw"])


class LogBytes:
    """How far a command is, in bytes of PostgreSQL's write-ahead log; nobody else uses the server."""

    def __init__(self, pid: int, connection: psycopg.Connection) -> None:
        self._process = Path(f"/proc/{pid}")
        self._connection = connection
        self._first = self._position()

    def now(self) -> float:
        if not self._process.exists():
            raise ProcessLookupError
        return self._position() - self._first

    def _position(self) -> int:
        asked = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
        row = self._connection.execute(asked).fetchone()
        assert row is not None
        return row[0]


class Chance:
    """Draws the moments of kills, spread over all that the command does, from shortly before its first write to its last.

    About half of the moments are at a write. The others are times of its CPU, for what it does between writes.
    """

    def __init__(self, seed: str, work: list[tuple[float, float]]) -> None:
        """`work` is what an undisturbed run was seen to have used: CPU and writes, moment for moment."""
        self._random = random.Random(seed)
        self._writes = work[-1][1]
        self._begun = next(seconds for seconds, writes in work if writes)
        self._seconds = work[-1][0]

    def moment(self) -> tuple[float, float]:
        """Kill when one of the two is reached: seconds of CPU, writes."""
        if self._random.random() < 0.5:
            return self._random.uniform(0.6 * self._begun, self._seconds), math.inf
        return math.inf, self._random.uniform(1, self._writes)


def follow(
    command: Started, place: Place, seconds: float = math.inf, writes: float = math.inf
) -> list[tuple[float, float]]:
    """Wait until a command has used so much, or is gone; what it was seen to have used, moment for moment."""
    seen = [(0.0, 0.0)]
    with suppress(OSError), ExitStack() as opened:
        clock = Clock(command.pid)
        counter = place.writes_of(command.pid, opened)
        while seen[-1][0] < seconds and seen[-1][1] < writes:
            now = (clock.now(), counter.now())
            if now[1] != seen[-1][1]:
                seen.append(now)
            else:
                seen[-1] = now
            time.sleep(0.0002)
    return seen


def measured(arguments: list[str], place: Place) -> list[tuple[float, float]]:
    """What a command uses that is not killed."""
    with shared().started(arguments) as command:
        used = follow(command, place)
        done = command.finish()
    assert done.returncode == 0, done.stderr
    return used


class Record:
    """What came of the kills of a scenario."""

    def __init__(self, scenario: str, store: str) -> None:
        self.scenario, self.store = scenario, store
        self.left: Counter[str] = Counter()
        self.found: list[str] = []

    def check(self, number: int, problems: Iterable[str]) -> None:
        self.found += [f"kill {number}: {problem}" for problem in problems]

    def end(self, record_property: Callable[[str, object], None]) -> None:
        left = {name: self.left[name] for name in ("nothing", "part", "all", "finished")}
        row = {"scenario": self.scenario, "store": self.store, "kills": sum(left.values()), **left}
        record_property(
            "kills", json.dumps({**row, "violations": len(self.found), "found": self.found[:20]})
        )
        assert self.found == []


SCENARIOS: dict[str, type[Scenario]] = {
    "files": Files,
    "bulk": Bulk,
    "sync": Sync,
    "import": Import,
    "restore": Restore,
    "reindex": Reindex,
    "migrations": Migrations,
    "old version": OldVersion,
}
SQLITE_ONLY = {
    "restore": "backups are of SQLite files",
    "old version": "the archive holds an SQLite file",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.sqlite_only(SQLITE_ONLY[name])] if name in SQLITE_ONLY else []
        )
        for name in SCENARIOS
    ],
)
def test_a_killed_command_loses_nothing_and_is_completed_by_running_it_again(
    name: str,
    place: Place,
    store: str,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    scenario = SCENARIOS[name](tmp_path / "material")
    scenario.folder.mkdir()
    scenario.prepare()
    place.keep()
    before: dict[int, State] = {}
    after: dict[int, State] = {}
    chances: dict[int, Chance] = {}
    unmarked: dict[int, list[tuple[object, ...]]] = {}
    marked: dict[int, list[tuple[object, ...]]] = {}
    for number in {scenario.variant(number): number for number in range(EACH)}.values():
        kind = scenario.variant(number)
        unmarked[kind] = scenario.marks()
        before[kind] = look()
        # To look at an old one is to migrate it.
        place.put_back()
        seed = f"{name} {store} {EACH} {SEED}"
        chances[kind] = Chance(seed, measured(scenario.command(number), place))
        marked[kind] = scenario.marks()
        after[kind] = look()
        place.put_back()
    record = Record(name, store)
    known = {problem for state in (*before.values(), *after.values()) for problem in state.problems}
    assert not known or scenario.damaged, known

    for number in range(EACH):
        kind = scenario.variant(number)
        with shared().started(scenario.command(number)) as command:
            follow(command, place, *chances[kind].moment())
            with suppress(ProcessLookupError):
                command.kill()
            ended = command.finish()
        place.settle()

        marks = scenario.marks()
        state = look()
        record.check(
            number,
            [item for item in state.problems if item not in known and not scenario.harmless(item)],
        )
        record.check(number, scenario.wrong(state, before[kind], after[kind], number))
        left = (
            "nothing"
            if same(state, before[kind]) and marks == unmarked[kind]
            else "all"
            if same(state, after[kind]) and marks == marked[kind]
            else "part"
        )
        left = "finished" if ended.returncode >= 0 else left
        record.left[left] += 1

        again = shared().run(scenario.again(number), "")
        if again.returncode:
            record.check(
                number, (f"the next run ends with {again.returncode}: {again.stderr[-500:]}",)
            )
        place.settle()
        last = look()
        record.check(number, [item for item in last.problems if item not in known])
        if not same(last, after[kind]):
            record.check(number, ("after the next run it is not as if it had never been killed",))
        place.put_back()

    record.end(record_property)


def note(engine: Engine, title: str, tag: str) -> None:
    engine.post(
        "/notes", {"text": f"{title} with some words to find it by", "title": title, "tags": [tag]}
    )


def adding(url: str, acknowledged: list[str], attempted: list[str], over: threading.Event) -> None:
    """Add notes, one after another, until the server is gone."""
    with closing(Engine(HttpTransport(url))) as engine:
        while not over.is_set():
            attempted.append(f"note {len(attempted)}")
            try:
                note(engine, attempted[-1], "noted")
            except (KBError, OSError):
                return
            acknowledged.append(attempted[-1])


def test_a_killed_server_has_every_note_that_it_acknowledged(
    place: Place, store: str, record_property: Callable[[str, object], None]
) -> None:
    run("list")
    place.keep()
    chance = random.Random(f"notes {store} {EACH} {SEED}")
    record = Record("notes", store)

    for number in range(EACH):
        server = start_server()
        acknowledged: list[str] = []
        attempted: list[str] = []
        over = threading.Event()
        adder = threading.Thread(target=adding, args=(server.url, acknowledged, attempted, over))
        adder.start()
        enough = chance.randint(1, 12)
        while len(acknowledged) < enough and adder.is_alive():
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.03))
        server.process.kill()
        # Its log ends when the process that serves is gone.
        server.follower.join()
        server.process.wait()
        over.set()
        adder.join()
        place.settle()

        state = look()
        record.check(number, [problem for problem in state.problems if not is_orphan(problem)])
        if lost := set(acknowledged) - state.documents.keys():
            record.check(number, (f"acknowledged and lost: {sorted(lost)}",))
        if extra := state.documents.keys() - set(attempted):
            record.check(number, (f"never sent: {sorted(extra)}",))
        if {name for name, _ in state.tags} != state.documents.keys():
            record.check(number, ("a note is there without its tags",))
        # The last one was under way.
        record.left["all" if len(state.documents) == len(attempted) else "nothing"] += 1
        place.put_back()

    record.end(record_property)


class Postgres:
    """A server of PostgreSQL that can be killed. What it acknowledged is written, though it may still be with the system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "data"
        self._server = start_postgres(self._folder)
        self.url: str = self._server.get_uri()
        with psycopg.connect(self.url, autocommit=True) as connection:
            for setting in ("fsync = off", "full_page_writes = off", "synchronous_commit = on"):
                connection.execute(f"ALTER SYSTEM SET {setting}".encode())
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("CREATE DATABASE kb TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
        self.database = self.url.replace("/postgres?", "/kb?")
        assert self.database != self.url

    def kill(self) -> None:
        """Kill the server and all processes of its connections, at once."""
        first = int((self._folder / "postmaster.pid").read_text(encoding="utf-8").split()[0])
        processes = [first, *children(first)]
        for number in processes:
            with suppress(ProcessLookupError):
                os.kill(number, 9)
        while any(Path(f"/proc/{number}").exists() for number in processes):
            time.sleep(0.005)

    def start(self) -> None:
        start_postgres(self._folder)

    def close(self) -> None:
        self._server.cleanup()


def children(process: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name is in parentheses, and may hold anything.
            fields = status.read_text(encoding="utf-8").rsplit(")", 1)[1].split()
            if int(fields[1]) == process:
                found.append(int(status.parent.name))
    return found


@pytest.mark.postgres_only
def test_a_killed_postgresql_has_all_that_was_acknowledged_and_its_engine_goes_on(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(f"postgres {EACH} {SEED}")
    record = Record("postgresql", "postgres")
    with postgres_folder() as folder:
        postgres = Postgres(folder)
        monkeypatch.setenv("KB_DATABASE_URL", postgres.database)
        server = start_server()
        engine = Engine(HttpTransport(server.url))
        acknowledged, attempted, sent = [], [], []
        try:
            for number in range(20):
                note(engine, f"base {number}", "base")
            for number in range(EACH):
                done = threading.Event()

                def work(number: int = number, done: threading.Event = done) -> None:
                    """Notes one by one, or a change of tags that is done to all or to none."""
                    while not done.is_set():
                        attempted.append(f"note {len(attempted)}")
                        sent.append("note")
                        with suppress(KBError, OSError):
                            note(engine, attempted[-1], "noted")
                            acknowledged.append(attempted[-1])
                            for change in ("add", "remove"):
                                wanted = {
                                    "tags": ["base"],
                                    change: [f"round {number}"],
                                    "force": True,
                                }
                                sent.append(change)
                                engine.post("/bulk/tags", wanted)

                worker = threading.Thread(target=work)
                worker.start()
                # In the middle of one of its requests: a note, tags, tags.
                enough = len(sent) + chance.randint(1, 6)
                while len(sent) < enough and worker.is_alive():
                    time.sleep(0.001)
                time.sleep(chance.uniform(0, 0.06))
                postgres.kill()
                done.set()
                postgres.start()
                worker.join()

                state = look()
                record.check(
                    number, [problem for problem in state.problems if not is_orphan(problem)]
                )
                if lost := set(acknowledged) - state.documents.keys():
                    record.check(number, (f"acknowledged and lost: {sorted(lost)}",))
                tagged = sum(tag == f"round {number}" for _, tag in state.tags)
                if tagged not in (0, 20):
                    record.check(number, (f"a bulk operation is half done: {tagged} of 20",))
                health = engine.get("/health")
                if (health["status"], health["counts"]["documents"]) != (
                    "ok",
                    len(state.documents),
                ):
                    record.check(number, (f"the engine that was running says {health}",))
                last = {
                    "note": attempted[-1] in state.documents,
                    "add": tagged > 0,
                    "remove": tagged == 0,
                }
                record.left["all" if last[sent[-1]] else "nothing"] += 1
        finally:
            stop_server(server)
            postgres.close()

    record.end(record_property)
