"""What the timed calls of all tasks move and compute at least, and which of this machine's limits binds: a table.

    python benchmarks/work.py [--device cpu|cuda] [TASK ...]

Bytes are those of all tensors that go in and come out, operations what torch's counter sees or the task declares
(`tests/timing/test_roofline.py` holds them against formulas by hand). The limits are measured, in one thread on a CPU.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from pytest_kbench.build.cache import Store
from pytest_kbench.checks.gpu_timekeeper import GpuTimekeeper
from pytest_kbench.checks.timekeeper import Timekeeper, calls_of
from pytest_kbench.formats.native import load
from pytest_kbench.oracle.coverage import timed
from pytest_kbench.oracle.truth import ask
from pytest_kbench.sandbox.host import Sandbox
from pytest_kbench.timing.roofline import work_of

TASKS = Path(__file__).parent.parent / "tasks"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help="names of tasks (default: all)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    device = "cuda:0" if given.device == "cuda" else "cpu"
    sandbox = Sandbox()
    keeper = (GpuTimekeeper if given.device == "cuda" else Timekeeper)(sandbox, Store(None), device=device)
    peaks = keeper.peaks("float32")
    stated = keeper.datasheet("float32")
    print(f"{_known(device)}, torch {torch.__version__}: {' '.join(sys.argv)}")
    print(f"measured in float32: {peaks.bandwidth / 1e9:.4g} GB/s, {(peaks.flops or 0) / 1e9:.4g} GFLOP/s")
    if stated is not None:
        print(f"datasheet: {stated.bandwidth / 1e9:.4g} GB/s, {(stated.flops or 0) / 1e9:.4g} GFLOP/s")
    print("\n| task | shape | MB | MFLOP | FLOP per byte | binds | limit, us |\n|---|---|---|---|---|---|---|")
    for name in given.tasks or sorted(path.stem for path in TASKS.glob("*.py")):
        task = load(TASKS / f"{name}.py")[0]
        for named in timed(task, given.device, 1):
            (call,) = named.case.calls
            calls, _ = calls_of(task, ask(task, call, device, judged=False), explicit=False)
            work = work_of(task, call, calls)
            light, roof = keeper.peaks(call.dtype).light(work)
            moved, done = work.read + work.written, work.flops or 0
            print(
                f"| {name} | {named.id} | {moved / 1e6:.4g} | {done / 1e6:.4g} | {done / moved:.3g} | {roof} "
                f"| {light * 1e6:.4g} |"
            )


def _known(device: str) -> str:
    return torch.cuda.get_device_name(device) if device != "cpu" else torch.backends.cpu.get_cpu_capability()


if __name__ == "__main__":
    main()
