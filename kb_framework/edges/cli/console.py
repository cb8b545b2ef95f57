"""What a command prints: results on stdout, everything else on stderr; tables and colour only in a terminal."""

from __future__ import annotations

import gc
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from kb_framework.errors import ConfigInvalid, KBError

if TYPE_CHECKING:
    from kb_framework.bootstrap import Bootstrap
    from kb_framework.client import Engine
    from kb_framework.plugins import Plugins


# What a command sees where a person wrote `-`, which the parser would take for an option.
STDIN = "<standard input>"


@Parameter(parse=False)
class Cli:
    """What every command is given, as its keyword-only parameter `cli`."""

    def __init__(
        self, bootstrap: Bootstrap, plugins: Plugins, *, json: bool = False, debug: bool = False
    ) -> None:
        self.bootstrap = bootstrap
        self.plugins = plugins
        self.json = json
        self.debug = debug

    @cached_property
    def engine(self) -> Engine:
        from kb_framework.client import connect

        return connect(self.bootstrap, self.plugins)

    @property
    def width(self) -> int:
        """The columns of the terminal; unlimited in a pipe."""
        return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize

    def close(self) -> None:
        if "engine" in self.__dict__:
            self.engine.close()

    # Results

    def result(self, data: Any, text: str | None = None) -> None:
        """One thing: as JSON with `--json`, else as text."""
        if self.json or text is None:
            self.print(
                json.dumps(data, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
            )
        else:
            self.print(text)

    def print(self, text: str) -> None:
        sys.stdout.write(text + "\n")

    def table(
        self,
        data: Any,
        rows: Iterable[Sequence[Any]],
        columns: Sequence[str],
        title: str | None = None,
    ) -> None:
        """Many things: `data` as JSON with `--json`, else rows as a table (tab-separated in a pipe)."""
        if self.json:
            self.result(data)
        elif sys.stdout.isatty():
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text

            table = Table(
                title=title, title_justify="left", header_style="bold", box=None, pad_edge=False
            )
            for name in columns:
                # Nothing is cut off, and an id stays in one piece, to be copied.
                table.add_column(
                    name, overflow="fold", no_wrap=name == "id" or name.endswith("_id")
                )
            for row in rows:
                table.add_row(*(Text(harmless(cell)) for cell in row))
            Console().print(table)
        else:
            self.print("\t".join(columns))
            for row in rows:
                self.print("\t".join(" ".join(harmless(cell).split()) for cell in row))

    # Messages

    def say(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def hint(self, answer: Mapping[str, Any]) -> None:
        """Tell why an answer is empty, where it says so itself."""
        if answer.get("hint") and not self.json:
            self.say(f"kb: {answer['hint']}")

    def confirm(self, question: str, flag: str) -> bool:
        """Ask a yes-or-no question; where nobody is there to answer, say which flag to use instead."""
        unanswered = ConfigInvalid(f"this needs a confirmation: give {flag}")
        if self.json and not interactive():
            raise unanswered
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        try:
            answer = sys.stdin.readline() if sys.stdin else ""
        except KeyboardInterrupt:
            sys.stderr.write("\n")
            raise
        if not answer and not interactive():
            sys.stderr.write("\n")
            raise unanswered
        return answer.strip().lower() in {"y", "yes"}

    @contextmanager
    def progress(
        self, items: Sequence[Any], label: str, arriving: Iterable[Any] | None = None
    ) -> Iterator[Iterable[Any]]:
        """The items (as they arrive), with a bar, rate and remaining time where someone looks."""
        if self.json or len(items) < 2 or not sys.stderr.isatty():
            yield items if arriving is None else arriving
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label, total=len(items), rate="")

            def counted() -> Iterator[Any]:
                for item in items if arriving is None else arriving:
                    yield item
                    speed = bar.tasks[0].speed
                    bar.update(task, advance=1, rate=f"{speed:.0f}/s" if speed else "")

            yield counted()

    @contextmanager
    def counting(self, label: str, total: int | None = None) -> Iterator[Callable[..., None]]:
        """A function that takes how much is done of how much (and of what), and shows it where someone looks."""
        # What runs this long must not keep its garbage, as short commands do.
        gc.enable()
        if self.json or not sys.stderr.isatty():
            yield lambda done, total, label="": None
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}"),
        )
        with Progress(
            *columns,
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        ) as bar:
            task = bar.add_task(label, total=total)
            yield lambda done, total, label=label: bar.update(
                task, completed=done, total=total, description=label
            )

    @contextmanager
    def interruptible(self, message: str) -> Iterator[None]:
        """Say on Ctrl-C what was done and how to go on, where nothing inside says it better."""
        try:
            yield
        except KeyboardInterrupt as interrupted:
            raise KeyboardInterrupt(*(interrupted.args or (message,))) from None

    def error(self, error: KBError) -> None:
        """The one place where an error becomes words on a terminal."""
        if self.json:
            self.say(json.dumps(error.v1(), ensure_ascii=False))
            return
        self.say(f"kb: {error.message}")
        if error.hint:
            self.say(f"    {error.hint}")


def interactive() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def harmless(cell: Any) -> str:
    """A cell's text, without codes that would move the cursor or colour the terminal."""
    return (
        ""
        if cell is None
        else "".join(char for char in str(cell) if char.isprintable() or char in "\n\t")
    )


def pairs(data: Mapping[str, Any]) -> str:
    """Names and values, one on a line."""
    width = max((len(name) for name in data), default=0)
    return "\n".join(f"{name:<{width}}  {harmless(value)}".rstrip() for name, value in data.items())
