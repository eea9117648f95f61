"""Two children that make the same calls in turns, on the CPU: what one block of `paired` is made of."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from ..oracle.bits import same_bits
from ..record import Reason
from ..sandbox.buffers import SharedBuffer
from ..sandbox.host import Failure, OutputSpec
from ..sandbox.turns import Part, Performer, Spec, Stage, Turn
from .cpu import BUSY, Flush, stolen
from .fresh import Draw, Fresh
from .paired import Block, Name, Sample
from .witness import Lot, Places, Seen, Wrong, first_wrong, places

TURN = 4e-3  # seconds of calls in a turn, at least
QUICK, FEWEST_QUICK = 2e-3, 8  # seconds of a call, below which a turn has so many at least: the quickest is looked for
FEWEST_CALLS, MOST_CALLS = 2, 64  # of a turn
MOST_BYTES = 192 << 20  # of the memory of a stage
STEADY = 0.05  # by which the quickest calls of the last turns may differ after warming up
WARM_UP = 0.5  # seconds
LOOK_BACK = 3  # turns
FIRST_TURNS = 3
WARM_TURNS = 2


class ArmFailed(Exception):
    """An arm did not come back from a turn; `failure` says how."""

    def __init__(self, arm: Name, failure: Failure) -> None:
        super().__init__(failure.message)
        self.arm, self.failure = arm, failure


@dataclass(frozen=True, slots=True)
class Kept:
    """One timed call of the candidate: what it was given, and what it gave, byte by byte."""

    given: tuple[torch.Tensor, ...]
    outputs: tuple[torch.Tensor | None, ...]


@dataclass(slots=True)
class Arms:
    """Both arms, each of several children, before one stage. A block has one child of each, by lot.

    Turns get values of their own; those of a pair of turns get the same.
    """

    performers: Mapping[Name, Sequence[Performer]]
    stage: Stage
    fresh: Fresh
    flush: Flush
    chance: random.Random
    outputs: tuple[OutputSpec, ...]
    part: Part = "forward"
    seconds: float = 30.0  # of a turn, at most
    overtime: float = 0.0  # for what is compiled, of all turns together until they are warm
    apart: float = 1.0  # times the bound of one arm, by which outputs of both may differ
    seen: list[Seen] = field(default_factory=list)
    kept: dict[int, Kept] = field(default_factory=dict)
    cold: bool = True
    _calls: int = 0
    _lot: Lot | None = None

    clock = "perf_counter_ns"  # what measures, for the record
    issuing: ClassVar[Mapping[Name, float]] = {}  # no call is issued before it is made

    def left_running(self) -> bool:
        """Whether something of the candidate runs when it should not: never, as children stand still."""
        return False

    @property
    def buffers(self) -> list[SharedBuffer]:
        """Memory beside which nobody may write."""
        return self.stage.buffers

    def first_wrong(self, allowed: Sequence[float]) -> Wrong | None:
        """The first call of the candidate that gave something else than the baseline; `allowed` is per output."""
        return first_wrong(self.seen, [self.apart * each for each in allowed])

    def warm(self) -> float:
        """Seconds of the candidate's quickest call when nothing empties the caches."""
        self.cold = False
        self.rehearse()
        performer = self.performers["candidate"][0]
        return min(min(self.turn("candidate", performer, self.draws()).claimed) for _ in range(WARM_TURNS))

    def rehearse(self) -> None:
        """Show every child the stage. Raises `ArmFailed`."""
        for name, several in self.performers.items():
            for performer in several:
                self._show(name, performer)

    def _show(self, name: Name, performer: Performer) -> None:
        failed = performer.rehearse(self.stage, self.seconds)
        if failed is not None:
            raise ArmFailed(name, failed)

    def slowest(self) -> float:
        """Seconds of a call of the slower arm, as far as a few turns show it."""
        return max(self._least(name, several[0]) for name, several in self.performers.items())

    def _least(self, name: Name, performer: Performer) -> float:
        begun, least = time.perf_counter(), math.inf
        for _ in range(FIRST_TURNS):
            least = min(least, *self.turn(name, performer, self.draws()).claimed)
            if time.perf_counter() - begun > WARM_UP:
                break
        return least

    def warm_up(self) -> None:
        """Turns of every child that count for nothing, until they are steady; of the candidate some more, by lot.

        From then on no time is left for compiling.
        """
        for name, several in self.performers.items():
            for performer in several:
                self._warm_up(name, performer, self.chance.randrange(3) if name == "candidate" else 0)
        self.overtime = 0.0

    def _warm_up(self, name: Name, performer: Performer, extra: int) -> None:
        begun = time.perf_counter()
        least: list[float] = []
        while True:
            least.append(min(self.turn(name, performer, self.draws()).claimed))
            last = least[-LOOK_BACK:]
            steady = len(last) == LOOK_BACK and max(last) <= min(last) * (1 + STEADY)
            if steady or time.perf_counter() - begun > WARM_UP:
                if extra <= 0 or least[-1] * self.stage.count > WARM_UP:
                    return
                extra -= 1

    def draws(self, count: int | None = None) -> list[Draw]:
        """Values for the calls of a turn."""
        return [self.fresh.draw(self.chance) for _ in range(self.stage.count if count is None else count)]

    def turn(self, name: Name, performer: Performer, draws: Sequence[Draw]) -> Turn:
        """One turn of one child, of as many calls as there are values for. Raises `ArmFailed`."""

        def reveal() -> None:
            for call, drawn in enumerate(draws):
                self.fresh.write(drawn, self.stage.given(call))
            if self.part == "backward":
                self.stage.hide_cotangents()
            self.stage.poison()
            if self.cold:
                self.flush()

        def start() -> None:
            for call, drawn in enumerate(draws):
                self.fresh.write(drawn, self.stage.given(call), self.stage.arguments)
            self.flush()

        parts: tuple[tuple[Part, Callable[[], None]], ...] = (("forward", reveal),)
        if self.part == "backward":
            parts = (("before", reveal), ("backward", start))
        for part, before in parts:
            begun = time.perf_counter()
            made = performer.turn(part, self.seconds, before, self.overtime, len(draws))
            if isinstance(made, Failure):
                raise ArmFailed(name, made)
            self.overtime = max(0.0, self.overtime - max(0.0, time.perf_counter() - begun - self.seconds))
        assert isinstance(made, Turn)
        return made

    def take(self, order: Sequence[Name]) -> Block:
        """One block: turns in this order, of which each two in a row get the same values. Raises `ArmFailed`.

        Of the two pairs of turns one is half as long: what a turn costs beside its calls is the same in both.
        """
        pair: dict[Name, Performer] = {name: self.chance.choice(several) for name, several in self.performers.items()}
        self.stage.shift(self.chance)
        for name, performer in pair.items():
            self._show(name, performer)
        turns: dict[Name, list[Turn]] = {"baseline": [], "candidate": []}
        before = stolen()
        lengths = [self.stage.count, max(1, self.stage.count // 2)]
        self.chance.shuffle(lengths)
        for start, length in zip(range(0, len(order), 2), lengths, strict=True):
            self._pair_of_turns({name: pair[name] for name in order[start : start + 2]}, length, turns)
        every = [each for both in turns.values() for each in both]
        disturbed = stolen() > before or any(each.delayed > BUSY * each.wall for each in every)
        return Block(sample_of(turns["baseline"]), sample_of(turns["candidate"]), disturbed)

    def _pair_of_turns(self, pair: Mapping[Name, Performer], length: int, turns: Mapping[Name, list[Turn]]) -> None:
        draws, where = self.draws(length), places([_count(each) for each in self.outputs], self.chance)
        saw: dict[Name, list[list[torch.Tensor | None]]] = {}
        for name, performer in pair.items():
            turns[name].append(self.turn(name, performer, draws))
            if (written := self._written(draws)) is not None:
                raise ArmFailed(name, Failure(Reason.INPUTS_CHANGED, f"{written} was written"))
            if not performer.fills:
                self.stage.forget()  # an output that is an input must not seem to be right
            saw[name] = self._look(performer, where, length)
            if name == "candidate":
                self._keep(performer, draws)
        for call, (ours, theirs) in enumerate(zip(saw["baseline"], saw["candidate"], strict=True)):
            for output, both in enumerate(zip(ours, theirs, strict=True)):
                self.seen.append(Seen(self._calls + call, output, *both))
        self._calls += length

    def _written(self, draws: Sequence[Draw]) -> str | None:
        """An input of a call, drawn by lot, that is not what it was; those that may be written are not looked at."""
        call = self.chance.randrange(len(draws))
        given = self.stage.given(call)
        expected = [torch.empty_like(each) for each in given]
        self.fresh.write(draws[call], expected)
        for spec, value, want in zip(self.stage.calls.given, given, expected, strict=True):
            if not spec.in_place and not same_bits(value, want):
                return spec.name
        return None

    def _look(self, performer: Performer, where: Places, length: int) -> list[list[torch.Tensor | None]]:
        """What a child's last turn left in these places, per call and output."""

        def at(call: int, output: int) -> torch.Tensor | None:
            dtype = self.outputs[output].dtype
            read = [
                performer.read(self.part, call, output, begin * dtype.itemsize, size * dtype.itemsize)
                for begin, size in where[output]
            ]
            whole = b"".join(read)
            if len(whole) != sum(size for _, size in where[output]) * dtype.itemsize:
                return None
            return _tensor(whole, dtype)

        return [[at(call, output) for output in range(len(self.outputs))] for call in range(length)]

    def _keep(self, performer: Performer, draws: Sequence[Draw]) -> None:
        """Keep calls of the candidate's last turn that win the lot."""
        self._lot = Lot(self.chance) if self._lot is None else self._lot
        for call, drawn in enumerate(draws):
            place = self._lot.place()
            if place is None:
                continue
            given = tuple(torch.empty_like(each) for each in self.stage.given(call))
            self.fresh.write(drawn, given)
            self.kept[place] = Kept(
                given, tuple(self._whole(performer, call, each) for each in range(len(self.outputs)))
            )

    def _whole(self, performer: Performer, call: int, output: int) -> torch.Tensor | None:
        spec = self.outputs[output]
        size = _count(spec) * spec.dtype.itemsize
        read = performer.read(self.part, call, output, 0, size)
        return _tensor(read, spec.dtype).reshape(spec.shape) if len(read) == size else None


def calls_of_a_turn(slowest: float, bytes_of_call: int) -> int:
    """How many calls a turn has, if the slower arm's take so many seconds each."""
    enough = max(-int(-TURN // max(slowest, 1e-9)), FEWEST_QUICK if slowest < QUICK else 0)
    return max(FEWEST_CALLS, min(enough, MOST_CALLS, MOST_BYTES // max(bytes_of_call, 1)))


def sample_of(turns: Sequence[Turn]) -> Sample:
    """What the turns of one arm in a block took: a long one and a short one, or two that are as long."""
    claimed = tuple(max(each, 1e-9) for turn in turns for each in turn.claimed)
    long, short = sorted(turns, key=lambda each: -len(each.claimed))
    more = len(long.claimed) - len(short.claimed)
    clocks = {"wall": (long.wall, short.wall)}
    if long.cpu is not None and short.cpu is not None:
        clocks["cpu"] = long.cpu, short.cpu
    steps = {name: (most - least) / more for name, (most, least) in clocks.items()} if more else {}
    whole = {name: most + least for name, (most, least) in clocks.items()}
    return Sample(claimed, whole["wall"], whole.get("cpu"), steps)


def _count(spec: OutputSpec | Spec) -> int:
    count = 1
    for each in spec.shape:
        count *= each
    return count


def _tensor(read: bytes, dtype: torch.dtype) -> torch.Tensor:
    return torch.frombuffer(bytearray(read), dtype=dtype) if read else torch.empty(0, dtype=dtype)
