"""Two functions of this very process, timed in turns: what the fixture `kbench_timer` does.

Not tamper-proof: the functions share a process with the clock. Whom one does not trust is graded with `--kbench`.
Knows torch only where somebody else imported it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import math
import random
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from .paired import Block, Name, Paired, Sample, measure
from .stats import Precision, Speed

if TYPE_CHECKING:
    import torch

Function: TypeAlias = Callable[..., object]
Arguments: TypeAlias = tuple[Any, ...] | Callable[[], tuple[Any, ...]]

TURN: Final = 2e-3  # seconds of calls in a turn, at least
PIECES: Final = 16  # of a turn, at most, each with a time of its own: what disturbs one leaves others alone
WAITING: Final = 4  # pieces of a turn, if each waits for a CUDA device
MOST_CALLS: Final = 1 << 24  # of a turn
MAKING: Final = 20e-3  # seconds that making the arguments of a turn may take, about
MOST_BYTES: Final = 1 << 30  # of these
STEADY: Final = 0.05  # by which the quickest calls of the last turns may differ after warming up
LOOK_BACK: Final = 3  # turns
WARM_UP: Final = 0.5  # seconds, and at most half of the budget
# Copies of one function differ, for where they lie in memory is not drawn anew here: by up to 1.7 % on two busy CPUs;
# on an H200 by up to 1.2 % in short kernels (with intervals that reach to 1), else by 0.4 %.
HOST: Final = Precision(half_width=0.01, least=0.02, most=0.03, slack=0.0)
DEVICE: Final = Precision(half_width=0.004, least=0.01, most=0.01, slack=0.0)
UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


class Seconds(NamedTuple):
    """What one call takes."""

    fn: float
    baseline: float


@dataclass(frozen=True, slots=True, repr=False)
class Timing:
    """How fast a function is, compared with a baseline.

    `speedup` is the baseline's time / the function's: 2.0 is twice as fast. The true one lies in `interval` with 99 %
    confidence; that is (0, inf) where so few blocks fitted into the time that they say nothing. `speed` is the word for
    it: `faster` or `slower` only beyond the difference that means nothing here, `same` within it, else `ambiguous`.
    `seconds` are per call, medians over `blocks`; `clock` is what was read.
    """

    speedup: float
    interval: tuple[float, float]
    speed: Speed
    seconds: Seconds
    blocks: int
    clock: Literal["perf_counter_ns", "cuda-events"]

    def __str__(self) -> str:
        low, high = self.interval
        known = f"{_ratio(low)} to {_ratio(high)}" if high < math.inf else "too few blocks for an interval"
        own, baseline = map(_readable, self.seconds)
        advice = ", which a larger budget= may narrow" if self.speed == "ambiguous" else ""
        return (
            f"{self.speed}: {_ratio(self.speedup)} times as fast as the baseline ({known}{advice}), "
            f"{own} against {baseline} a call; {self.blocks} block{'s' * (self.blocks != 1)} on {self.clock}"
        )

    __repr__ = __str__  # what `assert t.speed != "slower", t` shows


def time_both(
    fn: Function,
    baseline: Function,
    args: Arguments = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    budget: float = 1.0,
    cold: bool = False,
    clock: Callable[[], int] = time.perf_counter_ns,
    chance: random.Random | None = None,
) -> Timing:
    """Time `fn` against `baseline`, both called with `args` and `kwargs`, for about `budget` seconds.

    `args` is a tuple, or a function that makes a fresh one for each call while no clock runs, as functions need that
    change their arguments. With `cold` each call finds empty caches (this loads torch). Where an argument is a CUDA
    tensor, CUDA events are the clock, else `clock`, which counts nanoseconds. What the functions raise comes through;
    raises `TypeError` and `ValueError` for arguments of its own.
    """
    _check(fn, baseline, args, kwargs, budget)
    functions: dict[Name, Function] = {"candidate": fn, "baseline": baseline}
    named = {} if kwargs is None else kwargs
    for each in functions.values():  # may compile, or fill a cache of its own
        _run(each, _arguments(args, 1), named)
    stopwatch = _stopwatch([*_arguments(args, 1), *named.values()], clock)
    turns = _Turns(functions, args, named, stopwatch, stopwatch.flush() if cold else None)
    turns.warm_up(clock, min(WARM_UP, budget / 2))
    found = measure(
        turns.take, stopwatch.precision, budget=budget, trusted=True, chance=chance, clock=lambda: clock() * 1e-9
    )
    return _timing(found, stopwatch)


class _Host:
    """The clock of this process. It waits for work that the functions left on a CUDA device."""

    name: Final = "perf_counter_ns"
    precision: Final = HOST

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        loaded = sys.modules.get("torch")
        self._wait = loaded.cuda.synchronize if loaded and loaded.cuda.is_initialized() else None
        self.pieces = WAITING if self._wait else PIECES

    def flush(self) -> Callable[[], object]:
        """What empties the caches."""
        from .cpu import Flush

        return Flush()

    def __call__(self, run: Callable[[], None]) -> float:
        """Seconds that it takes."""
        if self._wait:
            self._wait()
        begun = self._clock()
        run()
        if self._wait:
            self._wait()
        return (self._clock() - begun) * 1e-9


class _Events:
    """The clock of a CUDA device: events on its current stream."""

    name: Final = "cuda-events"
    pieces: Final = 1  # more events would take time too
    precision: Final = DEVICE

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def flush(self) -> Callable[[], object]:
        """What empties the cache of the device, in the order of its stream."""
        import torch

        size = 2 * torch.cuda.get_device_properties(self._device).L2_cache_size
        return torch.empty(size, dtype=torch.uint8, device=self._device).zero_

    def __call__(self, run: Callable[[], None]) -> float:
        """Seconds that it takes on the device."""
        import torch

        with torch.cuda.device(self._device):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            run()
            end.record()
            torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3


@dataclass(slots=True)
class _Turns:
    """Turns of both functions, with as many calls for one as for the other."""

    functions: Mapping[Name, Function]
    args: Arguments
    kwargs: Mapping[str, Any]
    stopwatch: _Host | _Events
    flush: Callable[[], object] | None
    calls: int = 1  # of a piece
    pieces: int = 1  # of a turn

    def warm_up(self, clock: Callable[[], int], seconds: float) -> None:
        """Find how many calls fill a turn, and go on until turns are steady or the time is spent."""
        ends = clock() + seconds * 1e9
        if self.flush is None:  # the second call of a turn would find full caches
            self._fill(clock)
        last = {name: deque[float](maxlen=LOOK_BACK) for name in self.functions}
        while clock() < ends:
            for name, least in last.items():
                least.append(min(self.turn(name)))
            if all(len(each) == LOOK_BACK and max(each) <= min(each) * (1 + STEADY) for each in last.values()):
                return

    def _fill(self, clock: Callable[[], int]) -> None:
        """As many calls as the slower function fills a turn with; the better of two, for one may be disturbed."""
        pieces, most = self.stopwatch.pieces, self._most_calls(clock)
        while True:
            slower = max(min(*self.turn(name), *self.turn(name)) for name in self.functions) * self.calls
            if slower >= TURN / pieces or 2 * self.calls * pieces > most:
                break
            self.calls *= 2
        self.pieces = max(1, min(pieces, most // self.calls, math.ceil(TURN / slower)))

    def _most_calls(self, clock: Callable[[], int]) -> int:
        """How many calls there are arguments for, in the time and memory that those of a turn may take."""
        if isinstance(self.args, tuple):
            return MOST_CALLS
        seconds, size = math.inf, 0
        for _ in range(3):
            begun = clock()
            made = _arguments(self.args, 1)
            seconds = min(seconds, (clock() - begun) * 1e-9)
            size = sum(getattr(each, "nbytes", 0) for each in _leaves(made))
        return max(1, int(min(MOST_CALLS, MAKING / max(seconds, 1e-9), MOST_BYTES / max(size, 1))))

    def turn(self, name: Name) -> list[float]:
        """One turn: seconds per call, of each piece. No garbage is collected in it."""
        given = iter(_arguments(self.args, self.calls * self.pieces))
        seconds = []
        with _garbage_kept():
            if self.flush is not None:
                self.flush()
            for _ in range(self.pieces):
                piece = itertools.islice(given, self.calls)
                run = functools.partial(_run, self.functions[name], piece, self.kwargs)
                seconds.append(max(self.stopwatch(run), 1e-9) / self.calls)
        return seconds

    def take(self, order: Sequence[Name]) -> Block:
        """One block: turns in this order."""
        times: dict[Name, list[float]] = {name: [] for name in self.functions}
        for name in order:
            times[name] += self.turn(name)
        return Block(_sample(times["baseline"]), _sample(times["candidate"]))


def _sample(times: Sequence[float]) -> Sample:
    """Nobody claims anything here: there is one clock."""
    return Sample(tuple(times), sum(times), sum(times))


def _timing(found: Paired, stopwatch: _Host | _Events) -> Timing:
    of: Callable[[Sample], float] = (lambda each: each.mean) if found.uneven else (lambda each: each.least)
    seconds = Seconds(
        statistics.median(of(each.candidate) for each in found.blocks),
        statistics.median(of(each.baseline) for each in found.blocks),
    )
    low, middle, high = (0.0, seconds.baseline / seconds.fn, math.inf)
    if found.interval is not None:
        low, middle, high = found.interval.speedup
    return Timing(middle, (low, high), found.speed, seconds, len(found.blocks), stopwatch.name)


def _run(fn: Function, given: Iterable[tuple[Any, ...]], kwargs: Mapping[str, Any]) -> None:
    if kwargs:
        for each in given:
            fn(*each, **kwargs)
    else:
        for each in given:
            fn(*each)


def _arguments(args: Arguments, calls: int) -> Iterable[tuple[Any, ...]]:
    """Arguments of so many calls: the same ones, or fresh ones, all made by now."""
    if isinstance(args, tuple):
        return itertools.repeat(args, calls)
    made = [args() for _ in range(calls)]
    for each in made:
        if not isinstance(each, tuple):
            raise TypeError(f"args() is {_kind(each)}; let it return a tuple, as in args=lambda: (x.clone(),)")
    return made


@contextlib.contextmanager
def _garbage_kept() -> Iterator[None]:
    """Collect no garbage meanwhile."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _stopwatch(values: Iterable[Any], clock: Callable[[], int]) -> _Host | _Events:
    """Events if there is a CUDA tensor among these values, on the device of the first."""
    if "torch" in sys.modules:
        import torch

        for each in _leaves(values):
            if isinstance(each, torch.Tensor) and each.is_cuda:
                return _Events(each.device)
    return _Host(clock)


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    """These values, and what lists, tuples and dicts among them hold."""
    for each in values:
        if isinstance(each, (list, tuple, dict)):
            yield from _leaves(each.values() if isinstance(each, dict) else each)
        else:
            yield each


def _check(fn: object, baseline: object, args: object, kwargs: object, budget: object) -> None:
    for name, given in (("fn", fn), ("baseline", baseline)):
        if not callable(given):
            raise TypeError(f"{name} is {_kind(given)}; pass the function itself, and its arguments as args=(...)")
    if not isinstance(args, tuple) and not callable(args):
        raise TypeError(
            f"args is {_kind(args)}; pass a tuple, as in args=(x,), or a function that makes a fresh one for each call"
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise TypeError(f"kwargs is {_kind(kwargs)}; pass a dict, as in kwargs=dict(dim=-1)")
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise TypeError(f"budget is {_kind(budget)}; pass a number of seconds, as in budget=1.0")
    if not 0 < budget < math.inf:
        raise ValueError(f"budget={budget}: pass a positive number of seconds, as in budget=1.0")


def _kind(given: object) -> str:
    return "None" if given is None else f"of type {type(given).__name__}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.3g}" if ratio >= 100 else f"{ratio:#.3g}"


def _readable(seconds: float) -> str:
    for unit, name in UNITS:
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"
