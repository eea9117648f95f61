"""Timed turns on a GPU: calls of one child, between two readings of the grader's clock. See `turns`.

Kernels that are under way go on when a process is stopped, so the order is another one than on a CPU:

    the child stands still - caches are flushed, outputs poisoned - the clock starts - inputs are revealed - it may go -
    it answers - the grader looks at some places of every output - the clock stops - outputs are copied

A kernel that was left waiting for inputs sees none before the clock runs, and what is not done when the child answers
is missing in some place. All memory that is looked at is the grader's own.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from ..record import Reason
from . import driver, wire
from .buffers import LINE, DeviceBuffer, mislead, poison
from .calls import Child, describe_tensor, describe_value, settle
from .connection import NO_OVERTIME, Overtime
from .outcome import Failure, NoDeviceMemory, OutputSpec
from .turns import STOPPING, Calls, Part, Spec, Turn, leave

OVERLAP: Final = "its calls overlap: what one of them begins goes on while the next one runs"
IMPOSSIBLE_PLACE: Final = "it told of outputs where none can be"
ALIGNED: Final = 512  # bytes, as torch's allocator has it
LOOKS: Final = 8  # lines of each output that are looked at while the clock runs
LARGE: Final = 1 << 30  # bytes that an arena has at most beyond what outputs need
HIDDEN: Final = 0x55  # of all bytes of inputs that nobody may see yet
LONG: Final = 1 << 20  # bytes of a tensor, from which on it is copied by itself: not as lines of many
SPARE_ARENA: Final = 64 << 20  # bytes for what calls need beside their outputs, at least


class Row:
    """One tensor of every call, each `step` bytes after the one before."""

    def __init__(self, spec: Spec | OutputSpec, begin: int, count: int) -> None:
        self.dtype, self.shape, self.begin, self.count = spec.dtype, spec.shape, begin, count
        self.elements = math.prod(spec.shape)
        self.bytes = self.elements * spec.dtype.itemsize
        self.lines = -(-self.bytes // LINE) or 1
        self.step = -(-max(self.bytes, 1) // ALIGNED) * ALIGNED

    @property
    def end(self) -> int:
        """Where the next row may begin."""
        return self.begin + self.step * self.count

    def place(self, device: torch.device) -> None:
        """Know on the device where each call's begins."""
        self.begins = torch.arange(self.count, device=device) * self.step + self.begin

    def over(self, memory: torch.Tensor) -> torch.Tensor:
        """All of it in flat bytes: one flat tensor per call."""
        whole = memory[self.begin : self.end].view(self.dtype).view(self.count, -1)
        return whole[:, : self.elements]

    def described(self, buffer: DeviceBuffer) -> dict[str, object]:
        """The first call's, for the wire."""
        first = describe_tensor(buffer, self.dtype, self.shape, None, 0, self.bytes, self.begin)
        return {**first, "step": self.step}


class GpuStage:
    """Memory of a GPU for the arguments and outputs of so many calls, which both children open.

    Values are written to memory of the grader's alone first: `hidden`, one flat tensor per call for each tensor that is
    given. Raises `NoDeviceMemory` where there is no memory.
    """

    def __init__(self, calls: Calls, count: int, device: torch.device) -> None:
        self.calls, self.count, self.device = calls, count, device
        self.short = max(1, count // 4)
        gradients = tuple(each for each in calls.gradients if each is not None)
        specs: tuple[Spec | OutputSpec, ...] = (*calls.given, *calls.outputs, *gradients)
        rows: list[Row] = []
        for spec in specs:
            rows.append(Row(spec, rows[-1].end if rows else 0, count))
        self._given, self._filled = rows[: len(calls.given)], rows[len(calls.given) :]
        self._inputs = self._given[-1].end if self._given else 0
        size = rows[-1].end if rows else 0
        outputs = sum(each.end - each.begin for each in self._filled)
        self.room = outputs + min(outputs, LARGE) + SPARE_ARENA
        try:
            self.buffer = DeviceBuffer(size, device)
            self._hidden = torch.empty(self._inputs, dtype=torch.uint8, device=device)
        except (driver.NoMemory, torch.OutOfMemoryError) as error:
            raise NoDeviceMemory(f"no memory of {device} to share with children that are timed: {error}") from error
        self.buffer.arrange(size)
        self.hidden = [each.over(self._hidden) for each in self._given]
        for each in rows:
            each.place(device)

    @staticmethod
    def bytes_of(calls: Calls) -> int:
        """Of one call, about."""
        specs: list[Spec | OutputSpec] = [*calls.given, *calls.outputs]
        specs += [each for each in calls.gradients if each is not None]
        return sum(math.prod(each.shape) * each.dtype.itemsize for each in specs)

    @property
    def bytes(self) -> int:
        """Of one call."""
        return self.bytes_of(self.calls)

    def reveal(self, part: Part = "forward") -> None:
        """Let the children see the values that a part of the calls needs: cotangents are not seen before a backward."""
        arguments = len(self._given) - len(self.calls.cotangents)
        start = self._given[arguments].begin if self.calls.cotangents else self._inputs
        begin, end = {"before": (0, start), "backward": (start, self._inputs)}.get(part, (0, self._inputs))
        self.buffer.data[begin:end].copy_(self._hidden[begin:end])
        if part == "before":
            mislead(self.buffer.data[start : self._inputs], torch.float32)

    def hide(self) -> None:
        """Let nobody find the values of the turn before: the other arm is to get the same."""
        self.buffer.data[: self._inputs].fill_(HIDDEN)

    def poison(self, part: Part) -> None:
        """Fill what a part of the calls fills with what nobody computes; a backward may need the outputs."""
        count = len(self.calls.outputs)
        for each in self._filled[count:] if part == "backward" else self._filled[:count]:
            poison(self.buffer.data[each.begin : each.end], each.dtype)

    def settle_cache(self) -> None:
        """Let no line of the last-level cache stay longer than others, whatever kernels asked for."""
        driver.settle_cache(self.device.index or 0)

    def written(self, calls: Sequence[int]) -> str | None:
        """The name of an argument of these calls that is not what it was, and may not be written."""
        for row, hidden, spec in zip(self._given, self.hidden, self.calls.given, strict=True):
            there = row.over(self.buffer.data)
            if not spec.in_place and not all(_same(there[each], hidden[each]) for each in _runs(calls)):
                return spec.name
        return None

    def due(self, part: Part) -> list[Row]:
        """What a part of the calls fills: outputs, then arguments that are written in place; or gradients."""
        if part == "backward":
            return self._filled[len(self.calls.outputs) :]
        in_place = [row for row, spec in zip(self._given, self.calls.given, strict=True) if spec.in_place]
        return [*self._filled[: len(self.calls.outputs)], *in_place]

    def described(self, part: Part) -> dict[str, object]:
        """The calls, for the wire: the first one, and how far the others are from it."""
        given, filled = iter(self._given), iter(self._filled)
        calls = self.calls
        return {
            "count": self.count,
            "short": self.short,
            "part": part,
            "arguments": [
                next(given).described(self.buffer) if isinstance(each, Spec) else describe_value(each.value)
                for each in calls.arguments
            ],
            "outputs": [next(filled).described(self.buffer) for _ in calls.outputs],
            "cotangents": [[index, next(given).described(self.buffer)] for index, _ in calls.cotangents],
            "gradients": [None if each is None else next(filled).described(self.buffer) for each in calls.gradients],
            "leaves": list(calls.leaves),
        }


def _runs(calls: Sequence[int]) -> list[slice]:
    """Numbers in ascending order, as slices of those that follow each other."""
    breaks = [0, *(at for at in range(1, len(calls)) if calls[at] != calls[at - 1] + 1), len(calls)]
    return [slice(calls[a], calls[b - 1] + 1) for a, b in itertools.pairwise(breaks) if b > a]


def _same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    return torch.equal(_bits(ours), _bits(theirs))


def _bits(values: torch.Tensor) -> torch.Tensor:
    size = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[values.dtype.itemsize]
    return values.view(size)


@dataclass(frozen=True, slots=True)
class Staged:
    """A child's word on a stage: whether its calls are a graph, and seconds that it takes to issue one."""

    captured: bool
    issuing: float


@dataclass(frozen=True, slots=True)
class _Lies:
    """Where an output of each call begins in the arena, -1 where it was filled instead; nothing if all were."""

    begins: torch.Tensor | None = None
    known: tuple[int, ...] = ()  # the same numbers
    everywhere: bool = False  # in the arena


@dataclass(frozen=True, slots=True)
class Watch:
    """What is looked at in a turn, the same for both arms: some lines of each output, and all of these calls."""

    lines: tuple[torch.Tensor, ...]
    whole: tuple[int, ...] = ()

    @classmethod
    def drawn(cls, rows: Sequence[Row], chance: random.Random, device: torch.device, whole: Sequence[int]) -> Watch:
        """A few lines of each row by lot, the last one too: most kernels go from front to back."""
        lots = ({chance.randrange(row.lines) for _ in range(LOOKS)} | {row.lines - 1} for row in rows)
        return cls(tuple(torch.tensor(sorted(each)).to(device) for each in lots), tuple(whole))


class GpuPerformer:
    """A child that makes the calls of a stage in turns. Between turns nothing of it runs on a CPU."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self._stage: GpuStage | None = None
        self._arena: DeviceBuffer | None = None
        self._lies: list[_Lies] = []  # per output
        self.outputs: list[torch.Tensor] = []  # of calls of the last turn, one flat tensor each
        self.seen: list[torch.Tensor] = []  # lines of each output of all of its calls, while the clock ran

    @property
    def fills(self) -> bool:
        """Whether it fills what is there for its outputs."""
        return self.child.program.binding == "tvm-ffi"

    def rehearse(
        self, stage: GpuStage, part: Part, seconds: float, overtime: float, *, capture: bool
    ) -> Staged | Failure:
        """Get ready for the turns of this stage, with values that are there now, and stand still."""
        self.leave()
        connection = self.child.connection
        try:
            arena = DeviceBuffer(stage.room, stage.device)
        except driver.NoMemory as error:
            raise NoDeviceMemory(f"no memory of {stage.device} for outputs of children: {error}") from error
        arena.arrange(stage.room)
        mislead(arena.data, torch.float32)
        settle(stage.device)
        body = {**stage.described(part), "capture": capture, "arena": arena.number, "room": stage.room, "drop": []}
        allowed = Overtime(overtime, self.child.program.compiles) if overtime else NO_OVERTIME
        self._stage, self._arena = stage, arena
        self._lies = [_Lies() for _ in stage.due(last_of(part))]
        new = [stage.buffer, arena]
        reply = connection.request("stage", body, time.monotonic() + seconds, wire.Staged, new, allowed)
        if isinstance(reply, Failure):
            return reply
        if reply.issuing * 1e-9 * stage.count > seconds:
            return connection.breach("issuing its calls would take longer than they may")
        if not reply.apart:
            return connection.failed(Reason.CLOCK, OVERLAP)
        if reply.captured and not self._learns(last_of(part), reply.places, stage.count):
            return connection.breach(IMPOSSIBLE_PLACE)
        still = connection.stand_still(STOPPING)
        return still or Staged(reply.captured, reply.issuing * 1e-9)

    def leave(self) -> None:
        """Forget the stage: its memory is nobody's when the last child has left it."""
        if self._stage is not None and self._arena is not None:
            leave(self.child.connection, [self._stage.buffer, self._arena])
            self._stage = self._arena = None

    def turn(
        self,
        part: Part,
        seconds: float,
        before: Callable[[], None],
        reveal: Callable[[], None],
        count: int,
        hold: float = 0.0,
        watch: Watch | None = None,
    ) -> Turn | Failure:
        """Make the first `count` calls once. What is no graph is held for so many seconds.

        `before` is done when nothing of the child runs on a CPU any more, before the clock starts, `reveal` after that.
        `seen` and `outputs` are what was to be looked at then: without `watch` a few lines.
        """
        connection, device = self.child.connection, self.stage.device
        if (still := connection.stand_still(STOPPING)) is not None:
            return still
        before()
        connection.resume()  # it sees no values yet; waking it is no part of what is timed
        settle(device)
        begun = time.perf_counter()
        reveal()
        settle(device)
        revealed = time.perf_counter()
        body, deadline = {"part": part, "count": count, "hold": round(hold * 1e9)}, time.monotonic() + seconds
        reply = connection.request("turn", body, deadline, wire.Timed, awake=True)
        answered = time.perf_counter()
        if isinstance(reply, Failure):
            return reply
        due = [] if part in ("before", "warm") else self.stage.due(part)
        if due and reply.places and not self._learns(part, reply.places, count):
            return connection.breach(IMPOSSIBLE_PLACE)
        pairs = list(zip(self._lies, due, strict=False))
        watch = watch or Watch.drawn([row for _, row in pairs], random.SystemRandom(), device, ())
        looks = watch.lines[: len(pairs)]
        seen = [self._gathered(lies, row, count, look) for (lies, row), look in zip(pairs, looks, strict=True)]
        settle(device)
        ended = time.perf_counter()
        if (still := connection.stand_still(STOPPING)) is not None:
            return still
        if len(reply.nanoseconds) != 1:
            return connection.breach("it told of other times than that of its turn")
        later = (self._gathered(lies, row, count, look) for (lies, row), look in zip(pairs, looks, strict=True))
        if not all(map(torch.equal, seen, later)):
            text = "outputs of timed calls were not finished when it said that they were"
            return connection.failed(Reason.CLOCK, text)
        self.seen = [_elements_in(row, look, each) for (_, row), look, each in zip(pairs, looks, seen, strict=True)]
        self.outputs = [self._copied(lies, row, watch.whole) for lies, row in pairs]
        claimed = (max(reply.nanoseconds[0], 1) * 1e-9 / count,) * count
        return Turn(claimed, ended - begun, None, 0.0, beside=(revealed - begun) + (ended - answered))

    def poison(self, part: Part) -> None:
        """Fill what the next turn will give, as far as that is known, with what nobody computes."""
        assert self._arena is not None, "rehearse comes first"
        self.stage.poison(part)
        for lies, row in zip(self._lies, [] if part == "before" else self.stage.due(part), strict=False):
            if row.bytes >= LONG:
                own = [self._arena.data[at : at + row.bytes] for at in lies.known if at >= 0]
                if own:
                    own[0].fill_(0xFF)
                    torch._foreach_copy_(own, own[:1] * len(own))
            elif lies.begins is not None:
                inside = lies.begins if lies.everywhere else lies.begins[lies.begins >= 0]
                places = torch.arange(row.lines, device=inside.device)
                _lines(self._arena.data).index_fill_(0, _indices(inside, places), -1)

    @property
    def stage(self) -> GpuStage:
        """What it was shown last."""
        assert self._stage is not None, "rehearse comes first"
        return self._stage

    def _learns(self, part: Part, places: Sequence[Sequence[int]], count: int) -> bool:
        """Take in where outputs of so many calls lie, as the child says; whether that can be."""
        stage = self.stage
        lies: list[_Lies] = []
        written = sum(each.in_place for each in stage.calls.given) if part == "forward" else 0
        rows = stage.due(part)
        for output, row in enumerate(rows):
            if self.fills or output >= len(rows) - written:
                lies.append(_Lies())
                continue
            if len(places) != count or any(len(each) <= output for each in places):
                return False
            told = torch.tensor([each[output] - 1 for each in places], dtype=torch.int64)
            inside = told >= 0
            if bool((inside & ((told % LINE != 0) | (told > stage.room - row.lines * LINE))).any()):
                return False
            known = tuple(told.tolist())
            lies.append(_Lies(told.to(stage.device), known, bool(inside.all())) if bool(inside.any()) else _Lies())
        self._lies = lies
        return True

    def _copied(self, lies: _Lies, row: Row, calls: Sequence[int]) -> torch.Tensor:
        """A private copy of one output of these calls, one flat tensor each."""
        assert self._arena is not None
        stage, arena = self.stage.buffer.data, self._arena.data
        copy = torch.empty((len(calls), row.bytes), dtype=torch.uint8, device=stage.device)
        targets = list(copy.unbind())
        known = [lies.known[each] if lies.known else -1 for each in calls]
        filled = (row.begin + each * row.step for each in calls)
        sources = [
            arena[at : at + row.bytes] if at >= 0 else stage[other : other + row.bytes]
            for at, other in zip(known, filled, strict=True)
        ]
        if targets:
            torch._foreach_copy_(targets, sources)
        return copy.view(row.dtype)

    def _gathered(self, lies: _Lies, row: Row, count: int, places: torch.Tensor) -> torch.Tensor:
        """A private copy of some places of one output of so many calls: words of 8 bytes, one row for each.

        By the same kernel wherever it lies: what that costs must not depend on who is looked at.
        """
        assert self._arena is not None
        stage, arena = self.stage.buffer.data, self._arena.data
        filled = row.begins[:count]
        if lies.begins is None:
            return _taken(stage, filled, places)
        begins = lies.begins[:count]
        if lies.everywhere:
            return _taken(arena, begins, places)
        own = _taken(arena, begins.clamp(min=0), places)
        return torch.where((begins >= 0)[:, None], own, _taken(stage, filled, places))


def _lines(memory: torch.Tensor) -> torch.Tensor:
    """Flat bytes in lines that are copied together."""
    return memory[: memory.numel() // LINE * LINE].view(torch.int64).view(-1, LINE // 8)


def _taken(memory: torch.Tensor, begins: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return _lines(memory).index_select(0, _indices(begins, places)).view(begins.numel(), -1)


def _indices(begins: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Numbers of lines of a memory: these of each tensor that begins there."""
    return (begins[:, None] // LINE + places).view(-1)


def _elements_in(row: Row, lines: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """What was seen as elements, one row for each call: the last of all lines may end later than the tensor."""
    size = row.dtype.itemsize
    beyond = row.lines * LINE // size - row.elements if int(lines[-1]) == row.lines - 1 else 0
    flat = seen.contiguous().view(row.dtype)
    return flat[:, : flat.shape[1] - beyond]


def last_of(part: Part) -> Part:
    """The part of a turn that leaves what is looked at."""
    return "forward" if part == "forward" else "backward"
