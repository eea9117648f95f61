"""Build a C++ candidate into a library that is called through tvm-ffi: destination passing, no torch headers.

The compiler runs in a locked-down child and sees copies of the candidate's own files, in a folder that goes away. What
it made is copied into the cache by the grader.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tvm_ffi.libinfo

from ..sandbox.host import Failure, Limits, Program
from . import cpp, library, ninja
from .cache import Store, key
from .messages import readable
from .sources import Sources

if TYPE_CHECKING:
    from ..candidate import Candidate
    from ..sandbox.host import Sandbox

FORMAT: Final = "tvm-ffi 3"  # change it when the same sources would be built differently

EXAMPLE: Final = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
using tvm::ffi::TensorView;
void {name}(TensorView x, TensorView y) {{ /* the task's arguments in order, outputs last: fill y */ }}
TVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, {name});"""


def build(
    candidate: Candidate,
    sources: Sources,
    flags: Sequence[str],
    entry_points: tuple[str, ...],
    sandbox: Sandbox,
    store: Store,
    limits: Limits,
    seconds: float,
) -> Program | Failure:
    """The candidate's library, from the cache or compiled now within `seconds`; see `program.prepare`."""
    this_build = key([FORMAT, *cpp.parts(sources, flags, "apache-tvm-ffi", "torch")])
    with library.entry_of(store, this_build, candidate.path, seconds) as entry:
        if not entry.complete:
            ninja.check()

            def make(place: Path) -> Path | Failure:
                traced = (*flags, *cpp.own_paths(flags, sources, place))
                return library.compiled(sources, tools(sources, traced), place, sandbox, limits, seconds)

            if (failure := library.built(entry, store, make)) is not None:
                return readable(failure, sources, seconds)
        return Program("tvm-ffi", entry.path / library.LIBRARY, entry_points)


def tools(sources: Sources, flags: Sequence[str]) -> ninja.Tools:
    """The commands of a build."""
    compiler = (cpp.compiler_name(), "-fPIC", *flags, *includes(sources))
    return ninja.Tools({".cpp": compiler}, (cpp.compiler_name(), "-shared"), (*libraries(), *cpp.linked(flags)))


def includes(sources: Sources) -> tuple[str, ...]:
    """Where headers are looked for: the candidate's own folders, then tvm-ffi's."""
    own = [f"-I{folder}" for folder in sources.include]
    theirs = [tvm_ffi.libinfo.find_include_path(), tvm_ffi.libinfo.find_dlpack_include_path()]
    return (*own, *(f"-I{folder}" for folder in dict.fromkeys(theirs)))


def libraries() -> tuple[str, ...]:
    """What the linker is given."""
    return (f"-L{Path(tvm_ffi.libinfo.find_libtvm_ffi()).parent}", "-ltvm_ffi")
