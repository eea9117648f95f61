"""How well two programs are compared: identical ones, and one that does a known share of work more.

    python benchmarks/timing_accuracy.py                  # 200 pairs of identical arms, 40 per ratio and size
    python benchmarks/timing_accuracy.py --trials 8       # fewer of each, to look at
    python benchmarks/timing_accuracy.py --device cuda    # on a GPU

Each trial compares two children as the speed check does; they are new after every few trials. On the CPU the slower one
does more rows, on a GPU it spins for so many cycles more. Beside it stand what other methods say of the same two
functions, in one process, one after the other: medians of single calls, `torch.utils.benchmark`, the mean of 100 calls
after three to warm up, as KernelBench describes it, and Triton's `do_bench` where there is Triton. Prints a Markdown
table.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import math
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils import benchmark

from pytest_kbench import Settings, Task
from pytest_kbench.build.cache import Store
from pytest_kbench.case import Call
from pytest_kbench.checks.gpu_timekeeper import GpuTimekeeper
from pytest_kbench.checks.timekeeper import Timekeeper
from pytest_kbench.formats.native import load
from pytest_kbench.sandbox.host import Failure, Limits, Program, Sandbox
from pytest_kbench.timing.paired import Paired

SETTINGS = Settings(device="cpu")
COLUMNS = 1024
SIZES = {20: 12, 200: 300, 2000: 3300}  # about how many microseconds a call takes: rows of float32
RENEWED = 5  # trials of the same children
RATIOS = (0, 1, 2, 5, 10)  # per cent of rows more
SOURCE = """
import torch
from pytest_kbench import Task, Tensor


def rows(x):
    return torch.softmax(x[:{rows}], -1)


task = Task(rows, args=[Tensor("x", "rows columns")], shapes={{"all": dict(rows={all}, columns={columns})}})
"""

GPU_ROWS = {20: 768, 200: 12_000, 2000: 160_000}  # that take less than so many microseconds
GPU_SOURCE = """
import torch
from pytest_kbench import Task, Tensor


def rows(x):
    y = torch.softmax(x, -1)
    torch.cuda._sleep({cycles})
    return y


task = Task(rows, args=[Tensor("x", "rows columns")], shapes={{"all": dict(rows={rows}, columns={columns})}})
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """One comparison: the word, the log-ratio with its interval's ends, what is true, and how long it took."""

    word: str
    low: float
    middle: float
    high: float
    truth: float
    unseen: float | None
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--identical", type=int, default=200, help="pairs of identical arms, over all sizes")
    parser.add_argument("--trials", type=int, default=40, help="trials per ratio and size (default: 40)")
    parser.add_argument("--ratios", type=int, nargs="*", default=RATIOS[1:], help="per cent of work added")
    parser.add_argument("--others", type=int, default=20, help="trials of each other method")
    parser.add_argument("--sizes", type=int, nargs="*", default=[*SIZES], help="microseconds of a call")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    on_gpu = given.device == "cuda"
    name = torch.cuda.get_device_name() if on_gpu else f"{os.cpu_count()} CPUs"
    print(f"{platform.machine()}, {name}, torch {torch.__version__}: {' '.join(sys.argv)}\n")
    print("| size | added | method | trials | slower | same | ambiguous | faster | off, median % | worst % |"
          " half-width % | covers | unseen, median % | s a trial |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    device = "cuda:0" if on_gpu else "cpu"
    with tempfile.TemporaryDirectory() as folder, Sandbox(threads=None if on_gpu else 1) as sandbox:
        keeper = GpuTimekeeper(sandbox, Store(None), device=device) if on_gpu else Timekeeper(sandbox, Store(None))
        fixed = 0.0 if on_gpu else call_alone(keeper, Path(folder))
        for ratio in (0, *given.ratios):
            for size in given.sizes:
                trials = math.ceil(given.identical / len(given.sizes)) if ratio == 0 else given.trials
                pair = gpu_pair(Path(folder), size, ratio) if on_gpu else cpu_pair(Path(folder), size, ratio, fixed)
                found = list(ours(keeper, pair, trials))
                show(size, ratio, "paired turns", found)
                if ratio in (0, 5) and given.others:
                    methods = {**OTHERS, **gpu_methods()} if on_gpu else OTHERS
                    for name, method in methods.items():
                        show(size, ratio, name, [other(method, pair, device) for _ in range(given.others)])
    keeper.close()


@dataclass(frozen=True, slots=True)
class Pair:
    """Two task files, and how much longer a call of the second takes: in proportion, and in seconds.

    `fixed` seconds of a call are the same for both.
    """

    first: Path
    second: Path
    factor: float = 1.0
    added: float = 0.0
    fixed: float = 0.0

    def truth(self, seconds: float) -> float:
        """The true log-ratio, where a call of the first takes so long."""
        return -math.log(1.0 + (self.factor - 1.0) * max(0.0, 1.0 - self.fixed / seconds) + self.added / seconds)


def call_alone(keeper: Timekeeper, folder: Path) -> float:
    """Seconds of a call that does one row: what both of a pair spend beside their rows."""
    file = folder / "one_row.py"
    file.write_text(SOURCE.format(rows=1, all=1, columns=COLUMNS))
    task = load(file)[0]
    program = Program("reference", file, ("rows",), device=keeper.device)
    first, second = (keeper.several(program, Limits(), SETTINGS.build_timeout) for _ in range(2))
    assert not isinstance(first, Failure), first
    assert not isinstance(second, Failure), second
    with keeper.staged(task, call_of(task), SETTINGS, first, second) as arms:
        blocks = keeper.compared(arms, SETTINGS.budget).blocks
    for each in (*first, *second):
        each.close()
    return statistics.median(each.baseline.least for each in blocks)


def cpu_pair(folder: Path, size: int, percent: int, fixed: float) -> Pair:
    """Tasks whose references do rows, the second one so many per cent more."""
    rows, files, many = SIZES[size], [], 0
    for each in (0, percent):
        files.append(folder / f"rows_{size}_{each}.py")
        many = round(rows * (1 + each / 100))
        files[-1].write_text(SOURCE.format(rows=many, all=math.ceil(rows * 1.2), columns=COLUMNS))
    return Pair(files[0], files[1], many / rows, fixed=fixed)


def gpu_pair(folder: Path, size: int, percent: int) -> Pair:
    """Tasks whose references do rows and then spin, the second one so many per cent of `size` microseconds longer."""
    hertz, files = frequency(), []
    for each in (0, percent):
        files.append(folder / f"gpu_{size}_{each}.py")
        cycles = round((size * 1e-6 / 3 + size * 1e-6 * each / 100) * hertz)
        files[-1].write_text(GPU_SOURCE.format(rows=GPU_ROWS[size], cycles=cycles, columns=COLUMNS))
    return Pair(files[0], files[1], added=size * 1e-6 * percent / 100)


@functools.cache
def frequency() -> float:
    """Cycles that a GPU spins for in a second."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
    for _ in range(2):
        events[0].record()
        torch.cuda._sleep(40_000_000)
        events[1].record()
        torch.cuda._sleep(240_000_000)
        events[2].record()
        torch.cuda.synchronize()
    short, long = (float(events[each].elapsed_time(events[each + 1])) for each in (0, 1))
    return 200_000_000 / (long - short) * 1e3


def ours(keeper: Timekeeper, pair: Pair, count: int) -> Iterator[Trial]:
    """So many comparisons of both functions, in children that are renewed every few of them."""
    task = load(pair.first)[0]
    for start in range(0, count, RENEWED):
        first, second = (
            keeper.several(
                Program("reference", file, ("rows",), device=keeper.device), Limits(), SETTINGS.build_timeout
            )
            for file in (pair.first, pair.second)
        )
        assert not isinstance(first, Failure), first
        assert not isinstance(second, Failure), second
        for _ in range(min(RENEWED, count - start)):
            begun = time.perf_counter()
            with keeper.staged(task, call_of(task), SETTINGS, first, second) as arms:
                paired = keeper.compared(arms, SETTINGS.budget)
            if (found := trial(pair, paired, time.perf_counter() - begun)) is not None:
                yield found
        for each in (*first, *second):
            each.close()


def call_of(task: Task) -> Call:
    """The call of the only shape."""
    return Call(tuple(task.shapes["all"].items()), "float32", seed=int.from_bytes(os.urandom(6)))


def trial(pair: Pair, paired: Paired, seconds: float) -> Trial | None:
    """What is kept of a comparison."""
    found = paired.interval
    truth = pair.truth(statistics.median(each.baseline.least for each in paired.blocks))
    return (
        None
        if found is None
        else Trial(paired.speed, found.low, found.median, found.high, truth, paired.unseen, seconds)
    )


def other(method: Callable[[Callable[[], object]], float], pair: Pair, device: str) -> Trial:
    """Another method's ratio of the same two functions; it has no interval, so every difference is one."""
    begun = time.perf_counter()
    torch.set_num_threads(1)
    x = torch.randn(*load(pair.first)[0].shapes["all"].values(), device=device)
    first, second = (load(file)[0].function for file in (pair.first, pair.second))
    taken = method(lambda: first(x))
    log = math.log(taken) - math.log(method(lambda: second(x)))
    word = "slower" if log < -0.01 else "faster" if log > 0.01 else "same"
    return Trial(word, math.nan, log, math.nan, pair.truth(taken), None, time.perf_counter() - begun)


def median_of_calls(call: Callable[[], object]) -> float:
    """The median of a hundred calls, after ten."""
    taken = [_timed(call) for _ in range(110)]
    return statistics.median(taken[10:])


def torch_benchmark(call: Callable[[], object]) -> float:
    """The median of torch.utils.benchmark, which it runs for a fifth of a second."""
    found: float = benchmark.Timer("call()", globals={"call": call}, num_threads=1).blocked_autorange().median
    return found


def mean_of_a_hundred(call: Callable[[], object]) -> float:
    """The mean of 100 calls after three to warm up: how KernelBench describes its timing."""
    taken = [_timed(call) for _ in range(103)]
    return statistics.fmean(taken[3:])


def _timed(call: Callable[[], object]) -> float:
    if SETTINGS.device == "cpu" and not torch.cuda.is_initialized():
        begun = time.perf_counter()
        call()
        return time.perf_counter() - begun
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    events[0].record()
    call()
    events[1].record()
    torch.cuda.synchronize()
    return float(events[0].elapsed_time(events[1])) * 1e-3


def gpu_methods() -> dict[str, Callable[[Callable[[], object]], float]]:
    """What is only there on a GPU."""
    try:
        testing = importlib.import_module("triton.testing")
    except ImportError:
        return {}
    return {"triton.testing.do_bench": lambda call: testing.do_bench(call, return_mode="median") * 1e-3}


OTHERS = {
    "sequential medians": median_of_calls,
    "torch.utils.benchmark": torch_benchmark,
    "mean of 100": mean_of_a_hundred,
}


def show(size: int, ratio: int, method: str, found: list[Trial]) -> None:
    """One row."""
    if not found:
        print(f"| {size} us | {ratio} % | {method} | 0 |", flush=True)
        return
    words = Counter(each.word for each in found)
    off = [abs(each.middle - each.truth) * 100 for each in found]
    known = [each for each in found if math.isfinite(each.low)]
    width = f"{statistics.median((each.high - each.low) / 2 for each in known) * 100:.2f}" if known else "-"
    covers = f"{sum(each.low <= each.truth <= each.high for each in known)}/{len(known)}" if known else "-"
    hidden = [each.unseen for each in found if each.unseen is not None]
    unseen = f"{statistics.median(hidden) * 100:.1f}" if hidden else "-"
    print(
        f"| {size} us | {ratio} % | {method} | {len(found)} | {words['slower']} | {words['same']} |"
        f" {words['ambiguous']} | {words['faster']} | {statistics.median(off):.2f} | {max(off):.2f} | {width} |"
        f" {covers} | {unseen} | {statistics.median(each.seconds for each in found):.2f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
