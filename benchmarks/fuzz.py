"""How well and how fast fuzzing finds wrong kernels.

    python benchmarks/fuzz.py                # examples per second, on one core
    python benchmarks/fuzz.py --bugs         # examples until each file of tests/bugs is found, ten seeds each
    python benchmarks/fuzz.py --gradients    # the same for tests/gradients, by the search of the grad check
    python benchmarks/fuzz.py --honest       # honest candidates that such a search rejects: none should be

`--bugs` sets beside it what the published protocol (five seeds of normal values in one shape, eager in the same dtype,
allclose with 1e-4: KernelBench, robust-kbench) says of the same files, in the same sandbox. All print Markdown tables.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kbench import Grader, Task
    from pytest_kbench.case import Case
    from pytest_kbench.options import CheckName

ROOT = Path(__file__).resolve().parent.parent
TASKS = (ROOT / "tasks", ROOT / "tests" / "tasks")
HONEST = (ROOT / "tests" / "honest", ROOT / "candidates")
COMPILED = ("softmax/compiled.py",)  # compiles for every shape: hours
SMALL = 1 << 12  # elements of a call's arguments
EXAMPLES = 200
SEEDS = 10
TIMEOUT = 2.0  # seconds of a wrong kernel's call: some hang
PUBLISHED_SEEDS, PUBLISHED_TOLERANCE = 5, 1e-4
SPEED_TASKS = ("relu", "softmax", "llama_rmsnorm", "layernorm", "mnist_linear", "mnist_cross_entropy", "mnist_pool")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    hunt = parser.add_mutually_exclusive_group()
    hunt.add_argument("--bugs", action="store_true", help="search for every file of tests/bugs")
    hunt.add_argument("--gradients", action="store_true", help="search for every file of tests/gradients")
    hunt.add_argument("--honest", action="store_true", help="search for wrong gradients where there are none")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"searches per file (default: {SEEDS})")
    parser.add_argument("--examples", type=int, default=EXAMPLES, help=f"of a search, at most (default: {EXAMPLES})")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--only", nargs="*", default=[""], help="files whose path has one of these in it")
    arguments = parser.parse_args()
    import torch

    print(f"{platform.machine()}, {os.cpu_count()} CPUs, torch {torch.__version__}: {' '.join(sys.argv)}\n")
    if arguments.honest:
        false_alarms(arguments.seeds, arguments.examples, arguments.jobs, arguments.only)
    elif arguments.bugs or arguments.gradients:
        hunts(arguments.gradients, arguments.seeds, arguments.examples, arguments.jobs, arguments.only)
    else:
        speed(arguments.examples)


# Speed.


def speed(examples: int) -> None:
    """Draw, eager, golden, bound and compare, on one core, for calls of at most 4,096 elements; CPU time."""
    import torch

    from pytest_kbench.formats.native import load
    from pytest_kbench.oracle import strategies

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    strategies.BUDGETS = (SMALL,)
    print("| task | examples/s | calls/s | drawing, ms/example | eager, ms/call | golden and bound | compare |")
    print("|---|---|---|---|---|---|---|")
    rates = []
    for name in SPEED_TASKS:
        task, _ = load(ROOT / "tasks" / f"{name}.py")
        judged(task, 30, 0)
        calls, times, seconds = judged(task, examples, 1)
        rates.append(examples / seconds)
        drawing = (seconds - sum(times)) / examples * 1e3
        parts = " | ".join(f"{each / calls * 1e3:.2f}" for each in times)
        print(f"| {name} | {rates[-1]:.0f} | {calls / seconds:.0f} | {drawing:.2f} | {parts} |")
    print(f"\nmedian {statistics.median(rates):.0f} examples/s (goal: 300)")


def judged(task: Task, examples: int, seed: int) -> tuple[int, list[float], float]:
    """Calls, seconds of CPU for each part, and in all, of examples whose answer is eager's own."""
    import hypothesis
    from hypothesis import HealthCheck, Phase

    from pytest_kbench.oracle.compare import compare
    from pytest_kbench.oracle.strategies import cases
    from pytest_kbench.oracle.tolerance import Tolerance
    from pytest_kbench.oracle.truth import answer, ask

    times, calls = [0.0, 0.0, 0.0], 0

    def one(case: Case) -> None:
        nonlocal calls
        for call in case.calls:
            start = time.process_time()
            question = ask(task, call)
            asked = time.process_time()
            truth = answer(task, call, question, Tolerance())
            answered = time.process_time()
            for actual, golden, bound in zip(question.eager.outputs, truth.golden, truth.bounds, strict=True):
                assert compare(actual, golden, bound, output=0).ok, call
            for index, seconds in enumerate((asked - start, answered - asked, time.process_time() - answered)):
                times[index] += seconds
            calls += 1

    settings = hypothesis.settings(
        max_examples=examples,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
    start = time.process_time()
    hypothesis.seed(seed)(settings(hypothesis.given(cases(task, "cpu"))(one)))()
    return calls, times, time.process_time() - start


# Bugs.


@dataclass(frozen=True)
class Hunted:
    """One kernel: what found it, after how many examples per seed (`None`: not found), in which case at last.

    `published` is the published protocol's word; it has none of gradients.
    """

    name: str
    reasons: tuple[str, ...]
    examples: tuple[int | None, ...]
    case: str | None
    published: bool | None


def hunts(gradients: bool, seeds: int, examples: int, jobs: int, only: Sequence[str]) -> None:
    """Search for every wrong kernel, or every wrong gradient, with fresh seeds."""
    folder = ROOT / "tests" / ("gradients" if gradients else "bugs")
    files = [file for file in kernels_in(folder) if any(part in str(file) for part in only)]
    jobs_of = [(list(each), gradients, seeds, examples) for _, each in groupby(files, key=lambda file: file.parent)]
    columns = ["kernel", "found as", f"examples until found, {seeds} seeds: median, most", "found in"]
    columns += [] if gradients else ["published protocol"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    found = []
    with ProcessPoolExecutor(jobs) as pool:
        for each in chain.from_iterable(pool.map(hunted, *zip(*jobs_of, strict=True), chunksize=1)):
            found.append(each)
            hits = sorted(count for count in each.examples if count is not None)
            spread = f"{statistics.median(hits):.0f}, {hits[-1]}" if hits else "-"
            cells = [each.name, ", ".join(each.reasons), spread, f"{len(hits)}/{seeds}"]
            cells += [] if each.published is None else ["caught" if each.published else "passes"]
            print(f"| {' | '.join(cells)} |", flush=True)
    searches = [count for each in found for count in each.examples]
    hits = sorted(count for count in searches if count is not None)
    always = sum(None not in each.examples for each in found)
    print(f"\n{len(found)} wrong kernels, {len(searches)} searches of at most {examples} examples: {len(hits)} found,")
    print(f"{always} kernels in every search", end="")
    if hits:
        print(f"; median {statistics.median(hits):.0f} examples, 90 % within ", end="")
        print(hits[math.ceil(0.9 * len(hits)) - 1], end="")
    caught = "" if gradients else f" The published protocol catches {sum(bool(each.published) for each in found)}."
    print(f".{caught}")


def false_alarms(seeds: int, examples: int, jobs: int, only: Sequence[str]) -> None:
    """Search for wrong gradients of every honest candidate that gives any, with fresh seeds; say what rejects it."""
    from pytest_kbench import Settings

    files = [file for folder in HONEST for file in kernels_in(folder) if differentiated(file)]
    parts = [[file] for file in files if any(part in str(file) for part in only)]
    print("| candidate | rejected | as | a case |\n|---|---|---|---|", flush=True)
    rejected = 0
    with ProcessPoolExecutor(jobs) as pool:
        given = [(part, True, seeds, examples, Settings().timeout) for part in parts]
        for (each,) in pool.map(hunted, *zip(*given, strict=True), chunksize=1):
            if count := sum(found is not None for found in each.examples):
                rejected += count
                print(f"| {each.name} | {count}/{seeds} | {', '.join(each.reasons)} | `{each.case}` |", flush=True)
    print(
        f"\n{len(parts)} honest candidates, {len(parts) * seeds} searches of {examples} examples: {rejected} rejected."
    )


def differentiated(file: Path) -> bool:
    """Whether a candidate's task declares gradients, and its first line does not say that this one's may be wrong."""
    from pytest_kbench.formats.native import load

    source = file / "__init__.py" if file.is_dir() else file
    wrong = source.is_file() and "gradients:" in source.read_text().partition("\n")[0]
    return not wrong and f"{file.parent.name}/{file.name}" not in COMPILED and bool(load(task_of(file))[0].grad)


def task_of(file: Path) -> Path:
    """The task file of a candidate."""
    return next(place for folder in TASKS if (place := folder / f"{file.parent.name}.py").is_file())


def kernels_in(folder: Path) -> list[Path]:
    """The candidates below `<folder>/<task>/` that a CPU can run."""
    from pytest_kbench.build.program import needs_cuda
    from pytest_kbench.candidate import Candidate, find

    found = [each for task in sorted(folder.iterdir()) if task.name[0] not in "_." for each in find(task)]
    return [each.path for each in found if isinstance(each, Candidate) and not needs_cuda(each)]


def hunted(files: Sequence[Path], gradients: bool, seeds: int, examples: int, timeout: float = TIMEOUT) -> list[Hunted]:
    """Search for what is wrong in kernels of one task with several seeds each; nothing is shrunk."""
    import torch

    from pytest_kbench import Grader, Settings
    from pytest_kbench.checks import fuzz, grad

    torch.set_num_threads(1)
    fuzz.SHRINK_SECONDS = 0.0
    task = task_of(files[0])
    check: CheckName = "grad" if gradients else "fuzz"
    cases = [grad.SEARCH] if gradients else None
    found = []
    with Grader(Settings(timeout=timeout, examples=examples, threads=2)) as grader:
        for file in files:
            counts: list[int | None] = []
            reasons: dict[str, None] = {}
            case = None
            for _ in range(seeds):
                settings = replace(grader.settings, seed=int.from_bytes(os.urandom(8)))
                record = grader.grade(task, file, checks=[check], cases=cases, settings=settings).records[-1]
                failed = record.status == "failed"
                counts.append(int(record.facts.get("examples", 0)) if failed else None)
                reasons.update({str(record.reason): None} if failed else {})
                case = record.case if failed else case
            published = None if gradients else not passes_published(grader, task, file)
            name = f"{file.parent.name}/{file.name}"
            found.append(Hunted(name, tuple(reasons), tuple(counts), case, published))
    return found


def passes_published(grader: Grader, task: Path, file: Path) -> bool:
    """Whether every one of five seeds, in the first timed shape, is within 1e-4 of eager in float32."""
    from pytest_kbench.formats.native import load
    from pytest_kbench.oracle.coverage import fixed_cases

    declared, _ = load(task)
    timed: Sequence[str] = declared.time.get("cpu", ()) or tuple(declared.shapes)
    dims = tuple(declared.shapes[timed[0]].items())
    call = next(named.case.calls[0] for named in fixed_cases(declared, "cpu", 1) if named.case.calls[0].dims == dims)
    plain = replace(call, dtype=declared.dtypes[0], layouts=(), plans=(), absent=())
    eager: Task = replace(declared, tolerance=PUBLISHED_TOLERANCE, golden=None)
    cases = [str(replace(plain, seed=seed)) for seed in range(PUBLISHED_SEEDS)]
    return grader.grade(eager, file, checks=["correct"], cases=cases).outcome == "passed"


if __name__ == "__main__":
    main()
