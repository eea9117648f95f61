"""Which device grades what: the CPU, or one of the GPUs, under the name that torch has for it ("cpu", "cuda:0")."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import Literal

from .candidate import Candidate

Kind = Literal["cpu", "cuda"]

CPU = "cpu"
NAMES = re.compile(r"auto|cpu|cuda(:\d{1,3})?")
_DRIVER = "/dev/nvidiactl"


def kind_of(device: str) -> Kind:
    """What kind of device a name stands for."""
    return "cpu" if device == CPU else "cuda"


def resolved(name: str) -> str:
    """The device of a name as people give it: `auto` is the first GPU where there is one, `cuda` the first GPU.

    Raises `ValueError` for a GPU that is not there, and for what is no name.
    """
    if NAMES.fullmatch(name) is None:
        raise ValueError("choose auto, cpu, cuda or cuda:N")
    if name == CPU or (name == "auto" and not gpus()):
        return CPU
    index = int(name.partition(":")[2] or 0)
    if index >= gpus():
        if not gpus():
            raise ValueError("torch sees no GPU here; choose auto or cpu")
        raise ValueError(f"torch sees {gpus()} here, from cuda:0 to cuda:{gpus() - 1}")
    return f"cuda:{index}"


@functools.cache
def gpus() -> int:
    """How many GPUs torch can use; torch is not imported where there is no driver."""
    if not os.path.exists(_DRIVER):
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def device_for(candidate: Candidate, device: str) -> str:
    """Where a candidate is graded in a run on `device`: C++ on the CPU, whatever else there is."""
    return CPU if candidate.language == "cpp" else device


def cpu_model() -> str | None:
    """What the CPU is called, where the machine says."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)
