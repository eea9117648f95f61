"""How well arms in separate processes can be compared on a GPU: a measurement that the timing engine's design rests on.

    python benchmarks/timing_spike.py [--seconds 400] [--sizes 2,5,12,200] [--brief] [--raw FILE] [--selftest]
    python benchmarks/timing_spike.py --table FILE

Every arm runs the same kernel (torch's softmax along rows, half) in a process of its own. The grader owns the buffers
(CUDA IPC), the hidden inputs and the wall clock. A turn: flush the cache, poison the outputs, start the clock, reveal K
hidden inputs, say go; the child issues K calls behind one spin, synchronises, answers; the grader reads a column of
every output and stops the clock; then the child claims its device times. A block is ABBA or BAAB, a trial 40 blocks
after one that is dropped. Places of buffers, sides (which children may be reference, which candidate) and pair are
drawn anew for every trial; places and pair for every block too where a plan says so. A row is printed when it is ready.

How the K calls are issued: `queued`: two events around each call; `span`: two around all; `cold`: as queued, with a
flush before each call; `graph`: a CUDA graph of all K calls, two events around its replay; `cupti`: no events, kernel
times from torch.profiler. Rows added in the candidate's launch (a taller tensor) make it truly slower.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import os
import random
import select
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import torch
import torch.multiprocessing as mp

Mode = Literal["queued", "span", "cold", "graph", "cupti"]
MODES: tuple[Mode, ...] = ("queued", "span", "cold", "graph", "cupti")
DEVICE = "cuda"
POOL = 56 << 30  # bytes that buffers are placed in
SIZES = {  # rows and columns by about the microseconds that an H200 takes
    **{2: (64, 256), 5: (128, 1024), 11: (256, 2048), 12: (1024, 2048), 17: (1152, 4096), 55: (4096, 4096)},
    **{200: (6400, 8192), 1000: (32768, 8192), 2000: (65536, 8192), 8000: (262144, 8192)},
}
CALLS = {2: 64, 5: 64, 11: 64, 12: 64, 17: 32, 55: 32, 200: 8, 1000: 8, 2000: 3, 8000: 3}  # a turn
SIDE = 3  # children that may play one arm
GRAIN = 128  # elements: buffers start at multiples of 256 bytes
CLOCK = 1.98e9  # a GPU's cycles per second, for the spin
PATIENCE = 30.0  # seconds to wait for a child


@dataclass(frozen=True)
class Plan:
    """A row of the table: a size by its microseconds, and what is done to it."""

    size: int
    how: Mode
    calls: int
    replace: bool = False
    repair: bool = False
    extra: float = 0.0
    blocks: int = 40


@dataclass(frozen=True)
class Turn:
    """What one turn gave, in seconds: a call's mean and median claim, the turn's wall time, its reveal, its issuing."""

    claim: float
    middle: float
    wall: float
    reveal: float
    host: float
    held: bool  # the spin outlasted the issuing
    seen: int  # calls that were timed
    starting: float = 0.0  # what CUPTI cost
    stopping: float = 0.0


@dataclass(frozen=True)
class Trial:
    """Some blocks: log of candidate over reference, and the audit's difference as a share of the reference's claim."""

    ratios: list[float]
    lies: list[float]
    micro: float
    host: float
    held: float
    seen: float
    starting: float
    stopping: float
    seconds: float
    turns: list[list[float]]  # arm, claim, middle, wall, reveal, host
    pairs: list[list[int]] = field(default_factory=list)  # each block's children


class Child:
    """An arm's process: does what it is told."""

    def __init__(self, pipe: Connection, pool: torch.Tensor, flush_bytes: int) -> None:
        self.pipe = pipe
        self.half = pool.view(torch.float16)
        self.flush = torch.empty(flush_bytes // 4, dtype=torch.int32, device=DEVICE)
        self.views: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.events: list[Any] = []
        self.released = torch.cuda.Event()
        self.graph: Any = None
        self.profile: Any = None
        self.starting = 0.0

    def serve(self) -> None:
        deeds: dict[str, Callable[..., None]] = {"place": self.place, "ready": self.ready, "go": self.go}
        self.pipe.send("up")
        polling = False
        while True:
            while polling and not select.select([self.pipe.fileno()], [], [], 0)[0]:
                pass
            what, *rest = self.pipe.recv()
            if what == "stop":
                return
            try:
                deeds[what](*rest)
            except Exception as error:  # the grader decides what becomes of the plan
                self.pipe.send(error.__class__.__name__ + ": " + " ".join(str(error).split())[:200])
            polling = what == "ready"

    def place(self, offsets: Sequence[tuple[int, int]], rows: int, columns: int, how: Mode) -> None:
        """Use other buffers from now on, each touched once."""
        self.graph = None
        self.views = [
            (view(self.half, at, rows, columns), view(self.half, other, rows, columns)) for at, other in offsets
        ]
        while len(self.events) < 2 * len(self.views):
            self.events.append(torch.cuda.Event(enable_timing=True))
        self.call_all()
        torch.cuda.synchronize()
        if how == "graph":
            self.graph = capture(self.call_all)
            self.graph.replay()
            torch.cuda.synchronize()
        self.pipe.send("placed")

    def call_all(self) -> None:
        for x, y in self.views:
            torch.softmax(x, -1, out=y)

    def ready(self, how: Mode) -> None:
        begun = time.perf_counter()
        if how == "cupti":
            self.profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
            self.profile.start()
        self.starting = time.perf_counter() - begun
        self.pipe.send("ready")

    def go(self, how: Mode, spin: float) -> None:
        torch.cuda._sleep(int(spin * CLOCK))  # type: ignore[no-untyped-call, unused-ignore]
        self.released.record()
        begun = time.perf_counter()
        self.issue(how)
        host = time.perf_counter() - begun
        held = not self.released.query()
        torch.cuda.synchronize()
        self.pipe.send("done")
        begun = time.perf_counter()
        claims, seen = self.claims(how)
        stopping = time.perf_counter() - begun
        self.pipe.send((statistics.fmean(claims), statistics.median(claims), host, held, seen, self.starting, stopping))

    def issue(self, how: Mode) -> None:
        if how == "cupti":
            self.call_all()
            return
        if how in ("span", "graph"):
            self.events[0].record()
            if how == "graph":
                self.graph.replay()
            else:
                self.call_all()
            self.events[1].record()
            return
        for index, (x, y) in enumerate(self.views):
            if how == "cold":
                self.flush.zero_()
            self.events[2 * index].record()
            torch.softmax(x, -1, out=y)
            self.events[2 * index + 1].record()

    def claims(self, how: Mode) -> tuple[list[float], int]:
        """Seconds of each call, as far as this way of timing can tell calls apart, and how many calls were timed."""
        calls = len(self.views)
        if how == "cupti":
            self.profile.stop()
            found = kernels(self.profile)
            self.profile = None
            return found, len(found)
        if how in ("span", "graph"):
            return [self.events[0].elapsed_time(self.events[1]) * 1e-3 / calls], calls
        return [self.events[2 * each].elapsed_time(self.events[2 * each + 1]) * 1e-3 for each in range(calls)], calls


def view(half: torch.Tensor, at: int, rows: int, columns: int) -> torch.Tensor:
    return half[at : at + rows * columns].view(rows, columns)


def capture(calls: Callable[[], None]) -> Any:
    """A graph of the calls (`torch.cuda.graph` would collect garbage first, which takes longer than all the rest)."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        graph.capture_begin()
        calls()
        graph.capture_end()
    torch.cuda.synchronize()
    return graph


def kernels(profile: Any) -> list[float]:
    """Seconds of each kernel of ours that the profiler saw."""
    events = [event for event in profile.events() if event.device_type.name == "CUDA"]
    found = [event.time_range.elapsed_us() * 1e-6 for event in events if "softmax" in event.name.lower()]
    if not found:
        raise LookupError(f"no softmax among {sorted({event.name for event in events})[:5]}")
    return found


def serve(pipe: Connection, pool: torch.Tensor, flush_bytes: int, cores: Iterable[int]) -> None:
    os.sched_setaffinity(0, cores)
    gc.disable()
    try:
        Child(pipe, pool, flush_bytes).serve()
    except (EOFError, KeyboardInterrupt):
        return


class Arm:
    """The grader's end of a child."""

    def __init__(self, context: Any, pool: torch.Tensor, flush_bytes: int, cores: Iterable[int]) -> None:
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, pool, flush_bytes, cores), daemon=True)
        self.process.start()
        other.close()
        self.placed = -1  # number of the placement that it has taken

    def answer(self, patience: float = PATIENCE) -> Any:
        """Its next message, awaited without sleep."""
        until = time.perf_counter() + patience
        while not select.select([self.pipe.fileno()], [], [], 0)[0]:
            if time.perf_counter() > until:
                raise TimeoutError("a child does not answer")
        return self.pipe.recv()

    def ask(self, expected: str, *message: Any) -> None:
        self.pipe.send(message)
        self.expect(expected)

    def expect(self, expected: str) -> None:
        if (answer := self.answer()) != expected:
            raise RuntimeError(answer)

    def stop(self) -> None:
        with contextlib.suppress(OSError):  # it may be gone already
            self.pipe.send(("stop",))
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class Grader:
    """Owns the pool, the children and the clock."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.pool = torch.empty(POOL, dtype=torch.uint8, device=DEVICE)
        self.half = self.pool.view(torch.float16)
        self.flush_bytes = 2 * torch.cuda.get_device_properties(0).L2_cache_size
        self.flush = torch.empty(self.flush_bytes // 4, dtype=torch.int32, device=DEVICE)
        self.arms: list[Arm] = []
        self.placement = 0
        cores = sorted(os.sched_getaffinity(0))
        self.cores = (cores[:2], cores[2:6]) if len(cores) >= 6 else (cores, cores)

    def start(self) -> None:
        """Fresh children, all on the same cores, none of which is the grader's."""
        context = mp.get_context("spawn")
        os.sched_setaffinity(0, self.cores[0] + self.cores[1])
        self.arms = [Arm(context, self.pool, self.flush_bytes, self.cores[1]) for _ in range(2 * SIDE)]
        for arm in self.arms:
            if (answer := arm.answer(120)) != "up":
                raise RuntimeError(answer)
        os.sched_setaffinity(0, self.cores[0])

    def stop(self) -> None:
        for arm in self.arms:
            arm.stop()
        self.arms = []

    def trial(self, plan: Plan) -> Trial:
        rows, columns = SIZES[plan.size]
        tall = rows + math.ceil(rows * plan.extra)
        sets = 2 if plan.size >= 2000 else 4
        hidden = [torch.randn(tall, columns, device=DEVICE, dtype=torch.float16) for _ in range(sets)]
        children = self.chance.sample(self.arms, 2 * SIDE)
        sides = children[:SIDE], children[SIDE:]
        pair = [self.chance.choice(side) for side in sides]
        stage = self.placed(rows, tall, columns, plan.calls)
        blocks: list[list[tuple[int, Turn]]] = []
        hosts = [60e-6 * plan.calls]
        pairs = []
        begun = time.perf_counter()
        for block in range(plan.blocks + 1):
            if block and plan.replace:
                stage = self.placed(rows, tall, columns, plan.calls)
            if block and plan.repair:
                pair = [self.chance.choice(side) for side in sides]
            for arm, height in zip(pair, (rows, tall), strict=True):
                if arm.placed != self.placement or not block:
                    arm.ask("placed", "place", stage.offsets, height, columns, plan.how)
                    arm.placed = self.placement
            spin = min(1.6 * statistics.median(hosts[-16:]) + 60e-6, 60e-6 * plan.calls + 1e-3)
            order = self.chance.choice(((0, 1, 1, 0), (1, 0, 0, 1)))
            turns = [(which, self.turn(pair[which], stage, hidden, plan, spin)) for which in order]
            hosts = ([] if len(hosts) == 1 else hosts) + [each.host for _, each in turns]
            if block:
                blocks.append(turns)
                pairs.append([self.arms.index(arm) for arm in pair])
        return replace(summed(blocks, plan.calls, time.perf_counter() - begun), pairs=pairs)

    def placed(self, rows: int, tall: int, columns: int, calls: int) -> Stage:
        self.placement += 1
        return Stage(self.half, places(self.chance, tall * columns, calls), rows, tall, columns)

    def turn(self, arm: Arm, stage: Stage, hidden: Sequence[torch.Tensor], plan: Plan, spin: float) -> Turn:
        secrets = [self.chance.choice(hidden) for _ in range(plan.calls)]
        arm.ask("ready", "ready", plan.how)
        self.flush.zero_()
        stage.poison()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        stage.reveal(secrets)
        torch.cuda.synchronize()
        revealed = time.perf_counter()
        arm.ask("done", "go", plan.how, spin)
        total = self.half.take(stage.column).float().sum().item()
        wall = time.perf_counter() - begun
        answer = arm.answer()
        if isinstance(answer, str):
            raise RuntimeError(answer)
        if not math.isfinite(total):
            raise ArithmeticError("an output was not written")
        claim, middle, host, held, seen, starting, stopping = answer
        return Turn(claim, middle, wall, revealed - begun, host, held, seen, starting, stopping)


class Stage:
    """K pairs of buffers at one place; of `tall` rows every arm writes at least `rows`."""

    def __init__(self, half: torch.Tensor, offsets: list[tuple[int, int]], rows: int, tall: int, columns: int) -> None:
        self.offsets = offsets
        self.inputs = [view(half, at, tall, columns) for at, _ in offsets]
        self.outputs = [view(half, at, tall, columns) for _, at in offsets]
        starts = torch.tensor([at for _, at in offsets], device=DEVICE)
        self.column = (starts[:, None] + torch.arange(rows, device=DEVICE) * columns).flatten()
        self.fused = tall * columns < 1 << 25

    def poison(self) -> None:
        if self.fused:
            torch._foreach_mul_(self.outputs, math.nan)
        else:
            for y in self.outputs:
                y.fill_(math.nan)

    def reveal(self, secrets: list[torch.Tensor]) -> None:
        if self.fused:
            torch._foreach_copy_(self.inputs, secrets)
        else:
            for x, secret in zip(self.inputs, secrets, strict=True):
                x.copy_(secret)


def places(chance: random.Random, count: int, calls: int) -> list[tuple[int, int]]:
    """Offsets in elements of K pairs of buffers: one run from anywhere in the pool, with gaps of up to 64 KiB."""
    step = -(-count // GRAIN) * GRAIN
    gaps = [chance.randrange(256) * GRAIN for _ in range(2 * calls)]
    room = POOL // 2 - 2 * calls * step - sum(gaps)
    if room < 0:
        raise MemoryError("the pool is too small")
    at = chance.randrange(room // GRAIN + 1) * GRAIN
    starts = []
    for gap in gaps:
        starts.append(at + gap)
        at += gap + step
    return list(zip(starts[::2], starts[1::2], strict=True))


def summed(blocks: Sequence[Sequence[tuple[int, Turn]]], calls: int, seconds: float) -> Trial:
    ratios, lies = [], []
    for turns in blocks:
        sides = [[turn for which, turn in turns if which == side] for side in (0, 1)]
        logs = [statistics.fmean(math.log(turn.claim) for turn in side) for side in sides]
        apart = [statistics.fmean(turn.wall - turn.claim * calls for turn in side) for side in sides]
        ratios.append(logs[1] - logs[0])
        lies.append((apart[1] - apart[0]) / (statistics.fmean(turn.claim for turn in sides[0]) * calls))
    every = [(which, turn) for turns in blocks for which, turn in turns]
    return Trial(
        ratios,
        lies,
        micro=statistics.median(turn.claim for which, turn in every if not which) * 1e6,
        host=statistics.median(turn.host for _, turn in every) / calls * 1e6,
        held=statistics.fmean(turn.held for _, turn in every),
        seen=statistics.fmean(turn.seen for _, turn in every) / calls,
        starting=statistics.median(turn.starting for _, turn in every),
        stopping=statistics.median(turn.stopping for _, turn in every),
        seconds=seconds,
        turns=[
            [which, *(float(f"{getattr(turn, name):.5g}") for name in ("claim", "middle", "wall", "reveal", "host"))]
            for which, turn in every
        ],
    )


def interval(values: Sequence[float], error: float = 0.01) -> tuple[float, float]:
    """The sign test's interval of the median."""
    count, tail, rank = len(values), 0, 0
    while rank < count // 2 and (tail := tail + math.comb(count, rank)) * 2 <= error * 2**count:
        rank += 1
    if not rank:
        return -math.inf, math.inf
    ordered = sorted(values)
    return ordered[rank - 1], ordered[count - rank]


def placement_share(trials: Sequence[Sequence[float]]) -> float | None:
    """Variance between trials as a share of all, by one-way components."""
    if len(trials) < 2 or min(map(len, trials)) < 2:
        return None
    within = statistics.fmean(statistics.variance(each) for each in trials)
    means = statistics.variance(statistics.fmean(each) for each in trials)
    between = max(0.0, means - within / statistics.harmonic_mean([len(each) for each in trials]))
    return between / (between + within) if between + within else None


HEADER = (
    "us | how | calls | re-placed | re-paired | rows added | trials | us seen | off: median % | off: worst % | "
    "log-ratio % (99 %) | half-width % | misses 0 | placement % | unseen lie: median % | worst % | audit misses 0 | "
    "host us a call | held % | s a trial"
)


def cells(plan: Plan, trials: Sequence[Trial]) -> list[str]:
    """A row of the table."""
    medians = [statistics.median(trial.ratios) for trial in trials]
    ends = [interval(trial.ratios) for trial in trials]
    lies = [interval(trial.lies) for trial in trials]
    unseen = [max(abs(low), abs(high)) for low, high in lies]
    share = placement_share([trial.ratios for trial in trials])

    def middle(values: Iterable[float]) -> float:
        return statistics.median(values)

    def missed(found: Sequence[tuple[float, float]]) -> str:
        return f"{sum(not low <= 0 <= high for low, high in found)}/{len(found)}"

    low, high = middle(low for low, _ in ends), middle(high for _, high in ends)
    return [
        *(str(plan.size), plan.how, str(plan.calls), yes(plan.replace), yes(plan.repair)),
        f"+{plan.extra:.0%}" if plan.extra else "",
        *(str(len(trials)), f"{middle(trial.micro for trial in trials):.2f}"),
        *(f"{middle(map(abs, medians)):.3%}"[:-1], f"{max(map(abs, medians)):.3%}"[:-1]),
        f"{middle(medians) * 100:+.2f} ({low * 100:+.2f} to {high * 100:+.2f})",
        *(f"{(high - low) * 50:.3f}", missed(ends)),
        "" if share is None else f"{share * 100:.0f}",
        *(f"{middle(unseen) * 100:.2f}", f"{max(unseen) * 100:.2f}", missed(lies)),
        f"{middle(trial.host for trial in trials):.1f}",
        f"{statistics.fmean(trial.held for trial in trials) * 100:.0f}",
        f"{middle(trial.seconds for trial in trials):.2f}",
    ]


def yes(said: bool) -> str:
    return "yes" if said else ""


def line(row: Sequence[str]) -> str:
    return "| " + " | ".join(row) + " |"


def cost(plan: Plan, trials: Sequence[Trial]) -> str:
    """What CUPTI takes."""
    starting, stopping = (
        statistics.median(getattr(trial, name) for trial in trials) * 1e3 for name in ("starting", "stopping")
    )
    seen = statistics.fmean(trial.seen for trial in trials)
    return f"cupti at {plan.size} us: starting {starting:.1f} ms, stopping {stopping:.1f} ms a turn, {seen:.1%} seen"


def plans(sizes: Sequence[int]) -> list[Plan]:
    """What is measured, cheap rows first; CUPTI last, since it stays in a process once it was there."""
    found = []
    rows: tuple[tuple[Mode, int, bool, bool, float, float], ...] = (
        ("queued", 1, False, False, 0.0, math.inf),
        ("queued", 1, True, True, 0.0, math.inf),
        ("graph", 1, True, True, 0.0, math.inf),
        ("span", 1, True, True, 0.0, math.inf),
        ("cold", 1, True, True, 0.0, math.inf),
        ("queued", 1, True, False, 0.0, math.inf),
        ("queued", 1, False, True, 0.0, math.inf),
        ("queued", 4, True, True, 0.0, math.inf),
        ("queued", 1, True, True, 0.02, math.inf),
        ("queued", 1, True, True, 0.05, math.inf),
        ("graph", 4, True, True, 0.0, 55),
        ("span", 4, True, True, 0.0, 55),
        ("graph", 1, True, True, 0.05, 55),
        ("span", 1, True, True, 0.05, 55),
        ("cupti", 1, True, True, 0.0, math.inf),
        ("cupti", 1, True, True, 0.05, 55),
    )
    for how, factor, anew, repair, extra, longest in rows:
        for size in sizes:
            if size <= longest:
                calls = CALLS[size] * (min(factor, 2) if size == 8000 else factor)  # the pool holds no more
                found.append(Plan(size, how, calls, anew, repair, extra, 12 if how == "cupti" else 40))
    return found


def brief_plans(sizes: Sequence[int]) -> list[Plan]:
    """A graph of many calls beside the queue."""
    many = {size: 512 if size < 17 else 128 if size < 100 else 16 if size < 1000 else 3 for size in sizes}
    return [
        *(Plan(size, "graph", many[size], True, True) for size in sizes),
        *(Plan(size, "queued", CALLS[size], True, True) for size in sizes),
        *(Plan(size, "graph", many[size]) for size in sizes),
        *(Plan(size, "queued", CALLS[size]) for size in sizes),
        *(Plan(size, "graph", many[size], True, True, 0.02) for size in sizes),
    ]


def selftest_plans() -> list[Plan]:
    """Everything once and briefly, the largest buffers too."""
    found = [Plan(12, how, 8, True, True, extra, 2) for how in MODES for extra in (0.0, 0.05)]
    return [
        *found,
        Plan(8000, "queued", 2 * CALLS[8000], True, True, 0.0, 1),
        Plan(12, "queued", 256, True, True, 0, 1),
    ]


def weight(plan: Plan) -> float:
    """How much of the time a row gets."""
    vital = plan.how == "queued" and plan.replace == plan.repair and plan.calls == CALLS[plan.size] and not plan.extra
    return {8000: 1.6, 2000: 1.2, 1000: 1.1}.get(plan.size, 1.0) * (1.6 if vital else 1.0)


def measure(grader: Grader, plan: Plan, until: float, keep: Callable[[Plan, Trial], None]) -> list[Trial]:
    """As many trials as end in time, at least one."""
    trials: list[Trial] = []
    longest = 0.0
    while not trials or time.perf_counter() + longest / 2 < until:
        gc.collect()
        begun = time.perf_counter()
        trials.append(grader.trial(plan))
        keep(plan, trials[-1])
        longest = max(longest, time.perf_counter() - begun)
    return trials


def run(chosen: Sequence[Plan], seconds: float, raw: Path | None, repeat: bool) -> int:
    """Measure, print rows; how many of them failed."""
    gc.disable()
    begun = time.perf_counter()
    grader = Grader(random.SystemRandom().randrange(1 << 32))
    grader.start()
    print(
        f"# {torch.cuda.get_device_name(0)}, torch {torch.__version__}, CUDA {torch.version.cuda}, "
        f"L2 {grader.flush_bytes >> 21} MiB, grader on cores {grader.cores[0]}, children on {grader.cores[1]}, "
        f"up after {time.perf_counter() - begun:.1f} s"
    )
    print(line(HEADER.split(" | ")), line(["---"] * len(HEADER.split(" | "))), sep="\n", flush=True)
    begun, failed = time.perf_counter(), 0

    def keep(plan: Plan, trial: Trial) -> None:
        if raw is not None:
            with raw.open("a") as file:
                file.write(json.dumps({"plan": asdict(plan), "trial": asdict(trial)}) + "\n")

    for number, plan in enumerate(chosen):
        now = time.perf_counter()
        left = begun + seconds - now
        if left <= 0:
            print(f"# out of time before {plan}", flush=True)
            continue
        share = left * weight(plan) / sum(map(weight, chosen[number:])) if repeat else 0.0
        try:
            trials = measure(grader, plan, now + share, keep)
            print(line(cells(plan, trials)), flush=True)
            if plan.how == "cupti":
                print("#", cost(plan, trials), flush=True)
        except Exception as error:  # one plan's failure is a row
            failed += 1
            print(f"# {plan}: {error.__class__.__name__}: {str(error)[:300]}", flush=True)
            grader.stop()
            grader.start()
    grader.stop()
    return failed


def show(file: Path) -> None:
    """The table of what was kept, sorted by size."""
    found: dict[Plan, list[Trial]] = {}
    for each in file.read_text().splitlines():
        entry = json.loads(each)
        found.setdefault(Plan(**entry["plan"]), []).append(Trial(**entry["trial"]))
    print(line(HEADER.split(" | ")), line(["---"] * len(HEADER.split(" | "))), sep="\n")
    for plan in sorted(found, key=lambda plan: (plan.size, plan.extra, MODES.index(plan.how))):
        print(line(cells(plan, found[plan])))
    for plan in found:
        if plan.how == "cupti":
            print("#", cost(plan, found[plan]))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--sizes", default="2,5,12,17,55,200,2000", help="of " + ", ".join(map(str, SIZES)))
    parser.add_argument("--brief", action="store_true", help="the rows that matter most")
    parser.add_argument("--selftest", action="store_true", help="every mode once")
    parser.add_argument("--raw", type=Path, help="append every trial to this file, as a line of JSON")
    parser.add_argument("--table", type=Path, help="print the table of such a file, and measure nothing")
    given = parser.parse_args()
    if given.table:
        show(given.table)
        return 0
    sizes = [int(each) for each in given.sizes.split(",")]
    chosen = selftest_plans() if given.selftest else brief_plans(sizes) if given.brief else plans(sizes)
    os.environ.setdefault("CUDA_SCALE_LAUNCH_QUEUES", "4x")  # a turn of 256 calls and their events must fit
    failed = run(chosen, given.seconds, given.raw, repeat=not given.selftest)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
