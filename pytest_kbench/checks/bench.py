"""One candidate on the bench: its build, the child it runs in, and what it is known to take.

A child that dies is replaced at the next call; the other cases go on. A bench serves one thread at a time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ..build.cache import Store
from ..build.program import prepare
from ..candidate import Candidate
from ..case import Call
from ..expression import shape
from ..options import Settings
from ..oracle.golden import Golden, golden
from ..oracle.inputs import Arguments, Placed, draw
from ..record import Reason
from ..sandbox.host import Child, Failure, Limits, OutputSpec, Program, Returned, Sandbox, TensorArgument, ValueArgument
from ..task import Task


class Stages(dict[str, float]):
    """Seconds spent per stage."""

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time of the block to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self[stage] = self.get(stage, 0.0) + time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call ready to be made: its arguments, and the truth about it."""

    call: Call
    arguments: Arguments
    truth: Golden


@dataclass(slots=True)
class Bench:
    """A task, a candidate, and the child between them."""

    task: Task
    candidate: Candidate
    settings: Settings
    sandbox: Sandbox
    store: Store
    _program: Program | Failure | None = None
    _child: Child | None = None
    _taken: dict[str, bool] = field(default_factory=dict)
    _held: int = 0

    def close(self) -> None:
        """End the child, if one runs."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def child(self) -> Child | Failure:
        """A live child with the candidate loaded; builds first if that was not done yet."""
        if self._program is None:
            entry_points = tuple(dict.fromkeys((self.task.function.__name__, "forward")))
            self._program = prepare(
                self.candidate, entry_points, self.sandbox, self.store, self.limits, self.settings.build_timeout
            )
        if isinstance(self._program, Failure):
            return self._program
        if self._child is None or not self._child.alive:
            self.close()
            started = self.sandbox.start(self._program, self.limits, time.monotonic() + self.settings.build_timeout)
            if isinstance(started, Failure):
                if started.reason in (Reason.LOAD, Reason.BINDING):
                    self._program = started  # it would fail in the same way again
                return started
            self._child = started
        return self._child

    @property
    def limits(self) -> Limits:
        """What this candidate's children may use."""
        limits = Limits() if self.settings.memory is None else Limits(memory_bytes=self.settings.memory)
        return replace(limits, threads=self.settings.threads)

    def prepare(self, call: Call, stages: Stages | None = None) -> Prepared:
        """Draw the arguments of a call and compute the truth about it. Raises `CaseError` and `ReferenceFailed`."""
        stages = Stages() if stages is None else stages
        with stages.timed("inputs"):
            arguments = draw(self.task, call)
        with stages.timed("reference"):
            return Prepared(call, arguments, golden(self.task, arguments, call.dtype, call.seed))

    def call(self, prepared: Prepared, hold: int) -> Returned | Failure:
        """Make one call in the child; its outputs are held there under the number `hold`."""
        child = self.child()
        if isinstance(child, Failure):
            return child
        truth = prepared.truth
        outputs = [OutputSpec(each.dtype, tuple(each.shape)) for each in truth.eager[: truth.returned]]
        arguments = [_sent(each) for each in prepared.arguments]
        return child.call(arguments, outputs, seconds=self.settings.timeout, hold=hold)

    def release(self) -> None:
        """End of a case: the child may forget the outputs it holds."""
        if self._child is not None and self._child.alive:
            self._child.release()

    def takes(self, dtype: str) -> bool:
        """Whether a plain call in this dtype (a small dense shape, normal values) goes through without an exception."""
        if dtype not in self._taken:
            returned = self.call(self.prepare(self._plain_call(dtype)), hold=0)
            self.release()
            self._taken[dtype] = not (isinstance(returned, Failure) and returned.reason is Reason.RAISED)
        return self._taken[dtype]

    def _plain_call(self, dtype: str) -> Call:
        from ..oracle.coverage import derive, fixed_cases

        calls = [named.case.calls[0] for named in fixed_cases(self.task, self.settings.device, self.settings.seed)]
        full = [each for each in calls if _is_full(self.task, each)] or calls
        smallest = min(full, key=lambda each: sum(size for _, size in each.dims))
        return replace(
            smallest, dtype=dtype, layouts=(), plans=(), absent=(), seed=derive(self.settings.seed, "plain", dtype)
        )


def _is_full(task: Task, call: Call) -> bool:
    dims = dict(call.dims)
    return all(size(dims) > 0 for each in task.tensors for size in shape(each.shape))


def _sent(argument: Placed | object) -> TensorArgument | ValueArgument:
    if isinstance(argument, Placed):
        return TensorArgument(
            argument.name, argument.values, argument.strides, argument.offset, argument.storage, argument.in_place
        )
    return ValueArgument(argument.name, argument.value)  # type: ignore[attr-defined]
