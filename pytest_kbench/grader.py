"""The one door: `grade(task, candidate) -> Verdict`. No pytest in it; safe to call from threads, and awaitable.

A `Grader` owns what is costly: the sandbox's preloaded parent, the cache of builds, and warm children. `grade` uses
Graders that live as long as the process; whoever wants a shorter life makes their own, as a context manager.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType, TracebackType
from typing import cast

from .build.ahead import Builds
from .build.cache import Store
from .build.errors import EnvironmentFault
from .build.sources import fingerprint
from .candidate import Candidate
from .case import Case, NamedCase
from .checks import build, contract, correct, determinism, fuzz, grad, sanitize, speed
from .checks.bench import Bench
from .checks.gpu_timekeeper import GpuTimekeeper
from .checks.timekeeper import Timekeeper
from .device import device_for, kind_of
from .formats import native
from .gate import asked, gated, required, wrong
from .options import WARM, CheckName, Settings
from .oracle.truth import Truths
from .record import HOPELESS, Reason, Record, Verdict
from .sandbox.host import LayerReport, Sandbox, SandboxError
from .task import Task

CHECK_MODULES = {
    "build": build,
    "correct": correct,
    "contract": contract,
    "determinism": determinism,
    "fuzz": fuzz,
    "grad": grad,
    "sanitize": sanitize,
    "speed": speed,
}
PROBLEMS = (EnvironmentFault, SandboxError)

TIMEOUTS = 3

CaseLike = NamedCase | Case | str


class Grader:
    """Grades candidates; keeps a few of them warm. Close it, or use it as a context manager.

    Between calls of `grade` children stand still, so that nothing of a candidate runs while nobody looks. With
    `restless` the last one goes on until `rest` is called, or another is graded: for whoever grades case by case.
    """

    def __init__(self, settings: Settings | None = None, *, restless: bool = False) -> None:
        self.settings = Settings() if settings is None else settings
        if not isinstance(self.settings, Settings):
            raise TypeError(f"settings={settings!r}: make them with Settings(...)")
        self._sandbox = Sandbox(mode=self.settings.sandbox, threads=self.settings.threads)
        self._store = Store(self.settings.cache)
        self._truths = Truths()
        self._builds = Builds()
        self._timekeepers: dict[str, Timekeeper] = {}
        self._lock = threading.Lock()
        self._idle: OrderedDict[tuple[str, ...], Bench] = OrderedDict()
        self._restless = restless
        self._awake: Bench | None = None  # an idle one whose child does not stand still yet

    def __enter__(self) -> Grader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every child and the sandbox."""
        self._builds.cancel()
        with self._lock:
            idle, self._idle, self._awake = list(self._idle.values()), OrderedDict(), None
        for bench in idle:
            bench.close()
        for keeper in self._timekeepers.values():
            keeper.close()
        self._sandbox.close()

    def _timekeeper(self, device: str) -> Timekeeper:
        if device not in self._timekeepers:
            kind = GpuTimekeeper if kind_of(device) == "cuda" else Timekeeper
            self._timekeepers[device] = kind(self._sandbox, self._store, self.settings.threads or 1, device)
        return self._timekeepers[device]

    def rest(self) -> None:
        """Let the last candidate's child stand still."""
        with self._lock:
            self._rest()

    def _rest(self) -> None:
        if self._awake is not None:
            self._awake.rest()
            self._awake = None

    def layers(self) -> LayerReport:
        """Which layers of the sandbox hold on this machine, and which its kernel refuses."""
        return self._sandbox.layers()

    def build_ahead(self, task: Task, candidate: Candidate) -> None:
        """Start building a candidate that will be graded soon and must be compiled; several are built at once."""
        if candidate.language == "cpp" or (candidate.language == "cuda" and self.settings.kind == "cuda"):
            bench = Bench(task, candidate, self.settings, self._sandbox, self._store)
            self._builds.start(_build_key(task, candidate), bench.prepare)

    def grade(
        self,
        task: Task | Path | str,
        candidate: Candidate | Path | str,
        *,
        checks: Sequence[CheckName] | None = None,
        cases: Sequence[CaseLike] | None = None,
        settings: Settings | None = None,
    ) -> Verdict:
        """Grade one candidate; see `grade`."""
        settings = settings or self.settings
        for name in ("sandbox", "threads", "cache"):
            if getattr(settings, name) != getattr(self.settings, name):
                raise ValueError(
                    f"settings.{name} is this Grader's own, {getattr(self.settings, name)!r}; make another"
                )
        task = task if isinstance(task, Task) else native.load(Path(task))[0]
        candidate = candidate if isinstance(candidate, Candidate) else Candidate.at(Path(candidate))
        device = device_for(candidate, settings.device)
        settings = replace(settings, device=device, min_speedup=asked(task, settings))
        checks = settings.checks if checks is None else checks
        if isinstance(checks, str) or isinstance(cases, str):
            raise ValueError("checks and cases are lists, not texts")
        if unknown := [check for check in checks if check not in CHECK_MODULES]:
            raise ValueError(f"checks: {', '.join(map(str, unknown))}: choose from {', '.join(CHECK_MODULES)}")
        with self._bench(task, candidate, settings) as bench:
            return Verdict.of(tuple(_records(bench, checks, cases)))

    @contextmanager
    def _bench(self, task: Task, candidate: Candidate, settings: Settings) -> Iterator[Bench]:
        """Lend a bench to one caller at a time; an idle one of the same task and sources is used again."""
        self._sandbox.check_process()
        key = (task.function.__name__, str(candidate.path), fingerprint(candidate), *candidate.flags, repr(settings))
        with self._lock:
            bench = self._idle.pop(key, None) or Bench(
                task,
                candidate,
                settings,
                self._sandbox,
                self._store,
                self._truths,
                self._builds.take(_build_key(task, candidate)),
                timekeeper=self._timekeeper(settings.device),
            )
            if bench is self._awake:
                self._awake = None
            self._rest()
        bench.serve(task)
        try:
            yield bench
        except BaseException:
            bench.close()
            raise
        if not bench.built:
            bench.close()  # the machine may have changed when it is tried again
            return
        with self._lock:
            self._rest()
            self._awake = bench
            if not self._restless:
                self._rest()
            spare = self._idle.pop(key, None)
            self._idle[key] = bench
            oldest = self._idle.popitem(last=False)[1] if len(self._idle) > WARM else None
        for each in (spare, oldest):
            if each is not None:
                each.close()


def _build_key(task: Task, candidate: Candidate) -> tuple[str, ...]:
    return task.function.__name__, str(candidate.path), fingerprint(candidate), *candidate.flags


class Patience:
    """When to give a candidate up: it cannot be built or loaded, it hung three times, or it failed often enough."""

    def __init__(self, max_failures: int) -> None:
        self._failures_left = max_failures or None
        self._timeouts_left = TIMEOUTS

    def lost(self, record: Record) -> bool:
        """Count one more record; whether the candidate's other cases have no point."""
        self._timeouts_left -= record.reason is Reason.TIMEOUT
        if self._failures_left is not None:
            self._failures_left -= wrong(record)
        return record.reason in HOPELESS or self._timeouts_left <= 0 or self._failures_left == 0


def _records(bench: Bench, checks: Sequence[CheckName], cases: Sequence[CaseLike] | None) -> Iterator[Record]:
    patience = Patience(bench.settings.max_failures)
    failed: Record | None = None
    for name in checks:
        for named in _cases(bench, name, checks, cases):
            record = not_timed(bench.task, bench.candidate, named, failed) if name == "speed" and failed else None
            record = record or _checked(bench, name, named)
            failed = failed or (record if wrong(record) else None)
            yield record
            if patience.lost(record):
                return


def _cases(
    bench: Bench, name: CheckName, checks: Sequence[CheckName], cases: Sequence[CaseLike] | None
) -> Sequence[NamedCase]:
    """What a check grades: the cases that were given, or its own; a check without any, one of several, has none."""
    given = None if cases is None or name == "build" else tuple(map(_named, cases))
    if given is not None and len(checks) == 1:
        return given  # a check's own cases, of which there are hundreds, are made for nothing then
    own: Sequence[NamedCase] = CHECK_MODULES[name].cases(bench.task, bench.settings)
    return own if given is None or not own else given


def _checked(bench: Bench, name: CheckName, named: NamedCase) -> Record:
    """One case of one check. What is timed has the device alone, what is checked shares it."""
    module: ModuleType = CHECK_MODULES[name]
    if name == "speed":
        settings = bench.settings
        return gated(module.check(bench, named), required(settings.min_speedup), strict=settings.strict)
    if bench.timekeeper is None:
        return cast("Record", module.check(bench, named))
    with bench.timekeeper.lock.shared():
        return cast("Record", module.check(bench, named))


def not_timed(task: Task, candidate: Candidate, named: NamedCase, failed: Record) -> Record:
    """The record of a case that is not timed, because another check of the candidate failed."""
    said = f"{failed.check} failed: {failed.reason}"
    facts = speed.size_of(named)
    return Record(task.name, candidate.name, "speed", "skipped", Reason.NOT_TIMED, said, str(named.case), facts=facts)


def _named(case: CaseLike) -> NamedCase:
    if isinstance(case, NamedCase):
        return case
    case = Case.parse(case) if isinstance(case, str) else case
    return NamedCase("case", case)


_graders: dict[tuple[object, ...], Grader] = {}
_graders_lock = threading.Lock()


def _grader_for(settings: Settings | None) -> Grader:
    """The process's Grader of these settings, as far as they concern what Graders own."""
    settings = Settings() if settings is None else settings
    if not isinstance(settings, Settings):
        raise TypeError(f"settings={settings!r}: make them with Settings(...)")
    key = (settings.sandbox, settings.threads, settings.cache, os.getpid())
    with _graders_lock:
        if key not in _graders:
            _graders[key] = Grader(settings)
            atexit.register(_graders[key].close)
        return _graders[key]


def grade(
    task: Task | Path | str,
    candidate: Candidate | Path | str,
    *,
    checks: Sequence[CheckName] | None = None,
    cases: Sequence[CaseLike] | None = None,
    settings: Settings | None = None,
) -> Verdict:
    """Grade a candidate against a task, and say what is right, wrong or unsupported, with evidence.

    `task` is a `Task` or the path of a task file; `candidate` a path (or `Candidate`). `checks` is a choice of `build`,
    `correct`, `contract`, `determinism`, `fuzz`, `grad`, `sanitize` and `speed` (default: all; `sanitize` has no cases
    unless `settings.sanitize` names a sanitizer, and what failed another check is not timed); `cases` limits the checks
    to these texts, as `--kbench-case` takes them. The candidate runs in a locked-down process of its own; what it does
    there is a failed record, never an exception.

    Safe to call from threads. Raises `TaskFileError` and `CandidateError` for a path that cannot be graded, `CaseError`
    for a text that is no case, `EnvironmentFault` where nothing can be built or kept, and `SandboxError` where no child
    can be locked up as `settings.sandbox` asks.

    >>> verdict = grade("tasks/softmax.py", "candidates/softmax/naive.cpp")  # doctest: +SKIP
    >>> verdict.outcome  # doctest: +SKIP
    'passed'
    """
    grader = _grader_for(settings)
    return grader.grade(task, candidate, checks=checks, cases=cases, settings=settings)


async def grade_async(
    task: Task | Path | str,
    candidate: Candidate | Path | str,
    *,
    checks: Sequence[CheckName] | None = None,
    cases: Sequence[CaseLike] | None = None,
    settings: Settings | None = None,
) -> Verdict:
    """`grade`, awaited: it runs in a worker thread, so that an event loop goes on meanwhile."""
    return await asyncio.to_thread(grade, task, candidate, checks=checks, cases=cases, settings=settings)
