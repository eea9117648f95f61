"""What the grader says to its sandbox, and what it hears: frozen data, no work.

A `Failure` is a candidate's, unless its reason is `ENVIRONMENT`; the exceptions are this machine's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import torch

from ..options import Sanitizer
from ..record import Reason
from .memory import available_memory


class SandboxError(Exception):
    """No child can be made here; the message says why."""


class NoDeviceMemory(SandboxError):
    """A GPU has no memory left to share with a child."""


class SandboxRefused(SandboxError):
    """`strict` was asked for, and `layers` (name to reason) are not to be had on this machine."""

    def __init__(self, layers: Mapping[str, str]) -> None:
        self.layers = dict(layers)
        named = "; ".join(f"{name}: {why}" for name, why in layers.items())
        super().__init__(
            f"layers of the sandbox are refused here ({named}); grade without strict to go on without them"
        )


def same_process(creator: int) -> None:
    """Raises `SandboxError` in a fork of the process `creator`: children and files are that one's."""
    if os.getpid() != creator:
        raise SandboxError("made before a fork; make another Grader in this process")


_LEAST_MEMORY: Final = 256 << 20  # below it even honest kernels are refused


def _default_memory() -> int:
    """Three quarters of the memory that is available now to this process, in bytes."""
    available = available_memory()
    if available is None:
        raise SandboxError("/proc/meminfo does not say how much memory is available")
    return max(available * 3 // 4, _LEAST_MEMORY)


@dataclass(frozen=True, slots=True)
class Limits:
    """All bounded quantities of one child. Sizes are bytes; `processes` counts threads too.

    `memory_bytes` holds for private memory by RLIMIT_DATA, and for all memory of the child's tree by watching it.
    `address_bytes` are what a process may map beyond it (RLIMIT_AS), which bounds its page tables; `None`: no limit, as
    CUDA needs it. `build_bytes` are what a compiler may write to disk.
    `output_bytes` is what one request may write to stdout and stderr; of it `output_kept` are kept at either end.
    `threads` are torch's and OpenMP's in the child. A child that is to be timed has CPUs of its own, which it cannot
    leave, and lets the grader read its memory.
    """

    memory_bytes: int = field(default_factory=_default_memory)
    processes: int = 256
    file_bytes: int = 1 << 30
    scratch_bytes: int = 512 << 20
    build_bytes: int = 1 << 30
    address_bytes: int | None = 64 << 30
    output_bytes: int = 64 << 20
    output_kept: int = 8192
    threads: int | None = None
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Runtime:
    """A sanitizer's runtime: a library of the compiler's that must be loaded into a process before all others."""

    sanitizer: Sanitizer
    file: Path


@dataclass(frozen=True, slots=True)
class Program:
    """What a child loads: a Python file or package folder, or a library. `entry_points` are tried in order.

    `compiles` says that its source names a compiler, so that a call may take longer; `kept` is the place (see
    `kept.py`) of what its children compile, if they may keep it. `facts` (name, value) are what its build has to tell.
    A library that was built for a sanitizer names the `runtime` that it needs. A `reference` is the task's own file, as
    trusted as the grader, which imports it too: its child is not locked down, and `kept` is a folder that it shares
    with others. It may go through `torch.compile` in a `mode`. `device` is where the tensors of its calls lie: "cpu",
    or a GPU as torch names it.
    """

    binding: Literal["python", "tvm-ffi", "torch", "reference"]
    path: Path
    entry_points: tuple[str, ...]
    readable: tuple[Path, ...] = ()
    compiles: bool = False
    kept: Path | None = None
    facts: tuple[tuple[str, str], ...] = ()
    runtime: Runtime | None = None
    mode: str | None = None
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class CompileJob:
    """One file to make with ninja: `output`, a target of the `build.ninja` in `directory`, below which it is made.

    `directory` is absolute and exists; the child may write only there, and read there and what is `readable`.
    """

    output: str
    directory: Path
    readable: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with one request. `message` is one line; `detail` a traceback or captured output, bounded."""

    reason: Reason
    message: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor to pass: `values` in its logical shape, and how it shall lie in the child.

    `strides`, `offset` and `storage` are in elements; `storage` is at least what the others reach, the rest is
    poisoned. Where strides make elements coincide (0: expanded), the first of them is sent. The candidate may write
    an `in_place` argument; its value afterwards is an output as well.
    """

    name: str
    values: torch.Tensor
    strides: tuple[int, ...]
    offset: int
    storage: int
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class ValueArgument:
    """A number, text or absent argument to pass."""

    name: str
    value: int | float | bool | str | None


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """What golden says an output is."""

    dtype: torch.dtype
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OutputClaim:
    """What the child says of a returned object. A claim: nothing here is known.

    `kind` is "tensor" or the type's name; `aliases` names tensor arguments whose memory it touches; `callables` are
    callable attributes of the object, or the name of its Tensor subclass.
    """

    kind: str
    dtype: str | None
    shape: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    device: str | None
    aliases: tuple[str, ...] = ()
    callables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Returned:
    """One call that came back.

    `outputs` are private copies, one per `OutputSpec`, taken once; `None` where the claim does not fit the spec.
    `in_place` are private copies of in-place arguments. `changed` names other tensor arguments whose elements differ
    from what was sent; `overran` names arguments and outputs ("output 0") beside whose elements memory was written.
    `seconds` are of the grader's own clock: "place", "call", "collect".
    """

    claims: tuple[OutputClaim, ...]
    outputs: tuple[torch.Tensor | None, ...]
    in_place: dict[str, torch.Tensor]
    changed: tuple[str, ...]
    overran: tuple[str, ...]
    seconds: dict[str, float]
    gradients: Gradients | None = None


@dataclass(frozen=True, slots=True)
class Gradients:
    """What a backward left: per name in `names` a claim and a private copy (see `Returned`); nothing for the rest.

    `extra` counts objects beyond those due, `rewritten` says that the forward's outputs are not what they were.
    """

    names: tuple[str, ...] = ()
    claims: tuple[OutputClaim | None, ...] = ()
    values: tuple[torch.Tensor | None, ...] = ()
    extra: int = 0
    rewritten: bool = False
