"""Timed turns: several calls in a row by one child, between two moments at which nothing of it runs.

The order of a turn is what makes its times worth something (tried: with inputs in sight before the clock, a thread that
polled them claimed 24 times the speed, with every output right):

    the child stands still - inputs are revealed, outputs poisoned, caches flushed - the clock starts - it may go -
    it answers - it is stopped - the clock stops - outputs are read

The times of single calls are the child's own word. Beside them stand two clocks that it cannot touch: the grader's, and
the kernel's count of processor time. Outputs are read from the memory of a process that stands still: no thread of it
can fill them later.
"""

from __future__ import annotations

import ctypes
import math
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import torch

from . import wire
from .buffers import HostBuffer, SharedBuffer, poison
from .calls import Child, contiguous_strides, describe_tensor, describe_value
from .connection import NO_OVERTIME, Connection, Overtime
from .memory import read, tree_of
from .outcome import Failure, OutputSpec, SandboxError, ValueArgument

SHIFT: Final = 256  # bytes by which tensors may be moved within their memory: their alignment stays what it is
SHIFTS: Final = 16
STIRRING: Final = 1e-4  # seconds of processor time that a child may have had since it was stopped
STOPPING: Final = 5.0  # seconds that a child has to stand still after a signal that it cannot refuse

Part = Literal["forward", "before", "backward", "warm"]  # `warm`, on a GPU: one call again and again


@dataclass(frozen=True, slots=True)
class Spec:
    """A dense tensor that calls get or give."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Calls:
    """What is called again and again: tensors and values that go in, and what comes out.

    `cotangents` (by the number of their output), `gradients` and the positions of `leaves` are there where a backward
    is timed.
    """

    arguments: tuple[Spec | ValueArgument, ...]
    outputs: tuple[OutputSpec, ...]
    cotangents: tuple[tuple[int, Spec], ...] = ()
    gradients: tuple[OutputSpec | None, ...] = ()
    leaves: tuple[int, ...] = ()

    @property
    def given(self) -> tuple[Spec, ...]:
        """The tensors whose values the grader writes: arguments, then cotangents."""
        return (*(each for each in self.arguments if isinstance(each, Spec)), *(each for _, each in self.cotangents))


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn, in seconds: what the child `claimed` of each call, and what is known of all of them together.

    `wall` is the grader's clock, from letting the child go until it stood still. `cpu` is processor time of all of the
    child's processes by the kernel's count, `None` where a GPU does the work; `delayed` is how long it was ready to run
    and did not because of others. `beside` is the part of `wall` in which the grader worked itself.
    """

    claimed: tuple[float, ...]
    wall: float
    cpu: float | None
    delayed: float
    beside: float = 0.0


class _Place:
    """Where one dense tensor lies in shared memory: in a buffer of its own, from the byte `begin` on."""

    def __init__(self, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        self.dtype, self.shape, self.begin = dtype, shape, 0
        self.bytes = math.prod(shape) * dtype.itemsize
        self.buffer = HostBuffer(self.bytes + SHIFT * SHIFTS)
        self.buffer.arrange(self.bytes + SHIFT * SHIFTS)

    def tensor(self) -> torch.Tensor:
        """It, in the grader."""
        return self.buffer.tensor(self.dtype, self.shape, contiguous_strides(self.shape), 0, self.begin)

    def described(self) -> dict[str, object]:
        """It, for the wire."""
        return describe_tensor(self.buffer, self.dtype, self.shape, None, 0, self.bytes, self.begin)

    def read(self, begin: int, size: int) -> bytes:
        """A private copy of some of its bytes."""
        return ctypes.string_at(self.buffer.address + self.begin + begin, size)


class Stage:
    """Shared memory for the arguments and outputs of so many calls, in which several children make them in turns.

    Raises `SandboxError` where there is no memory.
    """

    def __init__(self, calls: Calls, count: int) -> None:
        self.calls = calls
        self.count = count
        filled = (*calls.outputs, *(each for each in calls.gradients if each is not None))
        try:
            self._given = [[_Place(each.dtype, each.shape) for each in calls.given] for _ in range(count)]
            self._filled = [[_Place(each.dtype, each.shape) for each in filled] for _ in range(count)]
        except OSError as error:
            raise SandboxError(f"no memory to share with children that are timed: {error}") from error

    def shift(self, chance: random.Random) -> None:
        """Move every tensor a little, by lot: how addresses lie to each other changes times by a per cent and more.

        What is shared with children is the same memory; they are to rehearse again.
        """
        for row in (*self._given, *self._filled):
            for each in row:
                each.begin = SHIFT * chance.randrange(SHIFTS)

    @property
    def buffers(self) -> list[SharedBuffer]:
        """All of its memory."""
        return [each.buffer for row in (*self._given, *self._filled) for each in row]

    def close(self) -> None:
        """Give the memory back; children that have it mapped keep it."""
        for each in self.buffers:
            each.close()

    def given(self, call: int) -> list[torch.Tensor]:
        """The tensors whose values are to be written, shared with the children."""
        return [each.tensor() for each in self._given[call]]

    def poison(self) -> None:
        """Fill every output with what nobody computes."""
        for row in self._filled:
            for each in row:
                poison(each.buffer.data, each.dtype)

    @property
    def arguments(self) -> int:
        """How many of the tensors whose values are written are arguments; cotangents come after them."""
        return len(self.calls.given) - len(self.calls.cotangents)

    def hide_cotangents(self) -> None:
        """Nobody sees them before the backward begins."""
        for row in self._given:
            for each in row[self.arguments :]:
                poison(each.buffer.data, each.dtype)

    def forget(self) -> None:
        """Fill the arguments that no call may write with what nobody drew; a gradient may be a cotangent as it is."""
        arguments = [each for each in self.calls.arguments if isinstance(each, Spec)]
        for row in self._given:
            for each, spec in zip(row, arguments, strict=False):
                if not spec.in_place:
                    poison(each.buffer.data, each.dtype)

    def described(self) -> list[dict[str, object]]:
        """The calls, for the wire."""
        return [self._described(index) for index in range(self.count)]

    def _described(self, call: int) -> dict[str, object]:
        given, filled = iter(self._given[call]), iter(self._filled[call])

        return {
            "arguments": [
                next(given).described() if isinstance(each, Spec) else describe_value(each.value)
                for each in self.calls.arguments
            ],
            "outputs": [next(filled).described() for _ in self.calls.outputs],
            "cotangents": [[index, next(given).described()] for index, _ in self.calls.cotangents],
            "gradients": [None if each is None else next(filled).described() for each in self.calls.gradients],
            "leaves": list(self.calls.leaves),
        }


class Performer:
    """A child that makes the calls of a stage in turns. Between turns nothing of it runs."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self._stage: Stage | None = None
        self._places: tuple[tuple[int, ...], ...] = ()

    @property
    def fills(self) -> bool:
        """Whether it fills outputs in shared memory; else they lie where it says, in its own."""
        return self.child.program.binding == "tvm-ffi"

    def rehearse(self, stage: Stage, seconds: float) -> Failure | None:
        """Get ready for the turns of this stage, and stand still."""
        connection = self.child.connection
        shared = [] if stage is self._stage else stage.buffers
        connection.shared_bytes = sum(each.size for each in stage.buffers)
        body = {"calls": stage.described(), "drop": []}
        reply = connection.request("rehearse", body, time.monotonic() + seconds, wire.Timed, shared)
        if isinstance(reply, Failure):
            return reply
        self._stage = stage
        return connection.stand_still(STOPPING)

    def leave(self) -> None:
        """Forget the stage: its memory is nobody's when the last child has left it."""
        if self._stage is not None:
            leave(self.child.connection, self._stage.buffers)
            self.child.pause()  # what is measured next, it must not disturb
            self._stage = None

    def turn(
        self,
        part: Part,
        seconds: float,
        before: Callable[[], None],
        overtime: float = 0.0,
        count: int | None = None,
    ) -> Turn | Failure:
        """Make the first `count` calls once, or all of them.

        `before` is done when nothing of the child runs any more, before the clock starts.
        """
        assert self._stage is not None, "rehearse comes first"
        connection, count = self.child.connection, self._stage.count if count is None else count
        if (still := connection.stand_still(STOPPING)) is not None:
            return still
        spent = self._spent()
        before()
        cpu, delayed, own = self._spent(), run_delay(connection.pid or 0), processor_time(connection.pid or 0)
        if cpu - spent > STIRRING:
            return connection.breach(f"it ran for {cpu - spent:.2g} s while it was stopped")
        allowed = Overtime(overtime, self.child.program.compiles) if overtime else NO_OVERTIME
        begun = time.perf_counter()
        reply = connection.request(
            "turn", {"part": part, "count": count}, time.monotonic() + seconds, wire.Timed, (), allowed
        )
        if isinstance(reply, Failure):
            return reply
        still = connection.stand_still(STOPPING)
        wall = time.perf_counter() - begun
        if still is not None:
            return still
        cpu, delayed = self._spent() - cpu, run_delay(connection.pid or 0) - delayed
        delayed = waited(delayed, processor_time(connection.pid or 0) - own, cpu, wall, len(connection.cpus))
        if len(reply.nanoseconds) != (0 if part == "before" else count):
            return connection.breach(f"it told of {len(reply.nanoseconds)} calls, where there are {count}")
        self._places = reply.places
        return Turn(tuple(each * 1e-9 for each in reply.nanoseconds), wall, cpu, delayed)

    def _spent(self) -> float:
        """Seconds of processor time of its process and of those that it started, as far as they are alive."""
        connection = self.child.connection
        return sum(map(processor_time, tree_of(connection.pid or 0, connection.zygote)))

    def read(self, part: Part, call: int, output: int, begin: int, size: int) -> bytes:
        """So many bytes of what a call of the last turn gave, as they are; fewer where there is nothing to read.

        Outputs that were returned or filled come first, arguments that are written in place after them; after a
        backward they are gradients, without those of absent arguments.
        """
        stage = self._stage
        assert stage is not None, "rehearse comes first"
        gradients = [each for each in stage.calls.gradients if each is not None]
        due = stage.calls.outputs if part == "forward" else gradients
        if output >= len(due):
            written = [index for index, each in enumerate(stage.calls.given) if each.in_place][output - len(due)]
            return stage._given[call][written].read(begin, size)
        if self.fills:
            skipped = 0 if part == "forward" else len(stage.calls.outputs)
            return stage._filled[call][skipped + output].read(begin, size)
        memory = self.child.connection.memory
        places = self._places[call] if call < len(self._places) else ()
        if memory is None or output >= len(places):
            return b""
        try:
            return os.pread(memory, size, places[output] + begin)
        except (OSError, OverflowError, ValueError):
            return b""


def leave(connection: Connection, buffers: Sequence[SharedBuffer]) -> None:
    """Let a child forget its calls and the memory they were made in. One that does not is killed."""
    body = {"calls": [], "drop": [each.number for each in buffers]}
    if connection.alive and isinstance(
        connection.request("rehearse", body, time.monotonic() + STOPPING, wire.Timed), Failure
    ):
        connection.close()


def waited(delayed: float, own: float, cpu: float, wall: float, cpus: int) -> float:
    """Seconds of a turn that others kept a child from its CPUs, as far as the kernel shows it.

    `delayed` are those that its process was ready to run and did not, of which it may have waited for its own other
    processes: they used `cpu` seconds in all, it `own` of them. Or for its own threads: others had at most what the
    child did not use.
    """
    return min(delayed - (cpu - own), max(0.0, wall * cpus - cpu))


def processor_time(pid: int) -> float:
    """Seconds of processor time of a process, all its threads together: clock_getcpuclockid(3)."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:  # it has ended
        return 0.0


def run_delay(pid: int) -> float:
    """Seconds that the threads of a process were ready to run and did not; 0 where the kernel does not count them."""
    total = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            total += int(read(f"/proc/{pid}/task/{thread}/schedstat").split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return total * 1e-9
