"""Two children that make the same calls in turns, on the CPU: what one block of `paired` is made of."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from ..sandbox.host import Failure, OutputSpec
from ..sandbox.turns import Part, Performer, Spec, Stage, Turn
from .cpu import BUSY, Flush, stolen
from .fresh import Draw, Fresh
from .paired import Block, Name, Sample
from .witness import Lot, Places, Seen, places

TURN = 4e-3  # seconds of calls in a turn, at least
QUICK, FEWEST_QUICK = 2e-3, 8  # seconds of a call, below which a turn has so many at least: the quickest is looked for
FEWEST_CALLS, MOST_CALLS = 2, 64  # of a turn
MOST_BYTES = 192 << 20  # of the memory of a stage
STEADY = 0.05  # by which the quickest calls of the last turns may differ after warming up
WARM_UP = 0.5  # seconds
LOOK_BACK = 3  # turns


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
    """Both arms, before one stage. Their turns get values of their own; those of a pair of turns get the same."""

    performers: dict[Name, Performer]
    stage: Stage
    fresh: Fresh
    flush: Flush
    chance: random.Random
    outputs: tuple[OutputSpec, ...]
    part: Part = "forward"
    seconds: float = 30.0  # of a turn, at most
    overtime: float = 0.0
    seen: list[Seen] = field(default_factory=list)
    kept: dict[int, Kept] = field(default_factory=dict)
    cold: bool = True
    _calls: int = 0
    _lot: Lot | None = None

    def rehearse(self) -> None:
        """Show both arms the stage. Raises `ArmFailed`."""
        for name, performer in self.performers.items():
            failed = performer.rehearse(self.stage, self.seconds)
            if failed is not None:
                raise ArmFailed(name, failed)

    def warm_up(self) -> None:
        """Turns that count for nothing, until they are steady, and then some more, by lot."""
        begun = time.perf_counter()
        least: dict[Name, list[float]] = {name: [] for name in self.performers}
        extra = self.chance.randrange(3)
        while True:
            for name in self.performers:
                least[name].append(min(self.turn(name, self.draws()).claimed))
            steady = all(
                len(each) >= LOOK_BACK and max(each[-LOOK_BACK:]) <= min(each[-LOOK_BACK:]) * (1 + STEADY)
                for each in least.values()
            )
            if steady or time.perf_counter() - begun > WARM_UP:
                if not extra:
                    return
                extra -= 1

    def draws(self) -> list[Draw]:
        """Values for the calls of a turn."""
        return [self.fresh.draw(self.chance) for _ in range(self.stage.count)]

    def turn(self, name: Name, draws: Sequence[Draw]) -> Turn:
        """One turn of one arm. Raises `ArmFailed`."""

        def reveal() -> None:
            for call, drawn in enumerate(draws):
                self.fresh.write(drawn, self.stage.given(call))
            self.stage.poison()
            if self.cold:
                self.flush()

        performer = self.performers[name]
        if self.part == "backward":
            made = performer.turn("before", self.seconds, reveal, self.overtime)
            if isinstance(made, Failure):
                raise ArmFailed(name, made)
            made = performer.turn("backward", self.seconds, self.flush, self.overtime)
        else:
            made = performer.turn("forward", self.seconds, reveal, self.overtime)
        if isinstance(made, Failure):
            raise ArmFailed(name, made)
        return made

    def take(self, order: Sequence[Name]) -> Block:
        """One block: turns in this order, of which each two in a row get the same values. Raises `ArmFailed`."""
        turns: dict[Name, list[Turn]] = {"baseline": [], "candidate": []}
        self.stage.shift(self.chance)
        self.rehearse()
        before = stolen()
        for start in range(0, len(order), 2):
            draws, where = self.draws(), places([_count(each) for each in self.outputs], self.chance)
            saw: dict[Name, list[list[torch.Tensor | None]]] = {}
            for name in order[start : start + 2]:
                turns[name].append(self.turn(name, draws))
                saw[name] = self._look(name, where)
                if name == "candidate":
                    self._keep(draws)
            for call, (ours, theirs) in enumerate(zip(saw["baseline"], saw["candidate"], strict=True)):
                for output, pair in enumerate(zip(ours, theirs, strict=True)):
                    self.seen.append(Seen(self._calls + call, output, *pair))
            self._calls += self.stage.count
        every = [each for both in turns.values() for each in both]
        disturbed = stolen() > before or any(each.delayed > BUSY * each.wall for each in every)
        return Block(_sample(turns["baseline"]), _sample(turns["candidate"]), disturbed)

    def _look(self, name: Name, where: Places) -> list[list[torch.Tensor | None]]:
        """What an arm's last turn left in these places, per call and output."""
        performer = self.performers[name]

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

        return [[at(call, output) for output in range(len(self.outputs))] for call in range(self.stage.count)]

    def _keep(self, draws: Sequence[Draw]) -> None:
        """Keep calls of the candidate's last turn that win the lot."""
        self._lot = Lot(self.chance) if self._lot is None else self._lot
        for call, drawn in enumerate(draws):
            place = self._lot.place()
            if place is None:
                continue
            given = tuple(torch.empty_like(each) for each in self.stage.given(call))
            self.fresh.write(drawn, given)
            self.kept[place] = Kept(given, tuple(self._whole(call, index) for index in range(len(self.outputs))))

    def _whole(self, call: int, output: int) -> torch.Tensor | None:
        spec = self.outputs[output]
        size = _count(spec) * spec.dtype.itemsize
        read = self.performers["candidate"].read(self.part, call, output, 0, size)
        return _tensor(read, spec.dtype).reshape(spec.shape) if len(read) == size else None


def calls_of_a_turn(slowest: float, bytes_of_call: int) -> int:
    """How many calls a turn has, if the slower arm's take so many seconds each."""
    enough = max(-int(-TURN // max(slowest, 1e-9)), FEWEST_QUICK if slowest < QUICK else 0)
    return max(FEWEST_CALLS, min(enough, MOST_CALLS, MOST_BYTES // max(bytes_of_call, 1)))


def _sample(turns: Sequence[Turn]) -> Sample:
    claimed = tuple(max(each, 1e-9) for turn in turns for each in turn.claimed)
    return Sample(claimed, sum(each.wall for each in turns), sum(each.cpu for each in turns))


def _count(spec: OutputSpec | Spec) -> int:
    count = 1
    for each in spec.shape:
        count *= each
    return count


def _tensor(read: bytes, dtype: torch.dtype) -> torch.Tensor:
    return torch.frombuffer(bytearray(read), dtype=dtype) if read else torch.empty(0, dtype=dtype)
