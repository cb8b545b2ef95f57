"""Fixtures for tests of plugins: real data folders, real processes, nothing faked.

Use them with `pytest_plugins = ["kb_testing.fixtures"]` in a `conftest.py`.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kb_framework.client import Engine, connect
from kb_framework.remote import HttpTransport
from kb_testing.commands import close_shared, run_from_the_beginning, share, shared

if TYPE_CHECKING:
    from mcp import StdioServerParameters

    from kb_framework.app import KB
    from kb_testing.application import AsgiTransport

pytest_plugins = ["kb_testing.postgres", "kb_testing.sqlite"]

# Only a server that hangs takes so long, on a busy machine too.
_START_SECONDS = 600


@pytest.fixture
def kb_home(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kb_database: str | None,
    kb_begin: Callable[[Path], None],
) -> Path:
    """A data folder with a new database, and an environment without any other `KB_*` setting but the store that the tests run on.

    With the mark `new_database` there is no folder yet, and the database is empty.
    """
    for name in [name for name in os.environ if name.upper().startswith("KB_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "kb-home"
    monkeypatch.setenv("KB_DATA_DIR", str(home))
    # The settings of the person who runs the tests are not theirs.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "kb-config"))
    if kb_database:
        monkeypatch.setenv("KB_DATABASE_URL", kb_database)
    if request.node.get_closest_marker("new_database") is None:
        kb_begin(home)
    monkeypatch.chdir(tmp_path)
    return home


@pytest.fixture
def kb_engine(kb_home: Path) -> Iterator[Engine]:
    """An engine in this process, over a database of its own."""
    with connect() as engine:
        yield engine


@pytest.fixture
def kb_http(kb_home: Path) -> Iterator[AsgiTransport]:
    """The HTTP application over the same database, in this process, asked as the local person."""
    from kb_framework.app import open_kb
    from kb_framework.edges.http.app import create_app
    from kb_testing.application import AsgiTransport

    kb = open_kb()
    transport = AsgiTransport(create_app(kb), kb.close)
    yield transport
    transport.close()


def pytest_configure(config: pytest.Config) -> None:
    given: dict[str, Any] = getattr(config, "workerinput", {})
    if "kb_commands" in given:
        share(given["kb_commands"])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give the processes of pytest-xdist the same process that forks: its imports take as long as a hundred tests."""
    node.workerinput["kb_commands"] = shared().address


def pytest_unconfigure() -> None:
    close_shared()


def kb_line(*arguments: str) -> list[str]:
    """The command line of a process that behaves as `kb` with these arguments, without the time of its imports.

    Use it with `subprocess.Popen` and for MCP over standard input and output. See `Commands.line` for its limits.
    """
    return shared().line(*arguments)


def kb_mcp(*arguments: str, **environment: str) -> StdioServerParameters:
    """`kb mcp` for a client of MCP that starts it."""
    from mcp import StdioServerParameters

    command, *rest = kb_line("mcp", *arguments)
    return StdioServerParameters(command=command, args=rest, env={**os.environ, **environment})


@pytest.fixture
def kb_run(kb_home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `kb` as a person would, in a process of its own, forked from one that has imported everything."""

    def run(
        *arguments: str, stdin: str | None = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return shared().run(arguments, stdin, **environment)

    return run


@pytest.fixture
def kb_start(kb_home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `kb` in a process that begins with nothing, for tests of how it begins."""

    def run(
        *arguments: str, stdin: str | None = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return run_from_the_beginning(arguments, stdin, **environment)

    return run


def stored(statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """What the database of this environment answers, behind the program's back; `?` stands for a value."""
    if url := os.environ.get("KB_DATABASE_URL"):
        import psycopg

        with psycopg.connect(url) as connection:
            answer = connection.execute(statement.replace("?", "%s").encode(), values)
            return answer.fetchall() if answer.description else []
    # Its functions come from a compiled module without type information.
    dbapi2: Any = importlib.import_module("pysqlite3.dbapi2")
    with (
        closing(
            dbapi2.connect(str(Path(os.environ["KB_DATA_DIR"]) / "kb.sqlite"), timeout=600)
        ) as connection,
        connection,
    ):
        return connection.execute(statement, values).fetchall()


def stored_tables() -> set[str]:
    """The tables that the database of this environment has."""
    on_postgres = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace"
    on_sqlite = "SELECT name FROM sqlite_schema WHERE type = 'table'"
    return {
        name for (name,) in stored(on_postgres if os.environ.get("KB_DATABASE_URL") else on_sqlite)
    }


@dataclass
class RunningServer:
    url: str
    process: subprocess.Popen[str]
    log: list[str]
    follower: threading.Thread

    @property
    def engine(self) -> Engine:
        return Engine(HttpTransport(self.url))


def start_server(*arguments: str, **environment: str) -> RunningServer:
    """`kb serve` on a free port, or that of `--port`, once it says that it serves."""
    process = subprocess.Popen(
        kb_line("serve", *([] if "--port" in arguments else ["--port", "0"]), *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, **environment},
    )
    log: list[str] = []
    ready = threading.Event()
    found: list[str] = []

    def follow() -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                log.append(line)
                if match := re.match(r"kb: serving .* on (http://\S+)", line):
                    found.append(match.group(1))
                    ready.set()
        ready.set()

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    ready.wait(_START_SECONDS)
    if not found:
        process.kill()
        process.wait()
        follower.join()
        raise RuntimeError("kb serve did not start:\n" + "".join(log))
    return RunningServer(found[0], process, log, follower)


def stop_server(server: RunningServer) -> int:
    if server.process.poll() is None:
        server.process.send_signal(signal.SIGTERM)
    code = server.process.wait(timeout=_START_SECONDS)
    server.follower.join()
    return code


@pytest.fixture
def kb_server(kb_home: Path) -> Iterator[RunningServer]:
    """A running `kb serve`, stopped in the end."""
    server = start_server()
    yield server
    stop_server(server)


@pytest.fixture
def kb_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Installs a plugin made of source text, as its own distribution, for this process and those it starts."""
    folder = tmp_path / "installed"

    def install(
        name: str, source: str, *, module: str | None = None, distribution: str | None = None
    ) -> None:
        module = module or f"{name}_plugin_{len(list(folder.glob('*.py')))}"
        distribution = distribution or module.replace("_", "-")
        folder.mkdir(exist_ok=True)
        # Another test's module of this name must not be taken for it.
        monkeypatch.delitem(sys.modules, module, raising=False)
        (folder / f"{module}.py").write_text(source, encoding="utf-8")
        info = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n", encoding="utf-8"
        )
        (info / "entry_points.txt").write_text(
            f"[kb_framework]\n{name} = {module}\n", encoding="utf-8"
        )
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv("PYTHONPATH", str(folder))

    return install


def missing_permissions(kb: KB) -> list[str]:
    """What a key could never use, because it names no permission or one that nobody declares; for tests: it must be empty."""
    from kb_framework.api import ANY_KEY, PUBLIC
    from kb_framework.edges.http.app import create_app

    declared = {item.name for item in kb.plugins.permissions}
    app: Any = create_app(kb)
    handlers = [
        (route.path, handler)
        for route in app.app.routes
        for handler in getattr(route, "route_handlers", None) or [route.route_handler]
    ]
    # Litestar answers OPTIONS by itself, and asks the gate like any other.
    named = [
        (f"the route {path}", handler.opt.get("permission"))
        for path, handler in handlers
        if _is_ours(handler)
    ]
    named = [
        (what, permission) for what, permission in named if permission not in (PUBLIC, ANY_KEY)
    ]
    named += [(f"the tool {tool.name}", tool.permission) for tool in kb.plugins.tools]
    named += [(f"the operation {kind.name}", kind.permission) for kind in kb.plugins.kinds]
    problems = {what: "names no permission" for what, permission in named if not permission}
    problems |= {
        what: f"names {name!r}, which nobody declares"
        for what, name in named
        if name and name not in declared
    }
    return [f"{what} {problem}" for what, problem in sorted(problems.items())]


def _is_ours(handler: Any) -> bool:
    return getattr(handler, "http_methods", None) != {"OPTIONS"}


Run = Callable[..., "subprocess.CompletedProcess[str]"]
Move = Callable[[Path], Path]
StoreOf = Callable[..., dict[str, str]]
Install = Callable[..., Any]
