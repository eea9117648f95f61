"""Python candidates that compile when they are imported or first called: which they are, and where they may keep it.

Such a candidate gets the time of a build where others have that of a call, and a folder that belongs to its content.
Both are bounded and nothing hangs on who gets them, so reading the source is enough: a name that resolves to one of
the usual doors of compilers.
"""

from __future__ import annotations

import ast
import importlib.metadata
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from . import cpp
from .cache import Store, key

if TYPE_CHECKING:
    from ..candidate import Candidate

FORMAT: Final = "first call 1"  # change it when what is kept no longer fits

# Dotted names; what lies below a name is meant too.
_DOORS: Final = (
    "torch.compile", "torch._dynamo", "torch._inductor", "torch.utils.cpp_extension", "tvm_ffi.cpp", "triton", "numba",
    "cutlass", "tilelang", "cupy", "cffi", "subprocess",
)  # fmt: skip
_METHODS: Final = ("compile", "load_inline")  # of objects whose origin the source does not show
_MOST_BYTES: Final = 64 << 20


def compiles(candidate: Candidate) -> bool:
    """Whether a Python candidate's sources name something that compiles; one that does not parse names nothing."""
    return candidate.language == "python" and any(map(_names_a_door, candidate.sources))


def folder(candidate: Candidate, store: Store) -> Path | None:
    """Where children of this content may keep what they compile: a place for `sandbox.kept`.

    `None` where the content cannot be read, or is out of all proportion.
    """
    try:
        parts = [FORMAT, *_machine(), *_content(candidate)]
    except (OSError, ValueError):
        return None
    return store.root.absolute() / "kept" / key(parts)


def baselines_folder(store: Store, threads: int) -> Path:
    """Where children that compile references keep what they compile: a place for `sandbox.kept`."""
    return store.root.absolute() / "kept" / key([FORMAT, "baselines", str(threads), *_machine()])


def _names_a_door(source: Path) -> bool:
    try:
        tree = ast.parse(source.read_bytes())
        return any(_opens(name) for name in _names(tree))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _opens(name: str) -> bool:
    """Whether a dotted name leads into a door, or to a method of something unknown that is called like one."""
    if any(name == door or name.startswith(f"{door}.") for door in _DOORS):
        return True
    origin, _, method = name.rpartition(".")
    return method in _METHODS and origin.startswith("?")


def _names(tree: ast.AST) -> Iterator[str]:
    """Dotted names of all that is imported or reached through an import, by the names of their origin.

    An attribute of anything else has `?` for its origin.
    """
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield each.name
                first = each.name.partition(".")[0]
                known[each.asname or first] = each.name if each.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                known[each.asname or each.name] = f"{node.module}.{each.name}"
                yield known[each.asname or each.name]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield _dotted(node, known)


def _dotted(node: ast.expr, known: dict[str, str]) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    origin = known.get(node.id, "?") if isinstance(node, ast.Name) else "?"
    return ".".join([origin, *reversed(parts)])


def _machine() -> list[str]:
    """What compiled code depends on beside its source."""
    parts = [sys.version, cpp.cpu_features()]
    parts += [f"{name} {importlib.metadata.version(name)}" for name in ("apache-tvm-ffi", "torch")]
    for variable in ("CC", "CXX"):
        compiler = os.environ.get(variable) or {"CC": "gcc", "CXX": "g++"}[variable]
        found = shutil.which(compiler)
        parts.append(compiler)
        if found is not None:
            status = os.stat(found)
            parts.append(f"{os.path.realpath(found)} {status.st_size} {status.st_mtime_ns}")
    return parts


def _content(candidate: Candidate) -> Iterator[str | bytes]:
    """Names and bytes of all files that the candidate's children may read of it. Raises `OSError` and `ValueError`."""
    total = 0
    for place in dict.fromkeys((candidate.path, *candidate.include)):
        yield "folder" if place.is_dir() else "file"
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                continue
            total += status.st_size
            if total > _MOST_BYTES:
                raise ValueError(f"{place} has more than {_MOST_BYTES} bytes")
            yield path.relative_to(place).as_posix()
            yield path.read_bytes()
