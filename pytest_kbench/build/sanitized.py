"""C++ candidates built once more for a sanitizer: the flags, the runtime, and what cannot be judged in this way."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ..options import Sanitizer
from ..sandbox.host import Runtime
from . import cpp
from .errors import EnvironmentFault

# Last on the command line, so that they win: optimised enough to end, not so much that a frame or an access goes.
_COMMON: Final = ("-fno-omit-frame-pointer", "-g", "-O1")
FLAGS: Final[Mapping[Sanitizer, tuple[str, ...]]] = {
    "address": ("-fsanitize=address", *_COMMON),
    "thread": ("-fsanitize=thread", *_COMMON),
}
_LIBRARIES: Final[Mapping[Sanitizer, str]] = {"address": "libasan.so", "thread": "libtsan.so"}
_OPENMP: Final = re.compile(rb"\0(?:GOMP_(?:parallel|task)|__kmpc_fork)")  # what a library asks of OpenMP's runtime


def runtime(sanitizer: Sanitizer) -> Runtime:
    """The compiler's runtime for a sanitizer. Raises `EnvironmentFault` where it has none."""
    name, compiler = _LIBRARIES[sanitizer], cpp.compiler_name()
    cpp.compiler()
    library = _library(compiler, name)
    if not library.is_absolute() or not library.exists():
        what = f"this compiler has no {name}, which --kbench-sanitize={sanitizer} needs"
        raise EnvironmentFault(what, path=Path(compiler), fix="Install it, or set CXX to a g++ that has it.")
    return Runtime(sanitizer, library.resolve())


@functools.cache
def _library(compiler: str, name: str) -> Path:
    """Where a compiler has a library; the bare name where it has none."""
    asked = subprocess.run(
        [compiler, f"-print-file-name={name}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        stdin=subprocess.DEVNULL,
    )
    return Path(asked.stdout.strip())


def blind(sanitizer: Sanitizer, library: Path) -> str | None:
    """Why a sanitizer cannot judge a candidate, told from its plain library; `None` where it can.

    ThreadSanitizer does not see how the threads of OpenMP's runtime wait for one another, and would accuse it.
    """
    if sanitizer == "thread" and _OPENMP.search(library.read_bytes()):
        return "ThreadSanitizer judges std::thread, and this uses OpenMP."
    return None
