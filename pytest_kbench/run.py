"""What the items of a `--kbench` run share: its settings, its grader, and when a candidate is given up."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .candidate import Candidate, CandidateError, escaped, find, look_at
from .case import Case, CaseError, NamedCase
from .device import CPU, device_for
from .gate import wrong
from .options import (
    AUDIT,
    CANDIDATE,
    LEAST_SCORE,
    MIN_SCORE,
    REPORT,
    REQUIRE_DEVICE,
    SEARCHING,
    CheckName,
    Settings,
)
from .record import SEARCHED, Reason, Record

if TYPE_CHECKING:
    from .audit.result import Audit
    from .grader import Grader, Patience
    from .task import Task


@dataclass(frozen=True, slots=True)
class Planned:
    """What one test function grades: one case of one check of one candidate."""

    task: Task
    candidate: Candidate
    check: CheckName
    named: NamedCase
    planned: str = ""  # how many cases each check of this candidate has, as `build=1,correct=165`

    @property
    def id(self) -> str:
        """The bracketed part of the test's name."""
        return ":".join(part for part in (self.candidate.id, self.named.id) if part)


FULL_FAILURES = 3


class Run:
    """What a run's items share. The grader starts at the first case; torch is not imported before a task needs it."""

    def __init__(
        self, settings: Settings, config: pytest.Config, candidates: Path, case: Case | None, given: Mapping[str, Any]
    ) -> None:
        self.settings = settings
        self.candidates = candidates
        self.case = case
        self.only: str | None = given.get(CANDIDATE)
        self.required_device: str | None = given.get(REQUIRE_DEVICE)
        self.reports: tuple[Path, ...] = given.get(REPORT, ())
        self.audits: bool = given.get(AUDIT, False) and case is None  # one case is asked for, of candidates
        self.least_score: float = given.get(MIN_SCORE, LEAST_SCORE)
        self.failing = Failing(config)
        self._config = config
        self._grader: Grader | None = None
        self._patience: dict[Path, Patience] = {}
        self._given_up: dict[Path, Planned] = {}
        self._failed_records: dict[Path, Record] = {}  # the first of each candidate
        self._failures: Counter[tuple[Path, CheckName]] = Counter()

    @property
    def grader(self) -> Grader:
        """The run's grader."""
        if self._grader is None:
            from .grader import Grader

            self._grader = Grader(self.settings, restless=True)
        return self._grader

    def rest(self) -> None:
        """Let the last candidate's child stand still: what comes next is not its case."""
        if self._grader is not None:
            self._grader.rest()

    def close(self) -> None:
        """End every process that was started."""
        if self._grader is not None:
            self._grader.close()

    def adapted(self, task: Task) -> Task:
        """The task with the tolerance that a hook gives it. Raises `TaskError` if that is none."""
        tolerance = self._config.hook.pytest_kbench_tolerance(task=task, config=self._config)
        return task if tolerance is None else replace(task, tolerance=tolerance)

    def find(self, task: Task) -> list[Candidate | CandidateError]:
        """The task's candidates: those of its folder, then those of hooks, each with the flags that hooks give it."""
        hook = self._config.hook
        found = list(find(self.candidates / task.name))
        for paths in hook.pytest_kbench_candidates(task=task, config=self._config):
            found += [look_at(Path(path)) for path in paths]
        names: set[str] = set()
        for index, each in enumerate(found):
            name = each.path.name
            if name in names and isinstance(each, Candidate):
                found[index] = each = CandidateError(each.path, "another candidate of this task has the same name")
            names.add(name)
            if isinstance(each, Candidate):
                flags = hook.pytest_kbench_build_flags(task=task, candidate=each, config=self._config)
                found[index] = replace(each, flags=tuple(flag for flags_of_one in flags for flag in flags_of_one))
        return [each for each in found if self.only in (None, each.path.name)]

    def devices(self, found: Sequence[Candidate | CandidateError]) -> tuple[str, ...]:
        """The devices that these candidates are graded on; the run's own where there are none."""
        graded = (device_for(each, self.settings.device) for each in found if isinstance(each, Candidate))
        return tuple(dict.fromkeys(graded)) or (self.settings.device,)

    def all_cases(self, task: Task, device: str) -> dict[CheckName, tuple[NamedCase, ...]]:
        """What each check grades on a device. Raises `CaseError` for a hook's case that is none."""
        return {check: self.cases(task, check, device) for check in self.settings.checks}

    def cases(self, task: Task, check: CheckName, device: str) -> tuple[NamedCase, ...]:
        """What a check grades: its own cases and those of hooks; or `--kbench-case`, in the first check that takes it.

        Raises `CaseError` for a hook's case that is none.
        """
        from .grader import CHECK_MODULES

        if self.case is not None:
            taker = next((each for each in self.settings.checks if each != "build"), None)
            return (NamedCase("case", self.case),) if check == taker else ()
        planned: tuple[NamedCase, ...] = CHECK_MODULES[check].cases(task, replace(self.settings, device=device))
        if check == "build":
            return planned
        added = self._config.hook.pytest_kbench_cases(task=task, check=check, config=self._config)
        named = {name: text for each in added for name, text in each.items()}
        return (*planned, *(NamedCase(escaped(name), Case.parse(text)) for name, text in named.items()))

    def grade(self, planned: Planned) -> Record:
        """The record of one item. What gives a candidate up is told once; its other items are skipped."""
        from .grader import PROBLEMS, Patience, not_timed

        task, candidate, check = planned.task.name, planned.candidate, planned.check
        last = self._given_up.get(candidate.path)
        if last is not None and last != planned:
            seen = f"see {last.check}[{last.id}]"
            return Record(task, candidate.name, check, "skipped", Reason.GIVEN_UP, seen)
        failed = self._failed_records.get(candidate.path)
        if check == "speed" and failed is not None:
            return not_timed(planned.task, candidate, planned.named, failed)
        try:
            record = self._again(planned) or self._record(planned, planned.named)
        except PROBLEMS as error:
            record = self._failed(planned, Reason.ENVIRONMENT, f"environment: {error}")
        if record.reason is Reason.DEVICE and self.required_device == "cuda":
            record = replace(record, status="failed", message=f"{record.message} {REQUIRE_DEVICE}=cuda asks for one.")
        patience = self._patience.setdefault(candidate.path, Patience(self.settings.max_failures))
        if patience.lost(record):
            self._given_up[candidate.path] = planned
        if wrong(record):
            self._failed_records.setdefault(candidate.path, record)
        return replace(record, facts={**record.facts, "planned": planned.planned})

    def _record(self, planned: Planned, named: NamedCase) -> Record:
        cases = None if planned.check == "build" else (named,)
        return self.grader.grade(planned.task, planned.candidate, checks=(planned.check,), cases=cases).records[0]

    def _again(self, planned: Planned) -> Record | None:
        """What an earlier run found by fuzzing, if it still fails: then nothing new has to be tried."""
        text = self.failing.case(planned.task.name, planned.candidate.name, planned.check)
        if planned.check not in SEARCHING or planned.named.case.calls or text is None:
            return None
        try:
            record = self._record(planned, NamedCase("again", Case.parse(text)))
        except CaseError:
            return None  # of another version
        if record.status != "failed" or record.reason is Reason.CASE:
            return None  # it is right now, or the task takes no such case any more
        told = f"{record.message}\nit failed in an earlier run too"
        return replace(record, message=told, facts={**record.facts, SEARCHED: "1"})

    def audit(self, task: Task) -> Audit:
        """The audit of a task, on the CPU: what it asks is whether the task notices."""
        from .audit.audit import audit

        return audit(task, replace(self.settings, device=CPU))

    def internal(self, planned: Planned, error: Exception) -> Record:
        """The record of an item that an error of our own ended."""
        return self._failed(planned, Reason.INTERNAL, f"internal error: {type(error).__name__}: {error}")

    def _failed(self, planned: Planned, reason: Reason, message: str) -> Record:
        case = str(planned.named.case) or None
        return Record(planned.task.name, planned.candidate.name, planned.check, "failed", reason, message, case)

    def text(self, planned: Planned, record: Record) -> str:
        """A failure's text: in full for the first few of a candidate's check, then its verdict alone."""
        key = (planned.candidate.path, planned.check)
        self._failures[key] += 1
        return record.message if self._failures[key] <= FULL_FAILURES else record.message.partition("\n")[0]


class Failing:
    """What searches found in earlier runs, in pytest's cache: tried first until it passes."""

    KEY = "kbench/fuzz"

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @property
    def _cache(self) -> pytest.Cache | None:
        return getattr(self._config, "cache", None)  # there is none with -p no:cacheprovider

    @functools.cached_property
    def _cases(self) -> dict[str, str]:
        found = self._cache.get(self.KEY, None) if self._cache is not None else None
        return {str(name): str(text) for name, text in found.items()} if isinstance(found, dict) else {}

    def case(self, task: str, candidate: str, check: str) -> str | None:
        """The text of the case that failed last."""
        return self._cases.get(f"{task}/{candidate}/{check}")

    def keep(self, records: Iterable[Record]) -> None:
        """Remember what failed, forget what passes."""
        if self._cache is None:
            return
        for record in records:
            name = f"{record.task}/{record.candidate}/{record.check}"
            if SEARCHED not in record.facts or record.reason in (Reason.ENVIRONMENT, Reason.INTERNAL):
                continue
            if record.status == "failed" and record.case:
                self._cases[name] = record.case
            elif record.status == "passed":
                self._cases.pop(name, None)
        if self._cases or self._cache.get(self.KEY, None):
            self._cache.set(self.KEY, self._cases)


RUN: pytest.StashKey[Run] = pytest.StashKey()
