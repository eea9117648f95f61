"""How well two programs are compared: identical ones, and one that does a known share of work more.

    python benchmarks/timing_accuracy.py                  # 200 pairs of identical arms, 40 per ratio and size
    python benchmarks/timing_accuracy.py --trials 8       # fewer of each, to look at

Each trial starts two children and compares them as the speed check does. Beside it stand what other methods say of the
same two functions, in one process, one after the other: medians of single calls, `torch.utils.benchmark`, and the mean
of 100 calls after three to warm up, as KernelBench describes it. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils import benchmark

from pytest_kbench import Settings, Task
from pytest_kbench.case import Call
from pytest_kbench.checks.timekeeper import Timekeeper
from pytest_kbench.formats.native import load
from pytest_kbench.sandbox.host import Failure, Limits, Program, Sandbox
from pytest_kbench.timing.paired import Paired

SETTINGS = Settings()
COLUMNS = 1024
SIZES = {20: 12, 200: 300, 2000: 3300}  # about how many microseconds a call takes: rows of float32
RATIOS = (0, 1, 2, 5, 10)  # per cent of rows more
SOURCE = """
import torch
from pytest_kbench import Task, Tensor


def rows(x):
    return torch.softmax(x[:{rows}], -1)


task = Task(rows, args=[Tensor("x", "rows columns")], shapes={{"all": dict(rows={all}, columns={columns})}})
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """One comparison: the word, the log-ratio with its interval's ends, and how long it took."""

    word: str
    low: float
    middle: float
    high: float
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--identical", type=int, default=200, help="pairs of identical arms, over all sizes")
    parser.add_argument("--trials", type=int, default=40, help="trials per ratio and size (default: 40)")
    parser.add_argument("--ratios", type=int, nargs="*", default=RATIOS[1:], help="per cent of work added")
    parser.add_argument("--others", type=int, default=20, help="trials of each other method")
    given = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, torch {torch.__version__}: {' '.join(sys.argv)}\n")
    print("| size | rows added | method | trials | slower | same | ambiguous | faster | off, median % | worst % |"
          " half-width % | covers | s a trial |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder, Sandbox(threads=1) as sandbox:
        keeper = Timekeeper(sandbox)
        for ratio in (0, *given.ratios):
            for size in SIZES:
                trials = math.ceil(given.identical / len(SIZES)) if ratio == 0 else given.trials
                files = [task_file(Path(folder), size, each) for each in (0, ratio)]
                found = [each for each in (ours(keeper, files) for _ in range(trials)) if each is not None]
                show(size, ratio, "paired turns", found)
                if ratio in (0, 5):
                    for name, method in OTHERS.items():
                        show(size, ratio, name, [other(method, files) for _ in range(given.others)])


def task_file(folder: Path, size: int, percent: int) -> Path:
    """A task whose reference does so many per cent of rows more, written to a folder."""
    rows = SIZES[size]
    path = folder / f"rows_{size}_{percent}.py"
    path.write_text(SOURCE.format(rows=round(rows * (1 + percent / 100)), all=math.ceil(rows * 1.2), columns=COLUMNS))
    return path


def ours(keeper: Timekeeper, files: list[Path]) -> Trial | None:
    """Both functions in children of their own, which are new each time. Nothing where no block was undisturbed."""
    begun = time.perf_counter()
    task = load(files[0])[0]
    first, second = (
        keeper.several(Program("reference", file, ("rows",)), Limits(), SETTINGS.build_timeout) for file in files
    )
    assert not isinstance(first, Failure), first
    assert not isinstance(second, Failure), second
    with keeper.staged(task, call_of(task), SETTINGS, first, second) as arms:
        paired = keeper.compared(arms, SETTINGS.budget)
    for each in (*first, *second):
        each.close()
    return trial(paired, time.perf_counter() - begun)


def call_of(task: Task) -> Call:
    """The call of the only shape."""
    return Call(tuple(task.shapes["all"].items()), "float32", seed=int.from_bytes(os.urandom(6)))


def trial(paired: Paired, seconds: float) -> Trial | None:
    """What is kept of a comparison."""
    found = paired.interval
    return None if found is None else Trial(paired.speed, found.low, found.median, found.high, seconds)


def other(method: Callable[[Callable[[], object]], float], files: list[Path]) -> Trial:
    """Another method's ratio of the same two functions; it has no interval, so every difference is one."""
    begun = time.perf_counter()
    torch.set_num_threads(1)
    task = load(files[0])[0]
    x = torch.randn(*task.shapes["all"].values())
    first, second = (load(file)[0].function for file in files)
    log = math.log(method(lambda: first(x))) - math.log(method(lambda: second(x)))
    word = "slower" if log < -0.01 else "faster" if log > 0.01 else "same"
    return Trial(word, math.nan, log, math.nan, time.perf_counter() - begun)


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
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


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
    truth = -math.log1p(ratio / 100)
    off = [abs(each.middle - truth) * 100 for each in found]
    known = [each for each in found if math.isfinite(each.low)]
    width = f"{statistics.median((each.high - each.low) / 2 for each in known) * 100:.2f}" if known else "-"
    covers = f"{sum(each.low <= truth <= each.high for each in known)}/{len(known)}" if known else "-"
    print(
        f"| {size} us | {ratio} % | {method} | {len(found)} | {words['slower']} | {words['same']} |"
        f" {words['ambiguous']} | {words['faster']} | {statistics.median(off):.2f} | {max(off):.2f} | {width} |"
        f" {covers} | {statistics.median(each.seconds for each in found):.2f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
