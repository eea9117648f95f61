"""Build a C++ candidate into a library that is called through tvm-ffi: destination passing, no torch headers.

The compiler runs in a locked-down child and sees copies of the candidate's own files, in a folder that goes away. What
it made is copied into the cache by the grader.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..record import Reason
from ..sandbox.host import CompileJob, Failure, Limits, Program
from . import cpp
from .cache import Store, key
from .errors import BuildError, CacheError, EnvironmentFault
from .sources import Sources, gather

if TYPE_CHECKING:
    from ..candidate import Candidate
    from ..sandbox.host import Sandbox

FORMAT: Final = "tvm-ffi 2"  # change it when the same sources would be built differently
LIBRARY: Final = "kernel.so"
MOST_LINES: Final = 40
MOST_LIBRARY_BYTES: Final = 256 << 20

EXAMPLE: Final = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
using tvm::ffi::TensorView;
void {name}(TensorView x, TensorView y) {{ /* the task's arguments in order, outputs last: fill y */ }}
TVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, {name});"""

_ERROR: Final = re.compile(
    r"(?:^|\s)(?:fatal |internal compiler )?error:|:\d+: Error: |undefined reference to|multiple definition of"
)
_CONTEXT: Final = re.compile(
    r"^\s+from |In file included from|In instantiation of|In substitution of|required (from|by)"
)
_NOISE: Final = re.compile(r"^(ninja: |ninja exited |\[\d+/\d+\] |\S+ -MMD -MF |FAILED: |stdout:$|stderr:$)")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_./+@%=,~^-]")


def build(
    candidate: Candidate, entry_points: tuple[str, ...], sandbox: Sandbox, store: Store, limits: Limits, seconds: float
) -> Program | Failure:
    """The candidate's library, from the cache or compiled now within `seconds`.

    What is wrong with the candidate comes back as a `Failure`: `BINDING`, `COMPILE`, `TIMEOUT` or `MEMORY`. Raises
    `EnvironmentFault` for what is not its doing: a cache that cannot be used (`CacheError`), no compiler that works, or
    another process that builds the same for longer than `seconds`, which are not counted as compiling.
    """
    try:
        sources = gather(candidate)
        flags = cpp.flags_of(sources.units)
    except BuildError as error:
        return Failure(Reason.COMPILE, str(error))
    if (unbound := _unbound(sources, entry_points)) is not None:
        return unbound
    this_build = key(_parts(sources, flags))
    try:
        with store.locked(this_build, seconds=seconds) as entry:
            if not entry.complete:
                with store.workplace() as place:
                    made = _compile(sources, flags, place, sandbox, limits, seconds)
                    if isinstance(made, Failure):
                        return _readable(made, sources, place, seconds)
                    with entry.writing() as folder:
                        _copy_library(made, folder / LIBRARY)
            return Program("tvm-ffi", entry.path / LIBRARY, entry_points)
    except TimeoutError as error:
        raise EnvironmentFault(
            f"another process has been building the same candidate for {seconds:g} s",
            path=candidate.path,
            fix="Wait for it, or end it.",
        ) from error


def _unbound(sources: Sources, entry_points: tuple[str, ...]) -> Failure | None:
    """The failure of a candidate that is not bound through tvm-ffi."""
    bindings = {cpp.binding_of(source.text) for source in sources.units}
    example = EXAMPLE.format(name=entry_points[0])
    if "tvm-ffi" in bindings:
        return None
    if "torch" in bindings:
        return Failure(
            Reason.BINDING,
            "it binds through torch's C++ extension, which this version does not build: "
            "C++ candidates are bound through tvm-ffi.",
            example,
        )
    return Failure(Reason.BINDING, "it exports no function: no tvm-ffi export was found in its sources.", example)


def _compiler() -> str:
    """What the compiler says of itself. Raises `EnvironmentFault` where there is none that works."""
    name = cpp.compiler_name()
    fix = "Install g++ or clang++, or set CXX to one."
    if (found := cpp.compiler()) is None:
        raise EnvironmentFault("there is no such C++ compiler on PATH", path=Path(name), fix=fix)
    try:
        return cpp.compiler_version(found)
    except subprocess.TimeoutExpired as error:
        what = f"the C++ compiler does not answer `--version` within {error.timeout:g} s"
        raise EnvironmentFault(what, path=Path(found), fix=fix) from error
    except OSError as error:
        what = f"the C++ compiler cannot be run ({(error.strerror or str(error)).lower()})"
        raise EnvironmentFault(what, path=Path(found), fix=fix) from error


def _parts(sources: Sources, flags: Sequence[str]) -> list[str | bytes]:
    """All that a library depends on."""
    parts: list[str | bytes] = [FORMAT, *flags, "compiler", _compiler(), cpp.cpu_features()]
    parts += [f"{name} {importlib.metadata.version(name)}" for name in ("apache-tvm-ffi", "torch")]
    parts += ["include", *sources.include]
    for source in sources.files:
        parts += [source.staged, "unit" if source.unit else "header", source.data]
    return parts


def _compile(
    sources: Sources, flags: Sequence[str], place: Path, sandbox: Sandbox, limits: Limits, seconds: float
) -> Path | Failure:
    """Stage the sources in `place`, whose path must suit ninja and a shell, and compile them there."""
    if _UNSAFE.search(str(place)):
        raise CacheError(
            "the path has characters that compilers and ninja do not take",
            path=place.parent,
            fix="Set XDG_CACHE_HOME to a folder of plain letters, digits and `_./-`.",
        )
    units = []
    try:
        sources.stage(place)
        for number, source in enumerate(sources.units):
            # The file's own name may be anything: the compiler is given one that includes it.
            unit = place / f"unit{number}.cpp"
            unit.write_text(f'#include "{source.staged}"\n', "utf-8", "surrogateescape")
            units.append(unit)
    except OSError as error:
        raise CacheError.of(error, place) from error
    job = CompileJob("kernel", tuple(units), tuple(flags), tuple(place / name for name in sources.include), place)
    return sandbox.compile(job, limits, seconds)


def _copy_library(made: Path, target: Path) -> None:
    """Copy what the child made into a file that the child has never been able to write."""
    descriptor = os.open(made, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as source:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_LIBRARY_BYTES:
            raise CacheError("what the compiler left is no library", path=made, fix="Build again.")
        target.write_bytes(source.read(MOST_LIBRARY_BYTES))
    target.chmod(0o500)


def _readable(failure: Failure, sources: Sources, place: Path, seconds: float) -> Failure:
    """A build's failure as its author wants to read it: their own file names, from the first error on, bounded."""
    if failure.reason is Reason.TIMEOUT:
        return Failure(Reason.TIMEOUT, f"compiling took longer than {seconds:g} s.", failure.detail)
    if failure.reason is not Reason.COMPILE:
        return failure
    lines = [_shortened(line, sources, place) for line in (failure.detail or failure.message).splitlines()]
    lines = [line for line in lines if not _NOISE.match(line)]
    first = next((number for number, line in enumerate(lines) if _ERROR.search(line)), None)
    if first is None:
        return Failure(Reason.COMPILE, "the compiler failed without an error message.", "\n".join(lines[-MOST_LINES:]))
    start = first
    own = tuple(source.shown for source in sources.files)
    if not lines[first].startswith(own):
        while start > 0 and first - start < MOST_LINES // 2 and _CONTEXT.search(lines[start - 1]):
            start -= 1
    shown = lines[start : start + MOST_LINES]
    if len(lines) > start + MOST_LINES:
        shown.append(f"... {len(lines) - start - MOST_LINES} more lines")
    return Failure(Reason.COMPILE, lines[first].strip()[:300], "\n".join(line[:300] for line in shown))


def _shortened(line: str, sources: Sources, place: Path) -> str:
    """The line with the names of staged copies replaced by those that messages use."""
    line = line.replace(f"{place}/", "")
    for source in sources.files:
        line = line.replace(source.staged, source.shown)
    return line
