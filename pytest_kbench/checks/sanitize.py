"""Sanitize: does a sanitizer that watches every access of a C++ candidate find nothing?

The candidate is built once more for each sanitizer that is asked for, and runs in a child that has the runtime in it.
AddressSanitizer sees accesses beside the elements of arguments and outputs, and of all that the candidate allocates;
ThreadSanitizer sees races of `std::thread`. Answers are judged as in every check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ..argument import Tensor
from ..case import DTYPE_NAMES, Call, Case, NamedCase
from ..options import SANITIZERS, Sanitizer, Settings
from ..oracle.coverage import derive, elements, repeats, takes_layout
from ..record import Reason, Record
from ..sandbox.host import Failure
from ..sandbox.sanitizer import UNBORNE
from ..task import Task
from .bench import Bench
from .examine import examine, without_gradients

SMALL: Final = 1 << 16  # elements of a call's arguments
LARGEST: Final = 1 << 20  # the same where threads shall have something to do
LAYOUTS: Final = ("sliced", "offset")  # beside dense: where a vector load goes wrong
SLOWER: Final = 10  # times as long as without: 2 for addresses, 5 to 15 for threads
LARGER: Final = 8  # times as much memory


def cases(task: Task, settings: Settings) -> tuple[NamedCase, ...]:
    """Per sanitizer, shape and dtype a plain call, and one with a backward; for addresses forwards of other layouts."""
    return tuple(
        NamedCase(f"{sanitizer}:{name}", Case((replace(call, seed=derive(settings.seed, task.name, sanitizer, name)),)))
        for sanitizer in settings.sanitize
        for name, call in _calls(task, settings, sanitizer)
    )


def check(bench: Bench, named: NamedCase) -> Record:
    """Make the case's calls under the sanitizer that its id names, or under each that is asked for."""
    asked = [each for each in SANITIZERS if named.id.startswith(f"{each}:")] or bench.settings.sanitize
    if not asked:
        return _not_checked(bench, named, "no sanitizer is asked for.")
    if any(call.grad for call in named.case.calls) and bench.forward_alone:
        return without_gradients(bench, named, "sanitize")
    records = [_under(sanitizer, bench, named) for sanitizer in asked]
    return min(records, key=lambda record: ("failed", "passed", "skipped").index(record.status))


def _calls(task: Task, settings: Settings, sanitizer: Sanitizer) -> Iterator[tuple[str, Call]]:
    """The id and the call of each case."""
    given = task, settings.kind, settings.seed
    named = (*repeats(*given), *(repeats(*given, task.grad) if task.grad else ()))
    plain = [call for each in named for call in each.case.calls]
    for shape in _shapes(task, settings.kind, sanitizer):
        for call in (replace(each, dims=tuple(task.shapes[shape].items())) for each in plain):
            name = ":".join([shape, DTYPE_NAMES[call.dtype], *(["grad"] if call.grad else [])])
            yield name, call
            for layout in LAYOUTS if sanitizer == "address" and not call.grad else ():
                taken = tuple(
                    (each.name, layout)
                    for each in task.tensors
                    if isinstance(each, Tensor) and takes_layout(task, each, layout)
                )
                if taken:
                    yield f"{name}:{layout}", replace(call, layouts=taken)


def _shapes(task: Task, device: str, sanitizer: Sanitizer) -> Sequence[str]:
    """Names of the shapes: for addresses all small ones, for threads the two largest that are affordable."""
    names = sorted(task.graded_shapes(device), key=lambda name: elements(task, name))
    most = SMALL if sanitizer == "address" else LARGEST
    affordable = [name for name in names if elements(task, name) <= most] or names[:1]
    return affordable if sanitizer == "address" else affordable[-2:]


def _under(sanitizer: Sanitizer, bench: Bench, named: NamedCase) -> Record:
    inner = bench.under(sanitizer, _enlarged(bench.settings))
    child = inner.child()
    if isinstance(child, Failure) and child.reason is Reason.UNSUPPORTED:
        return _not_checked(bench, named, child.message)
    if refused := [call.dtype for call in named.case.calls if not bench.takes(call.dtype)]:
        return replace(_not_checked(bench, named, f"it does not take {refused[0]}."), facts={"refuses": refused[0]})
    record = examine(inner, named, "sanitize")
    if isinstance(child, Failure):
        return record
    layers = [f"without {name} ({why})" for name, why in child.layers.refused.items()]
    limits = "; ".join([*layers, f"{UNBORNE}; {SLOWER} times the time, {LARGER} times the memory"])
    record = replace(record, facts={**record.facts, "sanitizer": sanitizer, "limits": limits})
    return replace(record, status="skipped") if record.reason is Reason.UNSUPPORTED else record  # others judge refusals


def _enlarged(settings: Settings) -> Settings:
    """With the time and memory that a sanitizer takes."""
    memory = None if settings.memory is None else settings.memory * LARGER
    return replace(settings, timeout=settings.timeout * SLOWER, memory=memory)


def _not_checked(bench: Bench, named: NamedCase, why: str) -> Record:
    return Record(
        bench.task.name,
        bench.candidate.name,
        "sanitize",
        "skipped",
        Reason.UNSUPPORTED,
        f"not checked: {why}",
        str(named.case),
    )
