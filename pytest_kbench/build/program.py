"""The one door of the room: a candidate becomes a program that a child can load."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..device import CPU
from ..record import Reason
from ..sandbox.host import Failure, Limits, Program
from . import cpp, cuda, first_call, sanitized, torch_form, tvm_ffi
from .cache import Store
from .errors import BuildError
from .sources import MOST_OF_ONE, Sources, gather

if TYPE_CHECKING:
    from ..candidate import Candidate
    from ..options import Sanitizer
    from ..sandbox.host import Sandbox


def prepare(
    candidate: Candidate,
    entry_points: tuple[str, ...],
    sandbox: Sandbox,
    store: Store,
    limits: Limits,
    seconds: float,
    sanitizer: Sanitizer | None = None,
    device: str = "cpu",
) -> Program | Failure:
    """What a child loads for this candidate on `device`; C++ and CUDA are compiled within `seconds`, or from `store`.

    `entry_points` are tried in their order: the task's function name, then `forward`. What is wrong with the candidate
    is a `Failure`. For a `sanitizer` it is built as usual, then once more; what that one cannot judge is a `Failure` as
    `UNSUPPORTED`. Raises `EnvironmentFault` for what is not the candidate's doing: no compiler, no runtime of the
    sanitizer, or a cache that cannot be used.
    """
    if sanitizer is not None and candidate.language != "cpp":
        return Failure(Reason.UNSUPPORTED, f"a sanitizer judges C++, and {candidate.name} is not.")
    if (large := next(filter(_is_too_large, candidate.sources), None)) is not None:
        reason = Reason.LOAD if candidate.language == "python" else Reason.COMPILE
        return Failure(reason, f"{large.name} has more than {MOST_OF_ONE >> 20} MiB. Split it, or keep data elsewhere.")
    if candidate.language == "python" and device == CPU and _imports_triton(candidate):
        return Failure(Reason.DEVICE, "it imports triton, which needs CUDA, and this run grades on the CPU.")
    if candidate.language == "python":
        compiles = first_call.compiles(candidate)
        kept = first_call.folder(candidate, store) if compiles else None
        return Program(
            "python", candidate.path, entry_points, candidate.include, compiles=compiles, kept=kept, device=device
        )
    if candidate.language == "cuda" and device == CPU:
        return Failure(Reason.DEVICE, "it needs CUDA, and this run grades on the CPU.")
    try:
        sources = gather(candidate)
        flags = cpp.flags_of(sources.units, candidate.flags, candidate.path)
    except BuildError as error:
        return Failure(Reason.COMPILE, str(error))
    binding = _binding(sources, entry_points[0])
    if isinstance(binding, Failure):
        return binding
    if candidate.language == "cuda":
        made = cuda.build(candidate, sources, binding, entry_points, sandbox, store, limits, seconds)
        return made if isinstance(made, Failure) else replace(made, device=device)
    build = torch_form.build if binding == "torch" else tvm_ffi.build
    made = build(candidate, sources, flags, entry_points, sandbox, store, limits, seconds)
    if sanitizer is None or isinstance(made, Failure):
        return made
    if (why := sanitized.blind(sanitizer, made.path)) is not None:
        return Failure(Reason.UNSUPPORTED, why)
    runtime, flags = sanitized.runtime(sanitizer), (*flags, *sanitized.FLAGS[sanitizer])
    made = build(candidate, sources, flags, entry_points, sandbox, store, limits, seconds)
    return made if isinstance(made, Failure) else replace(made, runtime=runtime)


def _binding(sources: Sources, name: str) -> cpp.Binding | Failure:
    """How the sources bind, or that they do not, with an example of a function of this name."""
    found = {cpp.binding_of(source.text) for source in sources.units}
    if "tvm-ffi" in found:
        return "tvm-ffi"
    if "torch" not in found:
        what = "it exports no function: neither a tvm-ffi export nor a torch binding was found in its sources."
        return Failure(Reason.BINDING, what, tvm_ffi.EXAMPLE.format(name=name))
    if not torch_form.binds(sources):
        what = "it exports no function: no PYBIND11_MODULE and no TORCH_LIBRARY was found in its sources."
        return Failure(Reason.BINDING, what, torch_form.EXAMPLE.format(name=name))
    return "torch"


def needs_cuda(candidate: Candidate) -> bool:
    """Whether no CPU can run the candidate: CUDA sources, or Triton."""
    return candidate.language == "cuda" or (candidate.language == "python" and _imports_triton(candidate))


def _is_too_large(source: Path) -> bool:
    try:
        return source.stat().st_size > MOST_OF_ONE
    except OSError:
        return False  # whoever reads it says so


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
