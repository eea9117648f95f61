"""Fuzz: cases that nobody wrote. Hypothesis draws them from the task's declaration and shrinks what fails.

What is found is graded once more in a new child, so that the case's line fails there too; where it does not, the calls
that came before are part of the case. Then comes precision: where values are wrong, or nothing is, the error of a few
plain calls is set beside eager's and beside that of coarser precisions.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, given
from hypothesis.errors import Flaky

from ..case import Call, Case, NamedCase
from ..options import CheckName, Settings
from ..oracle.coverage import derive, fits
from ..oracle.message import explain_failure
from ..oracle.strategies import cases as drawn
from ..oracle.strategies import sizes
from ..record import EXCUSED, SEARCHED, Reason, Record
from ..task import Task
from .bench import Bench
from .downgrade import downgrade
from .examine import examine

SHRINK_SECONDS = 5.0  # for making a failure small
SMALLEST = 18  # sizes below it are tried one by one in the end
RENEWED = 8  # examples that share a child
SLOW_START, SELDOM = 0.5, 8  # where a first call takes so many seconds, so many times as many examples do
MOST_REFERENCE = 120.0  # seconds that the task itself may take in a search
PATIENCE = 4.0  # times the time of one call: what all calls of all examples may take together
# Such a failure is no answer to a case: there is nothing to try again.
NO_CASE = (Reason.BINDING, Reason.COMPILE, Reason.LOAD, Reason.DEVICE, Reason.ENVIRONMENT, Reason.INTERNAL)
# These are the task's own, or cost as much at each try: they are not made smaller.
FINAL = (Reason.TIMEOUT, Reason.MEMORY, Reason.FLOOD, Reason.TASK, Reason.CASE)


def cases(task: Task, settings: Settings) -> tuple[NamedCase, ...]:
    """One, which stands for all that will be drawn."""
    return (NamedCase("", Case(())),)


def check(bench: Bench, named: NamedCase) -> Record:
    """Search for a case that fails; a case that was given is graded as it is."""
    if calls := named.case.calls:
        record = examine(bench, named, "fuzz")
        plain = len(calls) == 1 and not calls[0].plans and not calls[0].layouts
        return (downgrade(bench, calls) if plain and record.reason in (None, Reason.WRONG) else None) or record
    return searched(bench, "fuzz")


def searched(bench: Bench, check: CheckName) -> Record:
    """The record of a whole search for a case that fails this check."""
    start = time.perf_counter()
    search = Search(bench, check)
    found = search.run() or search.passed()
    if check == "fuzz" and found.reason in (None, Reason.WRONG):
        found = downgrade(bench) or found
    if found.case is not None and found.reason is not Reason.PRECISION:
        where = f"found by example {search.examples} of {bench.settings.examples}"
        found = replace(found, message=f"{found.message}\n{where}")
    told = {**found.facts, SEARCHED: str(search.examples)}
    return replace(found, seconds={**found.seconds, "total": time.perf_counter() - start}, facts=told)


class Found(Exception):
    """An example that failed. Hypothesis tells failures apart by their type: `fails` makes one per reason."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.message)
        self.record = record


class Stop(BaseException):
    """The search is over, with this record. No `Exception`, which Hypothesis would try again."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.message)
        self.record = record


@functools.cache
def fails(reason: Reason) -> type[Found]:
    """The type of failures for this reason."""
    return type(f"Fails_{reason}", (Found,), {})


class Search:
    """One search for an example that fails a check: `fuzz`, or `grad`, whose calls have a backward."""

    def __init__(self, bench: Bench, check: CheckName = "fuzz") -> None:
        self.bench = bench
        self.check = check
        self.examples = 0  # judged before anything failed
        self._refused: Counter[str] = Counter()
        self._excused = 0
        self._dims: set[tuple[tuple[str, int], ...]] = set()
        self._waited = 0.0
        self._asked = 0.0
        self._next_child = 0
        self._first: Record | None = None  # the failure as it was first seen, which holds in a new child
        self._known: dict[str, Record] = {}  # what has been judged since
        self._until = 0.0

    def run(self) -> Record | None:
        """The smallest failure that was found, if any."""
        task, settings = self.bench.task, self.bench.settings
        test = given(drawn(task, settings.kind, gradients=self.check == "grad"))(lambda case: self._try(case))
        test = hypothesis.settings(
            max_examples=settings.examples,
            phases=(Phase.generate, Phase.target, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            database=None,
            deadline=None,
            derandomize=False,
            print_blob=False,
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
        )(test)
        try:
            hypothesis.seed(derive(settings.seed, self.check, task.name))(test)()
        except Stop as stop:
            return stop.record
        except (Found, Flaky) as error:
            return self._confirmed(self._smaller(error.record) if isinstance(error, Found) else None)
        return None

    def passed(self) -> Record:
        """The record of a search that found nothing."""
        names = {name for refused in self._refused for name in refused.split(",")}
        facts = {"refuses": ",".join(sorted(names)), "refused": str(self._refused.total())} if names else {}
        if names and self._refused.total() == self.examples:
            text = f"does not take {', '.join(sorted(names))}"
            return replace(self._record("skipped", Reason.UNSUPPORTED, text), facts=facts)
        facts |= {EXCUSED: str(self._excused)} if self._excused else {}
        named = {tuple(dims.items()) for dims in self.bench.task.shapes.values()}
        if self.bench.task.fuzz and self._dims <= named:
            facts["drawn"] = "named shapes alone: nearly nothing in fuzz= keeps the condition where="
        return replace(self._record("passed", None, facts.get("drawn", "")), facts=facts)

    @property
    def _most_seconds(self) -> float:
        """How long all calls may take; who compiles may do so for every shape."""
        settings = self.bench.settings
        return PATIENCE * settings.timeout + (settings.build_timeout if self.bench.compiles else 0.0)

    def _too_slow(self) -> Record:
        """A failure; but who compiles is judged by what was tried until then, which is told."""
        told = f"its calls took {self._waited:.0f} s"
        if self.bench.compiles:
            return self._ended(told)
        text = f"{told} for {self.examples} examples; --kbench-timeout allows more"
        return self._record("failed", Reason.TIMEOUT, explain_failure(Reason.TIMEOUT, text))

    def _ended(self, why: str) -> Record:
        """The record of a search that found nothing and had no more time."""
        found = self.passed()
        return replace(found, facts={**found.facts, "ended": f"{why} for {self.examples} examples, so it ended there"})

    def _record(self, status: Any, reason: Reason | None, message: str) -> Record:
        return Record(self.bench.task.name, self.bench.candidate.name, self.check, status, reason, message)

    def _try(self, case: Case) -> None:
        """One example: nothing happens, or `Found` or `Stop` is raised."""
        record = self._judged(case)
        if record is None:
            return
        if record.status == "failed":
            assert record.reason is not None
            if record.reason in NO_CASE:
                raise Stop(replace(record, case=None))
            if self._first is None:
                self._first = self._reproduced(record)
                self._until = time.monotonic() + SHRINK_SECONDS
            if record.reason in FINAL:
                raise Stop(self._first)
            raise fails(record.reason)(record)
        if record.comparisons:
            hypothesis.target(max(_closeness(record)), label="error over bound")

    def _judged(self, case: Case) -> Record | None:
        """The record of an example; `None` for a new one when there is no time left to shrink."""
        text = str(case)
        if self._first is None:
            anew = self.examples >= self._next_child
            if anew:
                self.bench.renew()  # what comes first in a process may decide what the others get
            record = self._examined(case)
            self.examples += 1
            waited = record.seconds.get("wait", 0.0)
            if anew:
                self._next_child = self.examples + RENEWED * (1 if waited < SLOW_START else SELDOM)
            self._dims.update(call.dims for call in case.calls)
            if record.status == "skipped" and record.reason is Reason.UNSUPPORTED:
                self._refused[record.facts.get("refuses", "")] += 1
            self._excused += EXCUSED in record.facts
            self._waited += waited
            self._asked += record.seconds.get("inputs", 0.0) + record.seconds.get("reference", 0.0)
            if record.status != "failed" and self._asked > MOST_REFERENCE:
                raise Stop(self._ended(f"the reference took {self._asked:.0f} s"))
            if record.status != "failed" and self._waited > self._most_seconds:
                raise Stop(self._too_slow())
        elif (known := self._known.get(text)) is not None:
            return known
        elif time.monotonic() > self._until:
            return None
        else:
            record = self._examined(case)
        self._known[text] = record
        return record

    def _examined(self, case: Case) -> Record:
        return examine(self.bench, NamedCase("", case), self.check)

    def _reproduced(self, record: Record) -> Record:
        """The same failure in a new child; raises `Stop` where it takes earlier calls too, or never comes again."""
        case, history = _case(record), self.bench.history
        if (again := self._again(record, case)) is not None:
            return again
        needed = self._needed(record, len(case.calls), history)
        if needed is not None:
            told = f"{needed.message}\nafter the calls before it in the same process: alone, that call is right"
            raise Stop(replace(needed, message=told))
        told = f"{record.message}\nseen once, not again in a new process: a race, or memory that nobody wrote"
        raise Stop(replace(record, message=told, facts={**record.facts, "seen": "once"}))

    def _again(self, record: Record, case: Case) -> Record | None:
        """The failure in a new child, if it fails there for the same reason."""
        self.bench.renew()
        again = self._examined(case)
        return again if again.status == "failed" and again.reason is record.reason else None

    def _needed(self, record: Record, length: int, history: Sequence[Call]) -> Record | None:
        """The shortest end of the history whose last call fails, twice; `None` if it fails in none."""
        lengths = [len(history)] if record.reason in FINAL else _doubling(length, len(history))
        found = next((each for each in lengths if self._again(record, Case(tuple(history[-each:])))), None)
        if found is None:
            return None
        least = found if record.reason in FINAL else found // 2
        while found - least > 1:
            middle = (least + found) // 2
            if self._again(record, Case(tuple(history[-middle:]))) is not None:
                found = middle
            else:
                least = middle
        return self._again(record, Case(tuple(history[-found:])))

    def _smaller(self, record: Record) -> Record:
        """What Hypothesis leaves: one call alone, and the least size of each dimension, as far as there is time."""
        calls = _case(record).calls
        if len(calls) > 1:
            record = self._still(record, calls[-1:]) or record
        for name in self.bench.task.fuzz:
            *before, call = _case(record).calls
            for size in self._below(name, dict(call.dims)[name]):
                dims = tuple((each, size if each == name else extent) for each, extent in call.dims)
                if fits(self.bench.task, dict(dims)) and (
                    found := self._still(record, (*before, replace(call, dims=dims)))
                ):
                    record = found
                    break
        return record

    def _below(self, name: str, size: int) -> list[int]:
        """Smaller sizes of a dimension, ascending: the smallest ones, those worth trying, and the nearest ones."""
        tried = {*range(1, SMALLEST), *sizes(self.bench.task, name), *range(size - SMALLEST, size)}
        return sorted(each for each in tried if 0 < each < size and each in self.bench.task.fuzz[name])

    def _still(self, record: Record, calls: tuple[Call, ...]) -> Record | None:
        """The failure in other calls, if there is time and they fail for the same reason."""
        if time.monotonic() > self._until:
            return None
        found = self._examined(Case(calls))
        return found if found.status == "failed" and found.reason is record.reason else None

    def _confirmed(self, smallest: Record | None) -> Record:
        """The smallest failure if it holds in a new child, else the first one, which does."""
        assert self._first is not None
        if smallest is None or smallest.case == self._first.case:
            return self._first
        return self._again(smallest, _case(smallest)) or self._first


def _doubling(start: int, end: int) -> list[int]:
    """Twice the start, four times the start, and so on; the end last."""
    return [*takewhile(lambda each: each < end, (start << power for power in range(1, 32))), end]


def _case(record: Record) -> Case:
    assert record.case is not None
    return Case.parse(record.case)


def _closeness(record: Record) -> list[float]:
    """How near each output came to its bound."""
    return [min(max(each.ratio or 0.0, each.norm_ratio or 0.0), 1.0) for each in record.comparisons]
