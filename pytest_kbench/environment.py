"""Where and how a run was: what a reader of its records needs to judge and to repeat it."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from .device import cpu_model

PACKAGES = ("pytest-kbench", "pytest", "pytest-xdist", "torch", "numpy", "apache-tvm-ffi", "hypothesis", "triton")


def environment(
    arguments: Sequence[str], seed: int, device: str, layers: tuple[Sequence[str], Mapping[str, str]] | None
) -> dict[str, Any]:
    """CPU, devices, compilers, versions, sandbox layers, seed and command, as plain data; what is not known is `None`.

    `layers` are those of the sandbox that hold, and those refused with the reason; `None` where none was started.
    """
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["pytest", *map(str, arguments)]),
        "seed": f"{seed:x}",
        "device": device,
        "sandbox": None if layers is None else {"active": list(layers[0]), "refused": dict(layers[1])},
        "cpu": {"model": cpu_model(), "usable": len(os.sched_getaffinity(0)), "machine": platform.machine()},
        "gpus": _gpus(),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "packages": {name: _version(name) for name in PACKAGES},
        "compilers": {name: _first_line([name, "--version"]) for name in (os.environ.get("CXX") or "c++", "nvcc")},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _gpus() -> list[dict[str, str]]:
    """Names and driver versions, asked of the driver's own tool: torch would initialise CUDA here."""
    said = _output(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"])
    rows = (line.split(", ") for line in (said or "").splitlines())
    return [{"name": row[0], "driver": row[1]} for row in rows if len(row) == 2]


def _first_line(command: Sequence[str]) -> str | None:
    """What a compiler says of its version: the line with a number in it."""
    lines = (_output(command) or "").splitlines()
    return next((line for line in lines if "release" in line), lines[0] if lines else None)


def _output(command: Sequence[str]) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        asked = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout if asked.returncode == 0 else None
