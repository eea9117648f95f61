"""One candidate on the bench: its build, the child it runs in, and what it is known to take.

A child that dies is replaced at the next call; the other cases go on. A bench serves one thread at a time.
"""

from __future__ import annotations

import errno
import math
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from ..argument import Tensor
from ..build.cache import Store
from ..build.program import prepare
from ..candidate import Candidate
from ..case import Call, CaseError
from ..expression import shape
from ..options import Sanitizer, Settings
from ..oracle.coverage import derive, fixed_cases
from ..oracle.golden import Backward, ReferenceFailed
from ..oracle.inputs import InputsFailed, Placed, Plain, TooLarge, can_judge
from ..oracle.tolerance import Tolerance
from ..oracle.truth import Question, Truth, Truths, answer, ask, rule_of
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
    SandboxRefused,
    TensorArgument,
    ValueArgument,
)
from ..sandbox.outcome import NoDeviceMemory
from ..task import Task
from . import gradients
from .timekeeper import Timekeeper

if TYPE_CHECKING:
    from .control import Control

_DISK = re.compile("|".join(map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE))))
BETWEEN = 1 << 10  # added to the number under which outputs are held, for a call within another
REMEMBERED = 64  # calls that a child got last
_SUSPICIOUS = (Reason.LOAD, Reason.BINDING, Reason.RAISED, Reason.CRASHED, Reason.EXITED)


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
    """One call: what was asked, the truth about it, and what the child gave."""

    call: Call
    question: Question
    truth: Truth
    returned: Returned | Failure


@dataclass(slots=True)
class Bench:
    """A task, a candidate, and the child between them."""

    task: Task
    candidate: Candidate
    settings: Settings
    sandbox: Sandbox
    store: Store
    truths: Truths = field(default_factory=Truths)
    ahead: Future[Program | Failure] | None = None  # its build, where that was started before
    sanitizer: Sanitizer | None = None  # that it is built for and runs under
    timekeeper: Timekeeper | None = None  # of whoever lends it
    control: Control | None = None  # once it was needed
    cases: int = 0  # that were graded for this task
    excused: int = 0  # of these, in which the reference is wrong too
    _program: Program | Failure | None = None
    _child: Child | None = None
    _threads: int | None = None  # of the child, if not those of the settings
    _sanitized: dict[Sanitizer, Bench] = field(default_factory=dict)
    _others: dict[int, Child] = field(default_factory=dict)  # that stand still, by their number of threads
    _taken: dict[str, bool] = field(default_factory=dict)
    _gradients: bool | None = None  # whether it gives any
    _through: bool | None = None  # whether a backward of it comes through
    _calls: deque[Call] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _overtime: float = 0.0  # seconds that calls of this candidate may yet take beyond their own for compiling
    _suspected: bool = False  # whether what the candidate keeps was under suspicion: once is enough
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "kbench-call"))

    def __post_init__(self) -> None:
        self._overtime = self.settings.build_timeout

    @property
    def built(self) -> bool:
        """Whether the candidate was not found to be impossible to build or load."""
        return not isinstance(self._program, Failure)

    @contextmanager
    def with_threads(self, count: int) -> Iterator[None]:
        """Make the calls of the block in another child, which has so many threads; the usual one stands still.

        The other one is kept, standing still, until `rest`: the candidate's next case may need it. It may take time of
        its own for compiling, as what it compiles depends on the number of threads.
        """
        self._end_control()  # it has as many threads
        usual, calls, overtime = self._child, self._calls, self._overtime
        if usual is not None:
            usual.pause()
        self._child, self._threads = self._others.pop(count, None), count
        self._calls, self._overtime = deque(maxlen=REMEMBERED), self.settings.build_timeout
        try:
            yield
        finally:
            self._end_control()
            if self._child is not None:
                self._child.pause()
                self._others[count] = self._child
            self._child, self._threads, self._calls, self._overtime = usual, None, calls, overtime
            if usual is not None:
                usual.resume()

    def serve(self, task: Task) -> None:
        """Grade for this task from now on: the same child, another reference."""
        if task.digest != self.task.digest:
            self._end_control()
            self.cases = self.excused = 0
            self._taken.clear()
            self._gradients = self._through = None
        self.task = task
        if self._child is not None:
            self._child.resume()
        for each in self._sanitized.values():
            each.serve(task)

    def rest(self) -> None:
        """Nobody grades for now: what the candidate left running in its child stands still until the next `serve`."""
        self._end_others()
        self._end_control()
        if self._child is not None:
            self._child.pause()
        for each in self._sanitized.values():
            each.rest()

    def close(self) -> None:
        """End its children, and the thread that waits for them."""
        self._end_others()
        self._end_control()
        self._end_child()
        self._thread.shutdown(wait=False)
        for each in self._sanitized.values():
            each.close()

    def under(self, sanitizer: Sanitizer, settings: Settings) -> Bench:
        """The same candidate built for a sanitizer, with a child of its own; `settings` are those of the first call."""
        if sanitizer not in self._sanitized:
            self._sanitized[sanitizer] = Bench(
                self.task, self.candidate, settings, self.sandbox, self.store, self.truths, sanitizer=sanitizer,
                _taken=self._taken,
            )  # fmt: skip
        return self._sanitized[sanitizer]

    def stand_aside(self) -> None:
        """Let nothing of the candidate run while something else is measured."""
        if self._child is not None:
            self._child.pause()

    def timed_children(self, keeper: Timekeeper) -> tuple[Child, ...] | Failure:
        """Other children with the candidate loaded, which are to be timed; the caller closes them."""
        child = self.child()
        if isinstance(child, Failure):
            return child
        self.stand_aside()
        assert isinstance(self._program, Program)
        return keeper.several(self._program, self.limits, self.settings.build_timeout)

    def beside(self, program: Program) -> Bench:
        """Another program before the same judge, with as many threads; the caller closes it."""
        return Bench(
            self.task, self.candidate, self.settings, self.sandbox, self.store, self.truths,
            _program=program, _threads=self._threads,
        )  # fmt: skip

    @property
    def process(self) -> object:
        """What tells its present child from later ones."""
        return self._child

    def renew(self) -> None:
        """Let the next call be the first one of a new child."""
        self._end_child()

    @property
    def history(self) -> tuple[Call, ...]:
        """The last calls that the child has been asked to make, in order."""
        return tuple(self._calls)

    def _end_control(self) -> None:
        if self.control is not None:
            self.control.close()
            self.control = None

    def _end_others(self) -> None:
        for child in self._others.values():
            child.close()
        self._others.clear()

    def _end_child(self) -> None:
        self._calls.clear()
        if self._child is not None:
            self._child.close()
            self._child = None

    def prepare(self) -> Program | Failure:
        """Build the candidate, or take it from the store."""
        entry_points = tuple(dict.fromkeys((self.task.function.__name__, "forward")))
        seconds = self.settings.build_timeout
        return prepare(
            self.candidate, entry_points, self.sandbox, self.store, self.limits, seconds, self.sanitizer,
            self.settings.device,
        )  # fmt: skip

    @property
    def compiles(self) -> bool:
        """Whether the candidate's source names a compiler, so that calls may take longer."""
        return isinstance(self._program, Program) and self._program.compiles

    @property
    def facts(self) -> dict[str, str]:
        """What the candidate's build has to tell."""
        return dict(self._program.facts) if isinstance(self._program, Program) else {}

    def child(self) -> Child | Failure:
        """A live child with the candidate loaded; builds first if that was not done yet."""
        if self._program is None:
            self._program = self.prepare() if self.ahead is None else self.ahead.result()
        if isinstance(self._program, Failure):
            return self._program
        if self._child is None or not self._child.alive:
            self._end_child()
            started = self._started(self._program)
            if isinstance(started, Failure) and self._program.kept is not None and self._suspects(started):
                started = self._started(replace(self._program, kept=None))
            if isinstance(started, Failure):
                if started.reason in (Reason.LOAD, Reason.BINDING):
                    self._program = started  # it would fail in the same way again
                return started
            self._child = started
        return self._child

    def _started(self, program: Program) -> Child | Failure:
        try:
            started = self._start(program)
            lost = isinstance(started, Failure) and started.reason is Reason.ENVIRONMENT
        except SandboxRefused:
            raise
        except SandboxError:
            lost = True
        return self._start(program) if lost else started  # once more, for a zygote that died under it

    def _start(self, program: Program) -> Child | Failure:
        return self.sandbox.start(program, self.limits, time.monotonic() + self.settings.build_timeout)

    def _suspects(self, failure: Failure) -> bool:
        """Whether a failure may be due to what the candidate keeps: corrupt, or on a full disk. True only once."""
        child = self._child
        if child is not None and (child.kept is None or (child.sound and not _DISK.search(failure.message))):
            return False
        suspects = not self._suspected and failure.reason in _SUSPICIOUS
        self._suspected = self._suspected or suspects
        return suspects

    @property
    def limits(self) -> Limits:
        """What this candidate's children may use."""
        limits = Limits() if self.settings.memory is None else Limits(memory_bytes=self.settings.memory)
        return replace(limits, threads=self._threads or self.settings.threads)

    def call(self, call: Call, hold: int, stages: Stages | None = None) -> Answer:
        """Make one call in the child, and find out the truth about it meanwhile.

        Outputs are held in the child under the number `hold`. Raises `CaseError`, `TooLarge`, `InputsFailed` and
        `ReferenceFailed`.
        """
        try:
            return self._called(call, hold, stages)
        except (torch.OutOfMemoryError, NoDeviceMemory) as error:
            first = str(error).partition("\n")[0]
            what = "judging this takes more GPU memory than there is now, beside what others use"
            raise TooLarge(f"{what}: {first}") from None

    def _called(self, call: Call, hold: int, stages: Stages | None) -> Answer:
        stages = Stages() if stages is None else stages
        rule = rule_of(self.task, self.settings)
        known = self.truths.get(self.task, call, rule, self.settings.device)
        if known is None:
            question, truth, returned = self._ask_and_find_out(call, rule, hold, stages)
            self.truths.put(self.task, call, rule, self.settings.device, (question, truth))
        else:
            question, truth = known
            with stages.timed("wait"):
                returned = self._send(self.child(), question, hold)
        if isinstance(returned, Failure) and returned.reason is Reason.ENVIRONMENT:
            returned = self._again(question, hold)
        if isinstance(returned, Failure) and self._child is not None and self._suspects(returned):
            returned = self._without_kept(question, hold)
        if isinstance(returned, Returned) and any(each.numel() for each in question.eager.outputs):
            self._taken[call.dtype] = True  # whatever it refused before: from now on it refuses a shape or a value
        self._calls.append(call)
        return Answer(call, question, truth, returned)

    def _ask_and_find_out(
        self, call: Call, rule: Tolerance, hold: int, stages: Stages
    ) -> tuple[Question, Truth, Returned | Failure]:
        with stages.timed("inputs"):
            question = ask(self.task, call, self.settings.device)
            self.truths.insist_on_steadiness(self.task, question)
        pending = self._thread.submit(self._send, self.child(), question, hold)
        try:
            with stages.timed("reference"):
                truth = answer(self.task, call, question, rule)
            with stages.timed("wait"):
                return question, truth, pending.result()
        except BaseException:  # nobody waits for this child any more: KeyboardInterrupt, a reference that raises
            self._end_child()
            pending.exception()
            raise

    def _again(self, question: Question, hold: int) -> Returned | Failure:
        """Once more in a new child, after the sandbox died under a call, which is nobody's fault here."""
        self._end_child()
        returned = self._send(self.child(), question, hold)
        if isinstance(returned, Failure) and returned.reason is Reason.ENVIRONMENT:
            raise SandboxError(returned.message)
        return returned

    def _without_kept(self, question: Question, hold: int) -> Returned | Failure:
        """Once more in a child that keeps nothing; its successors do again."""
        program = self._program
        if isinstance(program, Program):
            self._program = replace(program, kept=None)
        try:
            return self._again(question, hold)
        finally:
            if isinstance(self._program, Program):
                self._program = program

    def _send(self, child: Child | Failure, question: Question, hold: int) -> Returned | Failure:
        if isinstance(child, Failure):
            return child
        returned = self._forward(child, question, hold)
        backward = question.backward
        if backward is None or isinstance(returned, Failure):
            return returned
        if question.between is not None:
            lost = self._between(child, question.between, hold + BETWEEN)
            if isinstance(lost, Failure) and not child.alive:
                return replace(lost, message=f"in a small call between forward and backward: {lost.message}")
        joined = self._backward(child, question, backward, returned, hold)
        if isinstance(joined, Failure):
            return joined
        again = child.reread(hold, seconds=self.settings.timeout)
        return again if isinstance(again, Failure) else gradients.compared(joined, again)

    def _forward(self, child: Child, question: Question, hold: int, *, apart: bool = False) -> Returned | Failure:
        plain = question.eager
        outputs = [OutputSpec(each.dtype, tuple(each.shape)) for each in plain.outputs[: plain.returned]]
        sent = [_sent(each) for each in question.arguments]
        leaves = () if question.backward is None else question.backward.leaves
        names = [each.name for each in sent]
        places = [names.index(each) for each in leaves]
        return self._in_time(
            lambda seconds, overtime: child.call(
                sent, outputs, seconds=seconds, hold=hold, overtime=overtime, leaves=places, apart=apart
            )
        )

    def _backward(
        self, child: Child, question: Question, backward: Backward, returned: Returned, hold: int
    ) -> Returned | Failure:
        due = gradients.due(self.task, question, explicit=child.has_backward)
        starts = gradients.starts(question)
        given = self._in_time(
            lambda seconds, overtime: child.backward(
                starts, [spec for _, spec in due], seconds=seconds, hold=hold, overtime=overtime, how=backward.how
            )
        )
        return gradients.joined(returned, given, due, backward)

    def _between(self, child: Child, question: Question, hold: int) -> Returned | Failure:
        """Another forward and its backward, on arguments in memory of their own."""
        returned = self._forward(child, question, hold, apart=True)
        if isinstance(returned, Failure) or question.backward is None:
            return returned
        return self._backward(child, question, question.backward, returned, hold)

    def _in_time(self, ask: Callable[[float, float], Returned | Failure]) -> Returned | Failure:
        """Ask the child something within the time of a call, and what may yet be spent on compiling."""
        begun = time.monotonic()
        try:
            return ask(self.settings.timeout, self._overtime)
        except OSError as error:
            raise SandboxError(f"no shared memory can be had for a call: {error}") from error
        finally:
            self._overtime -= min(self._overtime, max(0.0, time.monotonic() - begun - self.settings.timeout))

    def release(self) -> None:
        """End of a case: the child may forget the outputs it holds."""
        if self._child is not None and self._child.alive:
            self._child.release()

    def takes(self, dtype: str) -> bool:
        """Whether some plain call in this dtype (a named shape, dense, normal values) raises nothing."""
        if dtype not in self._taken:
            self._taken[dtype] = any(self._goes_through(call) for call in self.plain_calls(dtype))
            self.release()
        return self._taken[dtype]

    @property
    def gives_gradients(self) -> bool:
        """Whether some plain call has a gradient, or should have one; else the candidate is a forward alone.

        One that cannot even be called is none: its cases will say why.
        """
        child = self.child()
        if isinstance(child, Child) and child.has_backward:
            return True
        if self._gradients is None:
            graph = isinstance(child, Child) and child.has_graph
            try:
                tried = graph and any(map(gradients.tries, self._differentiated()))
                self._gradients = tried or not any(map(self.takes, self.task.dtypes))
            except (ReferenceFailed, InputsFailed, CaseError):
                return True  # it is the task that gives none, as each case will say
            self.release()
        return self._gradients

    @property
    def differentiates(self) -> bool:
        """Whether the backward of some plain call comes through."""
        if self._through is None:
            self._through = any(isinstance(each, Returned) for each in self._differentiated())
            self.release()
        return self._through

    def _differentiated(self) -> Iterator[Returned | Failure]:
        """The answers to plain calls with a backward to all that the task declares."""
        leaves = tuple(self.task.grad)
        for call in (call for dtype in self.task.dtypes for call in self.plain_calls(dtype)):
            yield self.call(replace(call, grad=leaves), hold=0).returned

    @property
    def forward_alone(self) -> bool:
        """Whether the candidate can be called, and gives no gradients."""
        return not isinstance(self.child(), Failure) and not self.gives_gradients

    def _goes_through(self, call: Call) -> bool:
        returned = self.call(call, hold=0).returned
        return not (isinstance(returned, Failure) and returned.reason is Reason.RAISED)

    def plain_calls(self, dtype: str) -> list[Call]:
        """One call per named shape that is not empty, small ones first."""
        calls = (named.case.calls[0] for named in fixed_cases(self.task, self.settings.kind, self.settings.seed))
        by_shape = {call.dims: call for call in calls}
        seed = derive(self.settings.seed, "plain", dtype)
        return [
            replace(call, dtype=dtype, layouts=(), plans=(), absent=(), seed=seed)
            for call in sorted(by_shape.values(), key=lambda call: math.prod(size for _, size in call.dims))
            if not self._is_empty(dict(call.dims))  # nothing has no dtype to be refused
            and can_judge(self.task, call, self.settings.device)
        ]

    def _is_empty(self, dims: Mapping[str, int]) -> bool:
        inputs = (each for each in self.task.tensors if isinstance(each, Tensor))
        return any(extent(dims) == 0 for each in inputs for extent in shape(each.shape))


def _sent(argument: Placed | Plain) -> TensorArgument | ValueArgument:
    if isinstance(argument, Placed):
        return TensorArgument(
            argument.name, argument.values, argument.strides, argument.offset, argument.storage, argument.in_place
        )
    return ValueArgument(argument.name, argument.value)
