"""One candidate on the bench: its build, the child it runs in, and what it is known to take.

A child that dies is replaced at the next call; the other cases go on. A bench serves one thread at a time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ..build.cache import Store
from ..build.program import prepare
from ..candidate import Candidate
from ..case import Call
from ..options import Settings
from ..oracle.coverage import derive, fixed_cases
from ..oracle.golden import Eager, Golden, eager, golden
from ..oracle.inputs import Arguments, Placed, Plain, draw
from ..oracle.tolerance import Bound, Tolerance, bound
from ..record import Reason
from ..sandbox.host import (
    Child,
    Failure,
    Limits,
    OutputSpec,
    Program,
    Returned,
    Sandbox,
    SandboxError,
    TensorArgument,
    ValueArgument,
)
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
class Answer:
    """One call: its arguments, the truth about it with what is allowed, and what the child gave."""

    call: Call
    arguments: Arguments
    truth: Golden
    bounds: tuple[Bound, ...]
    returned: Returned | Failure


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
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "kbench-call"))

    @property
    def built(self) -> bool:
        """Whether the candidate was not found to be impossible to build or load."""
        return not isinstance(self._program, Failure)

    def serve(self, task: Task) -> None:
        """Grade for this task from now on: the same child, another reference."""
        self.task = task
        if self._child is not None:
            self._child.resume()
        self._taken.clear()

    def rest(self) -> None:
        """Nobody grades for now: what the candidate left running in its child stands still until the next `serve`."""
        if self._child is not None:
            self._child.pause()

    def close(self) -> None:
        """End the child, if one runs, and the thread that waits for it."""
        self._end_child()
        self._thread.shutdown(wait=False)

    def _end_child(self) -> None:
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
            self._end_child()
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

    def call(self, call: Call, hold: int, stages: Stages | None = None) -> Answer:
        """Make one call in the child, and find out the truth about it meanwhile.

        Outputs are held in the child under the number `hold`. Raises `CaseError` and `ReferenceFailed`.
        """
        stages = Stages() if stages is None else stages
        with stages.timed("inputs"):
            arguments = draw(self.task, call)
        with stages.timed("reference"):
            plain = eager(self.task, arguments)
        child = self.child()
        pending = self._thread.submit(self._send, child, arguments, plain, hold)
        try:
            with stages.timed("reference"):
                truth = golden(self.task, arguments, call.dtype, call.seed, plain)
            with stages.timed("bound"):
                made = zip(truth.golden, truth.eager, truth.shaken, truth.terms, strict=True)
                rule = self._tolerance
                free = _has_infinities_alone(arguments)
                bounds = tuple(
                    bound(golden, eager, shaken, rule, terms=terms, indeterminate=free)
                    for golden, eager, shaken, terms in made
                )
            with stages.timed("wait"):
                returned = pending.result()
        except BaseException:  # nobody waits for this child any more: KeyboardInterrupt, a reference that raises
            self._end_child()
            pending.exception()
            raise
        if isinstance(returned, Failure) and returned.reason is Reason.ENVIRONMENT:
            returned = self._again(arguments, plain, hold)
        return Answer(call, arguments, truth, bounds, returned)

    def _again(self, arguments: Arguments, plain: Eager, hold: int) -> Returned | Failure:
        """Once more in a new child, after the sandbox died under a call, which is nobody's fault here."""
        self._end_child()
        returned = self._send(self.child(), arguments, plain, hold)
        if isinstance(returned, Failure) and returned.reason is Reason.ENVIRONMENT:
            raise SandboxError(returned.message)
        return returned

    def _send(self, child: Child | Failure, arguments: Arguments, plain: Eager, hold: int) -> Returned | Failure:
        if isinstance(child, Failure):
            return child
        outputs = [OutputSpec(each.dtype, tuple(each.shape)) for each in plain.outputs[: plain.returned]]
        try:
            return child.call([_sent(each) for each in arguments], outputs, seconds=self.settings.timeout, hold=hold)
        except OSError as error:
            raise SandboxError(f"no shared memory can be had for a call: {error}") from error

    @property
    def _tolerance(self) -> Tolerance:
        given = self.task.tolerance if self.settings.tolerance is None else self.settings.tolerance
        if isinstance(given, Mapping):
            return Tolerance(**given)
        return Tolerance() if given is None else Tolerance(fixed=float(given))

    def release(self) -> None:
        """End of a case: the child may forget the outputs it holds."""
        if self._child is not None and self._child.alive:
            self._child.release()

    def takes(self, dtype: str) -> bool:
        """Whether some plain call in this dtype (a named shape, dense, normal values) raises nothing."""
        if dtype not in self._taken:
            self._taken[dtype] = any(self._goes_through(call) for call in self._plain_calls(dtype))
            self.release()
        return self._taken[dtype]

    def _goes_through(self, call: Call) -> bool:
        returned = self.call(call, hold=0).returned
        return not (isinstance(returned, Failure) and returned.reason is Reason.RAISED)

    def _plain_calls(self, dtype: str) -> list[Call]:
        """One call per named shape, small ones first."""
        calls = (named.case.calls[0] for named in fixed_cases(self.task, self.settings.device, self.settings.seed))
        by_shape = {call.dims: call for call in calls}
        seed = derive(self.settings.seed, "plain", dtype)
        return [
            replace(call, dtype=dtype, layouts=(), plans=(), absent=(), seed=seed)
            for call in sorted(by_shape.values(), key=lambda call: math.prod(size for _, size in call.dims))
        ]


def _has_infinities_alone(arguments: Arguments) -> bool:
    """Whether an input holds an infinity, and none a NaN."""
    floats = [each.values for each in arguments if isinstance(each, Placed) and each.values.is_floating_point()]
    strange = [each for each in floats if each.numel() and not bool(each.sum().isfinite())]
    return any(bool(each.isinf().any()) for each in strange) and not any(bool(each.isnan().any()) for each in strange)


def _sent(argument: Placed | Plain) -> TensorArgument | ValueArgument:
    if isinstance(argument, Placed):
        return TensorArgument(
            argument.name, argument.values, argument.strides, argument.offset, argument.storage, argument.in_place
        )
    return ValueArgument(argument.name, argument.value)
