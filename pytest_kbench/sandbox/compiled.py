"""A task's reference through `torch.compile`: what a zygote has ready for it, and how a child asks for it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from types import SimpleNamespace

SHAPES = 1 << 10  # that one process may compile for, before dynamo would fall back to eager without a word


def preload(place: str, *, gpu: bool = False) -> None:
    """Import the compiler, and have it find out what every process would: by a function, of this CPU, of itself.

    What it compiles for that, with the C++ compiler, it keeps in `place`, as its children do. For a GPU no more is
    imported than what does not look for one: that starts CUDA, which no fork can use.
    """
    os.makedirs(place, exist_ok=True)
    os.environ.update(TORCHINDUCTOR_CACHE_DIR=f"{place}/inductor", TORCHINDUCTOR_COMPILE_THREADS="1", TMPDIR=place)
    tempfile.tempdir = None
    import torch._dynamo
    import torch._inductor.codecache

    torch.set_num_threads(1)
    with contextlib.suppress(Exception):
        torch._inductor.codecache.torch_key()
    if not gpu:
        _know_this_cpu()
    tempfile.tempdir = None  # children have others


def _know_this_cpu() -> None:
    import torch._inductor.compile_fx
    import torch._inductor.cpu_vec_isa

    with contextlib.suppress(Exception):  # no compiler, say: whoever needs one tells of it
        torch._inductor.cpu_vec_isa.pick_vec_isa()
    torch.compile(lambda x: x + 1, backend="eager", dynamic=False)(torch.zeros(2))
    torch._dynamo.reset()


def compiled(module: object, names: Sequence[str], mode: str) -> SimpleNamespace:
    """The functions of these names, compiled anew for every shape, in one of `torch.compile`'s modes."""
    import torch._dynamo

    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = SHAPES
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    found = {name: function for name in names if callable(function := getattr(module, name, None))}
    return SimpleNamespace(
        **{name: torch.compile(function, mode=mode, dynamic=False) for name, function in found.items()}
    )
