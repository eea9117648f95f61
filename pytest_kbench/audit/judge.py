"""Wrong kernels before the judge: the cases of a task, by the truths and the comparison that candidates meet."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, given
from hypothesis import strategies as st
from torch import Tensor

from ..case import Call, Case, CaseError
from ..options import Settings
from ..oracle.compare import compare
from ..oracle.coverage import SEEDS, derive, fixed_cases, gradients, sequences
from ..oracle.golden import NOW_AND_THEN, ReferenceFailed, apart
from ..oracle.inputs import InputsFailed
from ..oracle.strategies import cases as drawn
from ..oracle.strategies import cost
from ..oracle.tolerance import Tolerance
from ..oracle.truth import answer, ask
from ..record import Comparison
from ..task import Task
from .kernel import Asked, Breaks, NotHere, Wrong
from .mutants import Mutants, fits, same
from .rerun import rerun
from .result import Fault, Tried

EXAMPLES = 60  # of those that fuzzing draws, for all; the rest is for those that survive
LARGE, FEW = 1 << 16, 10  # elements of a case that takes long, and how many such cases are judged
LEFT_OUT = "left out:"
SECONDS = 30.0  # of this thread that the judging may take; what it did not come to is told


Planned = tuple[list[Case], list[Case]]  # what all are judged by, small ones first; what survivors meet besides


def forward_cases(task: Task, settings: Settings) -> Planned:
    """The fixed cases, sequences of calls and some of the examples of fuzzing; then more examples."""
    fixed = fixed_cases(task, settings.kind, settings.seed)[::SEEDS]
    several = sequences(task, settings.kind, settings.seed)
    found = [each.case for each in (*fixed, *several)]
    return _planned(task, found, _examples(task, settings, "fuzz", drawn(task, settings.kind)))


def backward_cases(task: Task, settings: Settings) -> Planned:
    """The fixed cases of gradients and some of the examples of their search; then more examples."""
    if not task.grad:
        return [], []
    fixed = [each.case for each in gradients(task, settings.kind, settings.seed)]
    return _planned(task, fixed, _examples(task, settings, "grad", drawn(task, settings.kind, gradients=True)))


def _planned(task: Task, fixed: Sequence[Case], examples: Sequence[Case]) -> Planned:
    found = [*fixed, *examples[:EXAMPLES]]
    sizes = {case: sum(cost(task, dict(call.dims)) for call in case.calls) for case in (*found, *examples)}
    ordered = sorted(dict.fromkeys(found), key=sizes.__getitem__)
    large = [case for case in ordered if sizes[case] > LARGE]
    further = [case for case in dict.fromkeys(examples[EXAMPLES:]) if sizes[case] <= LARGE]
    first = [*ordered[: len(ordered) - len(large)], *_various(task, large)]
    return first, sorted(further, key=sizes.__getitem__)


def _various(task: Task, large: Sequence[Case]) -> list[Case]:
    """A few of these cases, small ones first: two of each named shape before others, and before any has three."""
    named = {tuple(dims.items()) for dims in task.shapes.values()}
    turns: Counter[object] = Counter()
    ranks = {}
    for case in large:
        dims = tuple(call.dims for call in case.calls)
        ranks[case] = (turns[dims] // 2, not (len(dims) == 1 and set(dims) <= named))
        turns[dims] += 1
    chosen = sorted(large, key=ranks.__getitem__)[:FEW]
    return [case for case in large if case in chosen]


def _examples(task: Task, settings: Settings, check: str, strategy: st.SearchStrategy[Case]) -> list[Case]:
    """The examples of the search that a check makes with this seed."""
    found: list[Case] = []
    test = given(strategy)(lambda case: found.append(case))
    test = hypothesis.settings(
        max_examples=settings.examples,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        database=None,
        deadline=None,
        derandomize=False,
        verbosity=Verbosity.quiet,
    )(test)
    hypothesis.seed(derive(settings.seed, check, task.name))(test)()
    return found


@dataclass(slots=True)
class Trial:
    """What has become of one wrong kernel so far."""

    kernel: Wrong
    calls: int = 0  # on which it made sense
    differing: int = 0  # of these, with other bits than the reference
    nearest: float = 0.0  # the largest part of the bound that an answer of other bits used
    nearest_call: str = ""
    case: Case | None = None  # that killed it
    why: str = ""
    broke: tuple[Case, str] | None = None  # a case in which it raised, or gave other shapes

    @property
    def lives(self) -> bool:
        """Whether nothing speaks against it yet, neither a case nor algebra."""
        return bool(self.calls) and self.case is None and self.broke is None and self.kernel.equal is None


@dataclass(slots=True)
class Judged:
    """The trials of a task, and what was judged."""

    trials: list[Trial]
    cases: int = 0
    calls: int = 0
    ended: str | None = None
    raised: str | None = None  # what the reference did in one of them
    odd: list[str] = field(default_factory=list)  # cases in which it is wrong itself, or not the same twice

    @property
    def copy(self) -> str | None:
        """Why a verbatim copy of the reference fails. Now and then is no fault: libraries have some, on some CPUs."""
        often = len(self.odd) > NOW_AND_THEN * (self.cases + len(self.odd))
        return self.odd[0] if often else self.raised

    @property
    def left_out(self) -> str | None:
        """What is told of cases in which the reference fails now and then."""
        if not self.odd or self.copy is not None:
            return None
        of = self.cases + len(self.odd)
        return f"{LEFT_OUT} {len(self.odd)} of {of} cases, in which a copy of the reference fails here: {self.odd[0]}"


def judge(task: Task, tolerance: Tolerance, planned: Planned, kernels: Iterable[Wrong], mutants: Mutants) -> Judged:
    """Try every wrong kernel on case after case, until one kills it; and the reference itself, which must live."""
    until = time.thread_time() + SECONDS
    found = Judged([Trial(each) for each in kernels])
    first, further = planned
    for number, case in enumerate((*first, *further)):
        if number == len(first) and not any(each.lives for each in found.trials):
            break
        if time.thread_time() > until:
            found.ended = f"{SECONDS:.0f} s were over after {found.cases} cases; {len(first)} are made for all"
            break
        try:
            asked = [_asked(task, call, tolerance) for call in case.calls]
        except (CaseError, InputsFailed):
            continue
        except ReferenceFailed as error:
            found.raised = found.raised or f"{error}; in {case}"
            continue
        if (problem := _copy(task, asked)) is not None:
            found.odd.append(problem)
            continue
        found.cases += 1
        found.calls += len(asked)
        for each in asked:
            found.trials += [Trial(kernel) for kernel in mutants.found_in(each)]
        for trial in found.trials:
            if trial.case is None:
                _try(trial, case, asked)
    return found


def _asked(task: Task, call: Call, tolerance: Tolerance) -> Asked:
    question = ask(task, call)
    return Asked(call, question, answer(task, call, question, tolerance))


def _copy(task: Task, asked: Sequence[Asked]) -> str | None:
    """Why the reference itself is wrong on one of these calls, or not even the same twice, if it is."""
    for each in asked:
        outputs = rerun(task, each, {})
        if any(apart(again, before) for again, before in zip(outputs, each.right, strict=True)):
            return f"it gives something else when it is run again; in {each.call}"
        if (wrong := next((found for found in _compared(each, outputs) if not found.ok), None)) is not None:
            return f"{_excess(wrong)}; in {each.call}"
    return None


def _try(trial: Trial, case: Case, asked: Sequence[Asked]) -> None:
    """One case: the kernel starts anew, and answers call after call until one answer is wrong."""
    run = trial.kernel.start()
    for each in asked:
        try:
            outputs = run(each)
        except Breaks as error:
            trial.broke = trial.broke or (case, str(error))
            continue
        except (NotHere, ReferenceFailed, InputsFailed, CaseError):
            continue
        trial.calls += any(output.numel() for output in each.right)
        if outputs is None:
            continue
        if not fits(each, outputs):
            trial.case, trial.why = case, "its outputs have other shapes or dtypes"
            return
        if same(outputs, each.right):
            continue
        trial.differing += 1
        compared = _compared(each, outputs)
        if (wrong := next((found for found in compared if not found.ok), None)) is not None:
            trial.case, trial.why = case, _excess(wrong)
            return
        used = max(max(found.ratio or 0.0, found.norm_ratio or 0.0) for found in compared)
        if used >= trial.nearest:
            trial.nearest, trial.nearest_call = used, str(each.call)


def _compared(asked: Asked, outputs: Sequence[Tensor]) -> list[Comparison]:
    judged = zip(outputs, asked.truth.golden, asked.truth.bounds, strict=True)
    return [compare(each, golden, bound, output=index) for index, (each, golden, bound) in enumerate(judged)]


def _excess(found: Comparison) -> str:
    """A failed comparison in a few words."""
    if found.nonfinite:
        return f"{found.nonfinite} of {found.elements} elements are NaN or infinite, or are not, unlike golden"
    if found.wrong:
        times = f", up to {found.ratio:.3g} times what is allowed" if found.ratio and found.allowed else ""
        return f"{found.wrong} of {found.elements} elements are beyond the bound{times}"
    return f"the error's norm is {found.norm_ratio or 0.0:.3g} times what is allowed"


def verdicts(task: Task, trials: Iterable[Trial], reasons: Mapping[str, str]) -> Iterator[Tried]:
    """What became of each wrong kernel that made sense anywhere; `reasons` for which some may be right, by name."""
    for each in trials:
        kernel = each.kernel
        equal = kernel.equal or reasons.get(kernel.name)
        if each.case is not None:
            yield Tried(kernel.kind, kernel.name, kernel.what, "killed", each.why, case=str(each.case))
        elif each.calls and each.broke is not None:
            case, why = each.broke
            yield Tried(kernel.kind, kernel.name, kernel.what, "killed", why, case=str(case))
        elif each.calls and equal is not None:
            why = f"{equal}; no case tells it from the reference"
            yield Tried(kernel.kind, kernel.name, kernel.what, "equivalent", why)
        elif each.calls:
            explained = task.survivors.get(kernel.name)
            yield Tried(
                kernel.kind, kernel.name, kernel.what, "survived", _reason(each), fix=kernel.fix, explained=explained
            )


def redundant(trials: Iterable[Trial]) -> Iterator[Fault]:
    """Operators of the reference that make no difference in any call, and not by algebra."""
    for each in trials:
        site, _, variant = each.kernel.name.partition(" ")
        lived = (
            each.case is None and each.broke is None and each.calls and not each.differing and each.kernel.equal is None
        )
        if lived and variant.startswith("dropped"):
            what = f"{site} makes no difference: without it the reference gives the same, in {each.calls} calls"
            yield Fault("redundant", what, f"{each.kernel.fix}, or leave it out of the reference")


def _reason(trial: Trial) -> str:
    """Why a wrong kernel is taken for right, as far as can be told."""
    if not trial.differing:
        return (
            f"it gives the same bits as the reference in all of {trial.calls} calls: what is wrong with it never shows"
        )
    return (
        f"it differs in {trial.differing} of {trial.calls} calls, by at most {trial.nearest:.2g} of the bound, "
        f"as in {trial.nearest_call}"
    )
