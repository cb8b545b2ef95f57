"""Run the checks that plugins declare, and their repairs; a check that raises costs itself alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from sqlalchemy import exc

from kb_framework.api import Actor, Check, Finding, Level, Progress
from kb_framework.api.models import Body
from kb_framework.api.parts import Plugins
from kb_framework.errors import Busy, KBError, PluginFailed, StoreUnusable, WrongType
from kb_maintenance.models import (
    CheckResult,
    DoctorFinished,
    DoctorReport,
    DoctorRun,
    DoctorUnderway,
)

# Seconds that one request repairs, that another waits for it, and after which a run that no request
# continued is given up.
_STEP_SECONDS = 5.0
_PATIENCE_SECONDS = 60.0
_ABANDONED_SECONDS = 120.0
# Failures of the storage itself, which are not the fault of the plugin that met them.
_STORAGE = (StoreUnusable, Busy, exc.DatabaseError)

Event = str | Progress


@dataclass(slots=True)
class _Run:
    """A repair, or a check of everything, between two requests."""

    events: Iterator[Event] = field(default_factory=lambda: iter(()))
    repairs: list[str] = field(default_factory=list)
    progress: Progress = field(default_factory=lambda: Progress("looking", 0, None))
    seen: float = field(default_factory=time.monotonic)
    # What checks found when they read everything.
    findings: dict[str, list[Finding]] = field(default_factory=dict)


class DoctorService:
    """The doctor: reports, and runs of repairs and deep checks that several requests continue."""

    step_seconds = _STEP_SECONDS

    def __init__(self, plugins: Plugins, build: Callable[[str, str], Any]) -> None:
        self._plugins = plugins
        self._build = build
        self._runs: dict[str, _Run] = {}
        self._one_run = threading.Lock()

    def report(self, _: Body, actor: Actor) -> DoctorReport:
        """Return every finding, with what to do about it, and the worst of their levels."""
        return DoctorReport(**self._report({}))

    def repair(self, _: Body, actor: Actor) -> DoctorRun:
        """Repair for some seconds; repeat until it is finished and everything was checked again."""
        return self._continue("repair", self._repairs)

    def check_all(self, _: Body, actor: Actor) -> DoctorRun:
        """Check every stored file and chunk for some seconds; repeat until it is finished."""
        return self._continue("check", self._deep_checks)

    # Runs

    def _continue(self, name: str, begin: Callable[[_Run], Iterator[Event]]) -> DoctorRun:
        if not self._one_run.acquire(timeout=_PATIENCE_SECONDS):
            raise Busy("another repair or check is under way; try again")
        try:
            return DoctorRun(self._continue_alone(name, begin))
        finally:
            self._one_run.release()

    def _continue_alone(
        self, name: str, begin: Callable[[_Run], Iterator[Event]]
    ) -> DoctorUnderway | DoctorFinished:
        now = time.monotonic()
        run = self._runs.get(name)
        if run is None or now - run.seen > _ABANDONED_SECONDS:
            run = self._runs[name] = _Run()
            run.events = begin(run)
        try:
            for event in run.events:
                run.seen = time.monotonic()
                if isinstance(event, str):
                    run.repairs.append(event)
                else:
                    run.progress = event
                if run.seen - now >= self.step_seconds:
                    return DoctorUnderway(**run.progress._asdict(), repairs=run.repairs)
        except BaseException:
            # The next run finds what is left to do.
            del self._runs[name]
            raise
        del self._runs[name]
        return DoctorFinished(**self._report(run.findings), repairs=run.repairs)

    def _repairs(self, run: _Run) -> Iterator[Event]:
        for check in self._checks():
            try:
                repair = getattr(self._made(check), "repair", None)
                if repair is not None:
                    yield from _events(repair())
            except _STORAGE:
                raise
            except Exception as error:  # noqa: BLE001 - another check may repair what is its own
                yield f"{check.name} was not repaired: {self._failed(check, error).message}"

    def rebuilds(self) -> Iterator[Progress]:
        """Rebuild derived data of every check that has `rebuild`; one that raises is logged and skipped."""
        for check in self._checks():
            try:
                rebuild = getattr(self._made(check), "rebuild", None)
                if rebuild is not None:
                    yield from rebuild()
            except _STORAGE:
                raise
            except Exception as error:  # noqa: BLE001 - the other checks rebuild what is their own
                self._failed(check, error)

    def _deep_checks(self, run: _Run) -> Iterator[Progress]:
        for check in self._checks():
            try:
                check_all = getattr(self._made(check), "check_all", None)
                if check_all is None:
                    continue
                found = run.findings.setdefault(check.name, [])
                for event in check_all():
                    if isinstance(event, Progress):
                        yield event
                    else:
                        found.append(_checked(event))
            except _STORAGE:
                raise
            except Exception as error:  # noqa: BLE001 - the other checks are run all the same
                run.findings.setdefault(check.name, []).append(self._failed(check, error))

    # Checks

    def _report(self, known: dict[str, list[Finding]]) -> dict[str, Any]:
        found: list[Finding] = []
        for check in self._checks():
            found += known[check.name] if check.name in known else self._findings(check)
        levels = {item.level for item in found}
        worst = next((level for level in ("error", "warning") if level in levels), "ok")
        return {"status": worst, "checks": [_shown(item) for item in found]}

    def _checks(self) -> list[Check]:
        return sorted(self._plugins.registry(Check).as_declared(), key=lambda check: check.rank)

    def _made(self, check: Check) -> Any:
        return self._build(self._plugins.registry(Check).plugin_of(check.name), check.target)

    def _findings(self, check: Check) -> list[Finding]:
        found: list[Finding] = []
        try:
            for item in self._made(check).check() or ():
                found.append(_checked(item))
        except Exception as error:  # noqa: BLE001 - the other checks are run all the same
            found.append(self._failed(check, error))
        return found

    def _failed(self, check: Check, error: Exception) -> Finding:
        """Return the finding for a check that raised, which names its plugin."""
        if not isinstance(error, (PluginFailed, *_STORAGE)):
            error = self._plugins.report(
                self._plugins.registry(Check).plugin_of(check.name), "kb_checks", error
            )
        hint = (error.hint or "") if isinstance(error, KBError) else ""
        return Finding("error", check.name, str(error), hint)


def _events(given: Iterable[Any] | None) -> Iterator[Event]:
    for event in given or ():
        if not isinstance(event, str | Progress):
            raise WrongType(f"expected a sentence or Progress, not {type(event).__name__}")
        yield event


def _checked(item: Any) -> Finding:
    if not isinstance(item, Finding):
        raise WrongType(f"expected Finding, not {type(item).__name__}")
    if item.level not in get_args(Level):
        raise WrongType(f"expected a level of ok, warning or error, not {item.level!r}")
    if not all(type(text) is str for text in (item.name, item.message, item.hint)):
        raise WrongType("expected texts as name, message and hint of a Finding")
    return item


def _shown(item: Finding) -> CheckResult:
    message = f"{item.message}: {item.hint}" if item.hint else item.message
    return CheckResult(name=item.name, state=item.level, message=message)
