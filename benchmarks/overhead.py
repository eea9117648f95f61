"""What the grader costs beyond the kernels that it grades: per case by stage, per child, and per unused pytest run.

    python benchmarks/overhead.py

Prints three tables, each with its goal. Times are wall-clock medians of this machine; run it on an idle one.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

TASK = """
import torch
from pytest_kbench import Task, Tensor


def softmax(x):
    return torch.softmax(x, -1)


task = Task(softmax, args=[Tensor("x", "rows columns")], shapes={"square": dict(rows=256, columns=256)})
"""
CANDIDATE = "import torch\n\n\ndef softmax(x):\n    return torch.softmax(x, -1)\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--children", type=int, default=30, help="children to start (default: 30)")
    parser.add_argument("--runs", type=int, default=15, help="pairs of pytest runs (default: 15)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "softmax.py").write_text(TASK)
        (place / "mine.py").write_text(CANDIDATE)
        per_case(place)
        per_child(place, arguments.children)
        unused(place, arguments.runs)


def per_case(place: Path) -> None:
    """64k float32 elements: where the time of one case goes."""
    import torch

    from pytest_kbench import Grader, Settings

    with Grader(Settings(threads=1)) as grader:
        torch.set_num_threads(1)
        values = torch.randn(256, 256)
        kernel = milliseconds(lambda: torch.softmax(values, -1), 200)
        grader.grade(place / "softmax.py", place / "mine.py", checks=["build"])
        grader.grade(place / "softmax.py", place / "mine.py", checks=["correct"])
        verdict = grader.grade(place / "softmax.py", place / "mine.py", checks=["correct"])
    assert verdict.outcome == "passed", verdict.message
    stages = {
        name: statistics.median(record.seconds[name] * 1e3 for record in verdict.records)
        for name in verdict.records[0].seconds
    }
    print(f"\nper case, 65,536 float32 elements, {len(verdict.records)} cases (median ms)")
    for name, spent in stages.items():
        print(f"  {name:<12}{spent:8.3f}")
    print(f"  reference and the candidate's own time {stages['reference'] + kernel:.3f}")
    overheads = [
        record.seconds["total"] * 1e3 - record.seconds["reference"] * 1e3 - kernel for record in verdict.records
    ]
    print(f"  overhead, total less these: {statistics.median(overheads):.3f} (goal: <= 1)")


def per_child(place: Path, count: int) -> None:
    """From asking for a child to a loaded candidate."""
    from pytest_kbench.sandbox.host import Child, Limits, Program, Sandbox

    program = Program("python", place / "mine.py", ("softmax",))
    with Sandbox() as sandbox:
        limits, times = Limits(), []
        start = time.perf_counter()
        sandbox.layers()
        first = (time.perf_counter() - start) * 1e3
        for _ in range(count):
            start = time.perf_counter()
            child = sandbox.start(program, limits, time.monotonic() + 60)
            times.append((time.perf_counter() - start) * 1e3)
            assert isinstance(child, Child), child
            child.close()
        print(f"\nper child, {count} starts (ms)")
        print(f"  median {statistics.median(times):.1f}, mean {statistics.mean(times):.1f} (goal: <= 50)")
        print(f"  the zygote and its first child, once a run: {first:.0f}")
        report = sandbox.layers()
        print(f"  layers: {', '.join(report.active)}; refused: {', '.join(report.refused) or 'none'}")


def unused(place: Path, runs: int) -> None:
    """`pytest --co` in an empty folder, with our plugin and without it."""
    empty = place / "empty"
    empty.mkdir()
    (empty / "conftest.py").write_text("import sys\ndef pytest_unconfigure():\n    print('torch' in sys.modules)\n")
    command = [sys.executable, "-m", "pytest", "--co", "-q"]
    with_us, without = [], []
    for _ in range(runs):
        with_us.append(milliseconds(lambda: run(command, empty), 1))
        without.append(milliseconds(lambda: run([*command, "-p", "no:kbench"], empty), 1))
    torch_loaded = run(command, empty).strip().splitlines()[-1]
    added = statistics.median(a - b for a, b in zip(with_us, without, strict=True))
    print(f"\nunused, {runs} pairs of `pytest --co` in an empty folder (median ms)")
    print(f"  with {statistics.median(with_us):.0f}, without {statistics.median(without):.0f}")
    print(f"  adds {added:.1f} (goal: <= 20)")
    print(f"  torch in sys.modules: {torch_loaded} (goal: False)")


def run(command: list[str], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


def milliseconds(call: Callable[[], object], count: int) -> float:
    """The median time of a call."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


if __name__ == "__main__":
    main()
