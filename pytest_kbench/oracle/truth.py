"""The truth about one call, and a memory of it: all candidates of a task are judged by the same calls in one run."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from ..case import NESTED, Call
from ..options import Settings
from ..task import Task
from .coverage import another, derive
from .golden import Backward, Eager, ReferenceFailed, coarser, eager, golden, rounded, unsteady
from .inputs import Arguments, Placed, cotangents, draw
from .precision import allowed
from .tolerance import Bound, Tolerance, bound


def rule_of(task: Task, settings: Settings) -> Tolerance:
    """The tolerance by which answers to this task are judged: the run's, or else the task's own."""
    given = task.tolerance if settings.tolerance is None else settings.tolerance
    if isinstance(given, Mapping):
        return Tolerance(**given)
    return Tolerance() if given is None else Tolerance(fixed=float(given))


@dataclass(frozen=True, slots=True)
class Question:
    """What a candidate is asked: its arguments, and what eager gives for them (so that outputs can be specified).

    With a `backward`, its gradients are among eager's outputs; `between` its forward and that may come another
    question, whose answer counts for nothing.
    """

    arguments: Arguments
    eager: Eager
    backward: Backward | None = None
    between: Question | None = None


@dataclass(frozen=True, slots=True)
class Truth:
    """What a call must give, per output: golden, and what is allowed around it."""

    golden: tuple[torch.Tensor, ...]
    bounds: tuple[Bound, ...]


def ask(task: Task, call: Call, device: str = "cpu", *, judged: bool = True) -> Question:
    """Draw the arguments and run the reference in the working dtype, on a device as torch names it.

    Raises `CaseError` if the call does not fit the task, `InputsFailed`, `ReferenceFailed`, and `TooLarge` if it is to
    be `judged`, and that takes more memory than the device has.
    """
    arguments = draw(task, call, device, judged=judged)
    plain = eager(task, arguments)
    if not call.grad:
        return Question(arguments, plain)
    there = {each.name for each in arguments if isinstance(each, Placed)}
    leaves = tuple(name for name in task.grad if name in call.grad and name in there)
    backward = Backward(leaves, cotangents(call, plain.outputs[: plain.returned]), call.backward)
    between = ask(task, another(task, call), device) if call.backward == NESTED else None
    return Question(arguments, eager(task, arguments, backward), backward, between)


def answer(task: Task, call: Call, question: Question, rule: Tolerance) -> Truth:
    """Golden for a question, with its bounds. Raises `ReferenceFailed`."""
    backward = question.backward
    found = golden(task, question.arguments, call.dtype, call.seed, question.eager, backward)
    mode = allowed(task, derive(call.seed, "coarse"))
    coarse: tuple[torch.Tensor | None, ...] = (None,) * len(found.golden)
    if mode is not None:
        coarse = coarser(task, question.arguments, mode, backward)
    elif call.dtype in HALF and (found.kinks or backward is not None or any(map(_flat, found.golden))):
        coarse = rounded(task, question.arguments, call.dtype, call.seed, backward, found.golden, found.weights)
        if not found.kinks:
            count = question.eager.returned
            flat = (each if _flat(exact) else None for each, exact in zip(coarse, found.golden, strict=True))
            coarse = (*flat,) if backward is None else (*flat,)[:count] + coarse[count:]
    moving = found.contested or (None,) * len(found.golden)
    starts = _starts(question, found.golden)
    made = zip(found.golden, found.eager, found.shaken, found.terms, coarse, moving, starts, strict=True)
    free = _has_infinities_alone(question.arguments)
    telling = backward is None and found.summed >= FEW and all(plan in CONTINUOUS for _, plan in call.plans)
    alike = any(plan in ALIKE for _, plan in call.plans)
    vast = any(plan in VAST for _, plan in call.plans)
    bounds = tuple(
        bound(
            golden,
            eager,
            shaken,
            rule,
            terms=terms,
            indeterminate=free,
            telling=telling,
            alike=alike,
            coarse=rough,
            vast=vast,
            contested=moved,
            start=start,
        )
        for golden, eager, shaken, terms, rough, moved, start in made
    )
    return Truth(found.golden, bounds)


def bounds_of(task: Task, call: Call, device: str, settings: Settings) -> tuple[float, ...]:
    """Per output the widest bound of an element in one call. Raises what `ask` and `answer` raise."""
    truth = answer(task, call, ask(task, call, device), rule_of(task, settings))
    return tuple(widest(each) for each in truth.bounds)


def widest(bound: Bound) -> float:
    """The widest finite bound of an element."""
    finite = bound.elementwise[bound.elementwise.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


def _starts(question: Question, golden: Sequence[torch.Tensor]) -> tuple[float | None, ...]:
    """Per output how large a part of it may be, if it is a gradient: a cotangent or a gradient, times an input."""
    plain, backward = question.eager, question.backward
    if backward is None:
        return (None,) * len(plain.outputs)
    made = (*(each.values for each in backward.cotangents), *golden[plain.returned :])
    inputs = (each.values for each in question.arguments if isinstance(each, Placed))
    start = max(map(_largest, made), default=0.0) * max((1.0, *map(_largest, inputs)))
    return (*(None,) * plain.returned, *(start,) * len(backward.leaves))


HALF = ("float16", "bfloat16")
FLAT = 2.0**-6  # of the largest element


def _flat(values: torch.Tensor) -> bool:
    """Whether all elements are alike: none shows then how large parts were that cancelled, a product and a bias."""
    if values.numel() < 2 or not values.is_floating_point():
        return False
    low, high = torch.aminmax(values)
    return bool((high - low).abs() <= FLAT * torch.maximum(high.abs(), low.abs()))


def _largest(values: torch.Tensor) -> float:
    return float(values.abs().amax().nan_to_num()) if values.is_floating_point() and values.numel() else 0.0


FEW = 8  # terms: sums of fewer are often exact, as the mean of two numbers and what they differ from it by
VAST = ("huge", "extreme")  # value plans whose squares overflow
ALIKE = ("constant", "levels", "ties")  # value plans with equal summands
CONTINUOUS = (
    "normal",
    "wide",
    "shifted",
    "scaled",
    "sorted",
    "levels",
)  # value plans under which no sum is exact by luck


def _has_infinities_alone(arguments: Arguments) -> bool:
    """Whether an input holds an infinity, and none a NaN."""
    floats = [each.values for each in arguments if isinstance(each, Placed) and each.values.is_floating_point()]
    strange = [each for each in floats if each.numel() and not bool(each.sum().isfinite())]
    return any(bool(each.isinf().any()) for each in strange) and not any(bool(each.isnan().any()) for each in strange)


Known = tuple[Question, Truth]
Key = tuple[Task, str, Tolerance, str]


class Truths:
    """The truths about the last calls, up to `most_bytes` of tensors; safe to share between threads."""

    def __init__(self, most_bytes: int = 256 << 20) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._steady: set[Task] = set()
        self._known: OrderedDict[Key, tuple[Known, int]] = OrderedDict()
        self._lock = threading.Lock()

    def insist_on_steadiness(self, task: Task, question: Question) -> None:
        """Raise `ReferenceFailed` where a task's reference gives something else when it runs again.

        That is tried until some call that computes anything gives the same twice.
        """
        if task in self._steady or not any(each.numel() for each in question.eager.outputs):
            return
        plain = question.eager
        forward = replace(plain, outputs=plain.outputs[: len(plain.outputs) - _leaves(question)])
        if (problem := unsteady(task, question.arguments, forward)) is not None:
            raise ReferenceFailed(problem)
        self._steady.add(task)

    def get(self, task: Task, call: Call, rule: Tolerance, device: str) -> Known | None:
        """What is known of this call."""
        with self._lock:
            found = self._known.get(_key(task, call, rule, device))
            return None if found is None else found[0]

    def put(self, task: Task, call: Call, rule: Tolerance, device: str, known: Known) -> None:
        """Remember a call; the oldest are forgotten for it."""
        size = sum(each.nbytes for each in _tensors(known))
        key = _key(task, call, rule, device)
        with self._lock:
            if size > self._most or key in self._known:
                return
            self._known[key] = known, size
            self._bytes += size
            while self._bytes > self._most:
                self._bytes -= self._known.popitem(last=False)[1][1]


def _leaves(question: Question) -> int:
    return 0 if question.backward is None else len(question.backward.leaves)


def _key(task: Task, call: Call, rule: Tolerance, device: str) -> Key:
    return task, str(call), rule, device


def _tensors(known: Known) -> Iterator[torch.Tensor]:
    question, truth = known
    if question.between is not None:
        yield from _tensors((question.between, Truth((), ())))
    yield from (each.values for each in question.arguments if isinstance(each, Placed))
    yield from question.eager.outputs
    yield from truth.golden
    for made in truth.bounds:
        yield made.elementwise
        yield from (each for each in (made.accepts, made.centre) if each is not None)
