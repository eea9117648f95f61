"""What ninja is told: one object per unit, in parallel, and one library of them. Pure text."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .errors import EnvironmentFault

FILE: Final = "build.ninja"


@dataclass(frozen=True, slots=True)
class Tools:
    """Commands of one build: compilers by a unit's suffix (before `-c in -o out`), and the linker's both ends."""

    compilers: Mapping[str, tuple[str, ...]]
    linker: tuple[str, ...]
    libraries: tuple[str, ...]


def plan(tools: Tools, units: Sequence[str], output: str) -> str:
    """The text of a build file that makes `output` of `units`, which lie beside it and have plain names."""
    lines = ["ninja_required_version = 1.3"]
    for suffix, command in tools.compilers.items():
        lines += [f"rule compile{suffix}", f"  command = {_shell(command)} -c $in -o $out"]
    lines += ["rule link", f"  command = {_shell(tools.linker)} $in {_shell(tools.libraries)} -o $out"]
    for unit in units:
        lines.append(f"build {object_of(unit)}: compile{Path(unit).suffix} {unit}")
    lines.append(f"build {output}: link {' '.join(map(object_of, units))}")
    return "\n".join([*lines, f"default {output}", ""])


def single(command: Sequence[str], output: str) -> str:
    """The text of a build file that makes `output` by one command."""
    rule = ["rule make", f"  command = {_shell(command)}", f"build {output}: make", f"default {output}"]
    return "\n".join(["ninja_required_version = 1.3", *rule, ""])


def object_of(unit: str) -> str:
    """The object file of a unit."""
    return f"{unit}.o"


def check() -> None:
    """Raises `EnvironmentFault` where there is no ninja."""
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    if shutil.which("ninja", path=places) is None:
        raise EnvironmentFault("it is not on PATH", path=Path("ninja"), fix="Install it: `pip install ninja`.")


def _shell(words: Sequence[str]) -> str:
    """Words as a shell takes them, in a file in which ninja gives `$` a meaning."""
    return shlex.join(words).replace("$", "$$")
