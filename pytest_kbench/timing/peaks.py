"""What a device can do at most: bytes and operations in a second, measured once and remembered, beside its datasheet.

Bandwidth is that of a copy or of a sum, whichever moves more, of tensors many times as large as the last cache;
operations are those of a large product in the dtype asked for, of normal values: a chip that multiplies ones takes less
power and runs faster. The best of many tries counts: others only slow it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeGuard

import torch

from .roofline import Work

Roof = Literal["memory", "compute"]
MOST: Final = 1e30  # bytes or operations a second that make sense
SECONDS: Final = 0.3  # that a measurement takes
LEAST_TRIES: Final = 3
TIMES: Final = {"cpu": 4, "cuda": 16}  # the last cache, of what is copied
MOST_BYTES: Final = 512 << 20  # of it, on a CPU
IN_A_ROW: Final = 4  # calls between two events of a GPU, or what it takes to launch one would count
HOLD: Final = 400_000  # cycles that a GPU waits, until all of them are launched
CPU_SIDE, CUDA_SIDE = 1024, 8192  # of the matrices

# Dense peaks from datasheets, by part of the device's name: bytes a second, operations a second by dtype. No TF32 in
# float32: whether a task allows it is another matter.
_HOPPER: Final = {"float64": 34e12, "float32": 67e12, "float16": 989e12, "bfloat16": 989e12}
_AMPERE: Final = {"float64": 9.7e12, "float32": 19.5e12, "float16": 312e12, "bfloat16": 312e12}
_BLACKWELL: Final = {"float64": 37e12, "float32": 75e12, "float16": 2250e12, "bfloat16": 2250e12}
DATASHEETS: Final[tuple[tuple[str, float, Mapping[str, float]], ...]] = (
    ("H200", 4.8e12, _HOPPER),
    ("H100 80GB HBM3", 3.35e12, _HOPPER),
    ("A100-SXM4-80GB", 2.04e12, _AMPERE),
    ("A100-SXM4-40GB", 1.56e12, _AMPERE),
    ("B200", 8.0e12, _BLACKWELL),
)


@dataclass(frozen=True, slots=True)
class Peaks:
    """Bytes a second, and operations a second in one dtype (`None`: not known)."""

    bandwidth: float
    flops: float | None

    def light(self, work: Work) -> tuple[float, Roof]:
        """Seconds that the work takes at least, and what they are spent on."""
        memory = (work.read + work.written) / self.bandwidth
        compute = work.flops / self.flops if work.flops and self.flops else 0.0
        return (compute, "compute") if compute > memory else (memory, "memory")

    def least(self, work: Work, cache: int) -> float:
        """What its bytes alone take, where caches are empty before and may hold what is written: nobody is quicker.

        Operations do not count: there are more ways to make a product than the counter knows.
        """
        seen = Work(work.read, max(0, work.written - cache), None)
        return self.light(seen)[0]


def datasheet(name: str, dtype: str) -> Peaks | None:
    """The peaks that the maker of a GPU of this name states; `None` where it is not in the table."""
    found = next((each for each in DATASHEETS if each[0] in name), None)
    return None if found is None else Peaks(found[1], found[2].get(dtype))


def measured(device: torch.device, dtype: str, cache: int) -> Peaks:
    """What this process finds on its threads, or on a GPU; `cache` are the bytes of the last cache."""
    return Peaks(_bandwidth(device, cache), _flops(device, dtype))


def _bandwidth(device: torch.device, cache: int) -> float:
    size = TIMES[device.type] * cache
    size = size if device.type == "cuda" else min(size, MOST_BYTES)
    source = torch.ones(size // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    copy = 2 * size / _least(lambda: target.copy_(source), device)
    return max(copy, size / _least(source.sum, device))


def _flops(device: torch.device, dtype: str) -> float | None:
    side = CUDA_SIDE if device.type == "cuda" else CPU_SIDE
    try:
        a, b = (torch.randn((side, side), device=device).to(getattr(torch, dtype)) for _ in range(2))
        return 2.0 * side**3 / _least(lambda: torch.mm(a, b), device)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, AttributeError):  # no such product here
        return None


def _least(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of the quickest of many tries."""
    work()
    least, tries, begun = math.inf, 0, time.perf_counter()
    while tries < LEAST_TRIES or time.perf_counter() - begun < SECONDS:
        least = min(least, _took(work, device))
        tries += 1
    return least


def _took(work: Callable[[], object], device: torch.device) -> float:
    if device.type != "cuda":
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(HOLD)
    first.record()
    for _ in range(IN_A_ROW):
        work()
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) * 1e-3 / IN_A_ROW


def remembered(file: Path, device: str, dtype: str, measure: Callable[[], Peaks]) -> Peaks:
    """The peaks that are kept in a file for this device and dtype; measured and kept where there are none."""
    kept = _read(file)
    name = f"{device}, {dtype}"
    if (found := _peaks(kept.get(name))) is not None:
        return found
    peaks = measure()
    _write(file, {**kept, name: {"bandwidth": peaks.bandwidth, "flops": peaks.flops}})
    return peaks


def _read(file: Path) -> dict[str, Any]:
    try:
        kept = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _peaks(kept: Any) -> Peaks | None:
    """Peaks as they were kept; `None` where that makes no sense."""
    if not isinstance(kept, dict):
        return None
    bandwidth, flops = kept.get("bandwidth"), kept.get("flops")
    if not _is_rate(bandwidth) or not (flops is None or _is_rate(flops)):
        return None
    return Peaks(float(bandwidth), None if flops is None else float(flops))


def _is_rate(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < MOST


def _write(file: Path, kept: Mapping[str, Any]) -> None:
    """Replace the file as a whole; where it cannot be written, the next run measures again."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)
        try:
            with open(descriptor, "w", encoding="utf-8") as opened:
                json.dump(kept, opened, indent=1)
            os.replace(temporary, file)
        except OSError:
            os.unlink(temporary)
            raise
