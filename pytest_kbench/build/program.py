"""The one door of the room: a candidate becomes a program that a child can load."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..record import Reason
from ..sandbox.host import Failure, Limits, Program
from . import tvm_ffi
from .cache import Store

if TYPE_CHECKING:
    from ..candidate import Candidate
    from ..sandbox.host import Sandbox


def prepare(
    candidate: Candidate, entry_points: tuple[str, ...], sandbox: Sandbox, store: Store, limits: Limits, seconds: float
) -> Program | Failure:
    """What a child loads for this candidate; C++ is compiled within `seconds`, or comes from `store`.

    `entry_points` are tried in their order: the task's function name, then `forward`. What is wrong with the candidate
    is a `Failure`. Raises `CacheError` when the cache folder cannot be used, which is not the candidate's doing.
    """
    if candidate.language == "python" and _imports_triton(candidate):
        return Failure(Reason.DEVICE, "it imports triton, which needs CUDA, and this version grades on the CPU.")
    if candidate.language == "python":
        return Program("python", candidate.path, entry_points, candidate.include)
    if candidate.language == "cuda":
        return Failure(Reason.DEVICE, "it needs CUDA, and this version grades on the CPU.")
    return tvm_ffi.build(candidate, entry_points, sandbox, store, limits, seconds)


def _imports_triton(candidate: Candidate) -> bool:
    """Whether a source imports triton, at any depth; one that does not parse says so when it is loaded."""
    for source in candidate.sources:
        try:
            tree = ast.parse(source.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in ast.walk(tree):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            if any(name.partition(".")[0] == "triton" for name in names):
                return True
    return False
