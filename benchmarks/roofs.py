"""Whether measured limits are limits: copies and a large product, timed like any candidate, as shares of them.

    python benchmarks/roofs.py [--device cpu|cuda]

A copy of four, eight and sixteen times the last cache (512 MiB at most on a CPU), and a square product in float32 and
bfloat16. A share well below 100 % would say that the limit is not what a plain kernel reaches, one above 102 % that it
is none. Beside it stands the share of what the maker states. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import torch

from pytest_kbench import Grader, Settings
from pytest_kbench.timing.cpu import last_level_cache

TIMES = (4, 8, 16)  # the last cache, of what a copy reads
MOST_BYTES = 512 << 20  # of it, on a CPU
SIDE = {"cpu": 1024, "cuda": 8192}
COPY = """
from pytest_kbench import Task, Tensor


def copy(x):
    return x.clone()


task = Task(copy, args=[Tensor("x", "n")], shapes={{"{times}x": dict(n={n})}})
"""
PRODUCT = """
from pytest_kbench import Task, Tensor


def product(a, b):
    return a @ b


task = Task(
    product,
    args=[Tensor("a", "n n"), Tensor("b", "n n")],
    shapes={{"square": dict(n={n})}},
    dtypes=["{dtype}"],
)
"""
COPY_PY = "def copy(x):\n    return x.clone()\n"
COPY_CPP = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cstring>

void copy(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  std::memcpy(y.data_ptr(), x.data_ptr(), x.size(0) * sizeof(float));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(copy, copy);
"""
PRODUCT_PY = "def product(a, b):\n    return a @ b\n"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    kind = parser.parse_args().device
    cuda = torch.cuda.get_device_properties(0) if kind == "cuda" else None
    cache = last_level_cache() if cuda is None else cuda.L2_cache_size
    name = torch.backends.cpu.get_cpu_capability() if cuda is None else cuda.name
    print(f"{name}, last cache {cache / 1e6:.4g} MB, torch {torch.__version__}: {' '.join(sys.argv)}\n")
    print("| call | dtype | MB | GFLOP | us | GB/s | TFLOP/s | binds | of what was measured | of the datasheet |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    sizes = dict.fromkeys(min(each * cache, MOST_BYTES if cuda is None else sys.maxsize) // 4 for each in TIMES)
    with (
        tempfile.TemporaryDirectory() as folder,
        Grader(Settings(seed=0, device=kind, baselines=("eager",))) as grader,
    ):
        copy = ("copy.py", COPY_PY) if kind == "cuda" else ("copy.cpp", COPY_CPP)  # new memory is slow on a CPU
        for count, size in enumerate(sizes):
            show(grader, Path(folder), "copy", COPY.format(times=count, n=size), *copy)
        for dtype in ("float32", "bfloat16"):
            source = PRODUCT.format(n=SIDE[kind], dtype=dtype)
            show(grader, Path(folder), "product", source, "product.py", PRODUCT_PY)


def show(grader: Grader, folder: Path, name: str, source: str, file: str, text: str) -> None:
    """Time the only call of a task, made by a candidate of this text, and print its row."""
    task, candidate = folder / f"{name}_task.py", folder / file
    task.write_text(source)
    candidate.write_text(text)
    (record,) = grader.grade(task, candidate, checks=["speed"]).records
    if not record.timings:
        print(f"| {name} | {record.message} |", flush=True)
        return
    (timing,) = record.timings
    assert record.case is not None
    took = timing.seconds["candidate"]
    dtype = "bfloat16" if "bfloat16" in record.case else "float32"
    share = "-" if timing.light is None else f"{timing.light / took * 100:.1f} %"
    stated = "-" if timing.datasheet is None else f"{timing.datasheet / took * 100:.1f} %"
    moved, done = timing.bytes or 0, timing.flops or 0
    print(
        f"| {name} | {dtype} | {moved / 1e6:.4g} | {done / 1e9:.4g} | {took * 1e6:.4g} | {moved / took / 1e9:.4g} "
        f"| {done / took / 1e12:.4g} | {timing.roof} | {share} | {stated} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
