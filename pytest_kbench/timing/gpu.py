"""Two children that make the same calls in turns, on a GPU: what one block of `paired` is made of. See `arms`.

All outputs of timed calls are compared with the other arm's, every element: on a GPU that costs less than choosing.
Where they are large, those of some calls of each turn, drawn by lot; of the others what was read while the clock ran.
"""

from __future__ import annotations

import functools
import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from ..record import Reason
from ..sandbox.buffers import DeviceBuffer
from ..sandbox.gpu_turns import GpuPerformer, GpuStage, Staged, Watch
from ..sandbox.host import Failure, OutputSpec
from ..sandbox.turns import Part, Turn
from .arms import ArmFailed, Kept, sample_of
from .fresh import Fresh
from .paired import Block, Name
from .witness import KEPT, Lot, Wrong, alike, differing, too_many

TURN = 8e-3  # seconds of calls in a turn: what it takes beside them varies by some 80 us, as measured
MOST_CALLS = 2000
SHARE = 0.1  # of a GPU's memory that a stage may take, where two calls do not take more
WHOLE = 1 << 30  # bytes of calls of a turn that are compared whole
MOST_KEPT = 1 << 30  # bytes of calls that are kept to be graded in full, where one does not take more
COMPARED = 1 << 26  # elements at once
IDLE = 4.0  # times what is usual: what emptying the caches takes where somebody else uses the GPU
IDLE_SLACK = 500e-6  # seconds
BUSY = 0.2  # of the baseline's turns, that find the GPU in use, before it is asked who uses it
ENDING, LOOKS = 0.5, 5  # seconds that a process has to end, and looks at the GPU after that
HELD, SPARE = 2.0, 100e-6  # times what issuing took, and seconds beyond that
LONGEST = 0.2  # seconds that a turn of the candidate may take, about
WARM_UP = 0.3  # seconds
WARM_TURNS = 3


class Flush:
    """Empties the last-level cache by writing twice as much as it holds."""

    def __init__(self, device: torch.device) -> None:
        size = 2 * torch.cuda.get_device_properties(device).L2_cache_size
        self._memory = torch.empty(size, dtype=torch.uint8, device=device)

    def __call__(self) -> None:
        """Write all of it."""
        self._memory.zero_()


@dataclass(slots=True)
class GpuArms:
    """Both arms before one stage. Turns get values of their own; those of a pair of turns get the same."""

    performers: Mapping[Name, GpuPerformer]
    stage: GpuStage
    fresh: Fresh
    flush: Flush
    chance: random.Random
    outputs: tuple[OutputSpec, ...]
    allowed: Sequence[float]  # per output, the widest bound of an element
    judged: bool = True  # whether calls that are kept can be graded in full
    part: Part = "forward"
    seconds: float = 30.0  # of a turn, at most
    overtime: float = 0.0  # for what is compiled
    captured: bool = False
    issuing: dict[Name, float] = field(default_factory=dict)
    wrong: Wrong | None = None  # the first call of the candidate that gave something else
    kept: dict[int, Kept] = field(default_factory=dict)
    _calls: int = 0
    _lot: Lot | None = None
    _flushes: dict[Name, list[float]] = field(default_factory=lambda: {"baseline": [], "candidate": []})

    @property
    def clock(self) -> str:
        """What measures, for the record."""
        return "CUDA events around a graph" if self.captured else "CUDA events around queued calls"

    def warm(self) -> float | None:
        """Seconds of one call that the candidate makes again and again, by its own word; of a backward `None`."""
        if self.part == "backward":
            return None
        return min(self._turn("candidate", "warm", self.stage.short).claimed[0] for _ in range(WARM_TURNS))

    def rehearse(self, *, capture: bool = True) -> None:
        """Show both children the stage, as graphs if both can be captured and agree. Raises `ArmFailed`."""
        self.fresh.fill(self.stage.count, self.chance, self.stage.hidden)
        self.stage.reveal()
        begun = time.perf_counter()
        staged = {name: self._show(name, performer, capture) for name, performer in self.performers.items()}
        self.issuing = {name: each.issuing for name, each in staged.items()}
        self.captured = all(each.captured for each in staged.values())
        self.overtime = max(0.0, self.overtime - max(0.0, time.perf_counter() - begun - 2 * self.seconds))
        if capture and not (self.captured and self._is_right()):
            self.rehearse(capture=False)

    def _show(self, name: Name, performer: GpuPerformer, capture: bool) -> Staged:
        found = performer.rehearse(self.stage, self.part, self.seconds, self.overtime, capture=capture)
        if isinstance(found, Failure):
            raise ArmFailed(name, found)
        return found

    def _is_right(self) -> bool:
        """Whether both arms give the same: a graph misses what a candidate puts on a stream of its own choice."""
        self.fresh.fill(self.stage.short, self.chance, self.stage.hidden)
        self._pair_of_turns(tuple(self.performers), self.stage.short, {"baseline": [], "candidate": []})
        right, self.wrong, self._calls = self.wrong is None, None, 0
        self.kept.clear()
        self._lot = None
        return right

    def pace(self) -> float:
        """Seconds of a call of the baseline by its own word, or of one of the candidate by the clock, if that is a lot.

        What the candidate claims must not decide how many calls there are.
        """
        baseline, candidate = (self.turn(name, self.stage.count) for name in ("baseline", "candidate"))
        return max(baseline.claimed[0], candidate.wall / self.stage.count * TURN / LONGEST)

    def warm_up(self) -> None:
        """Turns that count for nothing."""
        begun = time.perf_counter()
        for _ in range(WARM_TURNS + self.chance.randrange(3)):
            for name in self.performers:
                self.turn(name, self.stage.count)
            if time.perf_counter() - begun > WARM_UP:
                break
        self._flushes = {"baseline": [], "candidate": []}

    def turn(self, name: Name, count: int, watch: Watch | None = None) -> Turn:
        """One turn with the values that are there, and what is looked at. Raises `ArmFailed`."""
        if self.part == "backward":
            self._turn(name, "before", count)
        return self._turn(name, self.part, count, watch)

    def _turn(self, name: Name, part: Part, count: int, watch: Watch | None = None) -> Turn:
        performer = self.performers[name]
        clear = functools.partial(self._clear, name, performer, part)
        reveal = functools.partial(self._reveal, part)
        made = performer.turn(part, self.seconds, clear, reveal, count, self._hold(count), watch)
        if isinstance(made, Failure):
            raise ArmFailed(name, made)
        return made

    def _hold(self, count: int) -> float:
        """Seconds that queued calls wait to be let go: as long as issuing so many may take, the same for both arms.

        Streams that are not held may work then; so by the clock that is a part of what one call more takes.
        """
        return 0.0 if self.captured else HELD * max(self.issuing.values(), default=0.0) * count + SPARE

    def _clear(self, name: Name, performer: GpuPerformer, part: Part) -> None:
        """Poison and empty caches; how long the latter takes tells whether somebody else uses the GPU."""
        performer.poison(part)
        if part != "backward":
            self.stage.hide()
        self.stage.settle_cache()
        torch.cuda.synchronize(self.stage.device)
        begun = time.perf_counter()
        self.flush()
        torch.cuda.synchronize(self.stage.device)
        if part != "before":
            self._flushes[name].append(time.perf_counter() - begun)

    def _reveal(self, part: Part) -> None:
        """Let the child see the values, but none of them in a cache."""
        self.stage.reveal(part)
        self.flush()

    def take(self, order: Sequence[Name]) -> Block:
        """One block: turns in this order, of which each two in a row get the same values. Raises `ArmFailed`.

        Of the two pairs of turns one has a quarter of the calls; what a turn costs beside them is the same in both.
        """
        turns: dict[Name, list[Turn]] = {"baseline": [], "candidate": []}
        lengths = [self.stage.count, self.stage.short]
        self.chance.shuffle(lengths)
        busy = 0
        for start, length in zip(range(0, len(order), 2), lengths, strict=True):
            self.fresh.fill(length, self.chance, self.stage.hidden)
            self._pair_of_turns(order[start : start + 2], length, turns)
            busy += sum(self._was_busy(name) for name in order[start : start + 2])
        return Block(sample_of(turns["baseline"]), sample_of(turns["candidate"]), busy > 0)

    def _was_busy(self, name: Name) -> bool:
        return self._flushes[name][-1] > self._longest_flush

    @property
    def _longest_flush(self) -> float:
        return IDLE * min(min(each, default=math.inf) for each in self._flushes.values()) + IDLE_SLACK

    @property
    def in_use(self) -> float:
        """The share of the baseline's turns before which somebody else used the GPU."""
        late = [each for each in self._flushes["baseline"] if each > self._longest_flush]
        return len(late) / max(len(self._flushes["baseline"]), 1)

    @property
    def buffers(self) -> list[DeviceBuffer]:
        """Memory beside which nobody may write."""
        return [self.stage.buffer]

    def left_running(self) -> bool:
        """Whether it is the candidate that uses the GPU when it should not: with its process that ends."""
        if self.in_use <= BUSY:
            return False
        self.performers["candidate"].child.close()
        time.sleep(ENDING)
        taken = []
        for _ in range(LOOKS):
            begun = time.perf_counter()
            self.flush()
            torch.cuda.synchronize(self.stage.device)
            taken.append(time.perf_counter() - begun)
        return max(taken) <= self._longest_flush

    def first_wrong(self, allowed: Sequence[float]) -> Wrong | None:
        """The first call of the candidate that gave something else than the baseline."""
        return self.wrong

    def _pair_of_turns(self, pair: Sequence[Name], length: int, turns: Mapping[Name, list[Turn]]) -> None:
        gave: dict[Name, list[torch.Tensor]] = {}
        saw: dict[Name, list[torch.Tensor]] = {}
        made: dict[Name, Turn] = {}
        calls = self._drawn(length)
        last: Part = "backward" if self.part == "backward" else "forward"
        watch = Watch.drawn(self.stage.due(last), self.chance, self.stage.device, calls)
        for name in pair:
            made[name] = self.turn(name, length, watch)
            if (written := self.stage.written(calls)) is not None:
                raise ArmFailed(name, Failure(Reason.INPUTS_CHANGED, f"{written} was written"))
            gave[name], saw[name] = self.performers[name].outputs, self.performers[name].seen
        least = min(each.beside for each in made.values())  # what the grader's own work takes for either
        for name, turn in made.items():
            turns[name].append(replace(turn, wall=turn.wall - least))
        self._compare(saw["baseline"], saw["candidate"], range(length))
        self._compare(gave["baseline"], gave["candidate"], calls)
        self._keep(gave["candidate"], calls)
        self._calls += length

    def _drawn(self, length: int) -> list[int]:
        """Numbers of calls of a turn that are looked at whole: all, or as many as are not too much."""
        many = max(1, WHOLE // max(self.stage.bytes, 1))
        return sorted(self.chance.sample(range(length), min(many, length)))

    def _compare(self, ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor], calls: Sequence[int]) -> None:
        for output, (baseline, candidate) in enumerate(zip(ours, theirs, strict=True)):
            step = max(1, COMPARED // max(baseline.shape[1], 1))
            for begin in range(0, baseline.shape[0], step):
                rows = slice(begin, begin + step)
                if alike(baseline[rows], candidate[rows], self.allowed[output]):
                    continue
                counts = differing(baseline[rows], candidate[rows], self.allowed[output])
                if self.wrong is None and bool(too_many(counts, baseline.shape[1]).any()):
                    row = int(counts.argmax())
                    call = self._calls + calls[begin + row]
                    self.wrong = Wrong(call, output, int(counts[row]), baseline.shape[1])

    def _keep(self, outputs: Sequence[torch.Tensor], calls: Sequence[int]) -> None:
        """Keep calls of the candidate's last turn that win the lot, to be graded in full."""
        if not self.judged:
            return
        if self._lot is None:
            self._lot = Lot(self.chance, max(1, min(KEPT, MOST_KEPT // max(self.stage.bytes, 1))))
        for row, call in enumerate(calls):
            place = self._lot.place()
            if place is None:
                continue
            given = tuple(
                hidden[call].clone().view(each.shape)
                for hidden, each in zip(self.stage.hidden, self.stage.calls.given, strict=True)
            )
            found = tuple(each[row].clone().view(spec.shape) for each, spec in zip(outputs, self.outputs, strict=True))
            self.kept[place] = Kept(given, found)


def calls_of_a_turn(slowest: float, bytes_of_call: int, memory: int) -> int:
    """How many calls a turn has, if the slower arm's take so many seconds each, on a GPU with so many bytes."""
    return max(2, min(-int(-TURN // max(slowest, 1e-9)), MOST_CALLS, int(SHARE * memory) // max(bytes_of_call, 1)))
