"""What a C++ source says of its own build: how it binds, and which flags it asks for."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

from .errors import BuildError, EnvironmentFault
from .sources import OWN, Source, Sources

Binding = Literal["tvm-ffi", "torch"]

DEFAULT_FLAGS: Final = ("-O3", "-march=native", "-std=c++20", "-fopenmp")

_ALLOWED: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"-O[0123sg]",
        r"-g[0123]?",
        r"-std=(c|gnu)\+\+(17|20|23|2a|2b)",
        r"-m(arch|tune)=[A-Za-z0-9_.+-]+",
        r"-m(no-)?(sse|ssse|avx|amx|fma|f16c|bmi|popcnt|lzcnt|movbe|aes|vaes|gfni|pclmul|vpclmul|sha|adx)[a-z0-9.-]*",
        r"-mprefer-vector-width=(none|128|256|512)",
        r"-f(no-)?(openmp|openmp-simd|unroll-loops|unroll-all-loops|peel-loops|split-loops|tree-vectorize"
        r"|tree-loop-vectorize|tree-slp-vectorize|vectorize|slp-vectorize|inline|inline-functions|ipa-cp-clone"
        r"|prefetch-loop-arrays|omit-frame-pointer|strict-aliasing|strict-overflow|wrapv|exceptions|rtti"
        r"|math-errno|trapping-math)",
        r"-ffp-contract=(off|on|fast)",
        r"-D[A-Za-z_][A-Za-z0-9_]*(=[A-Za-z0-9_.+-]*)?",
        r"-W(no-)?[a-z0-9+-]+(=[0-9]+)?",
    )
)
_ALLOWED_IN_WORDS: Final = (
    "Allowed are -O0 to -O3, -Os, -std=c++17|20|23, -march=, -mtune= and -m<instruction set>, -mprefer-vector-width=, "
    "-D<name>=<value>, -W<warning>, -g, -ffp-contract=, -fopenmp, and -f[no-] of unroll-loops, tree-vectorize, inline, "
    "strict-aliasing, math-errno, trapping-math and their like. Fast math changes what is computed and is not allowed."
)
_PRAGMA: Final = re.compile(r"^[ \t]*//[ \t]*kbench:[ \t]*(.*?)[ \t\r]*$")

# Comments and literals, in one pass: whichever begins first hides the other.
_COMMENT_OR_LITERAL: Final = re.compile(
    r"""
      (?P<comment> //(?:\\\r?\n|[^\n])* | /\*.*?(?:\*/|\Z) )
    | R"(?P<raw>[^\s()\\]{0,16})\(.*?(?:\)(?P=raw)"|\Z)
    | "(?:\\.|[^"\\\n])*"
    | (?<![0-9A-Za-z])'(?:\\.|[^'\\\n])*'
    """,
    re.VERBOSE | re.DOTALL,
)
_TVM_FFI: Final = re.compile(r"^[ \t]*\#[ \t]*include[ \t]*[<\"]tvm/ffi/|\bTVM_FFI_[A-Z]", re.MULTILINE)
_TORCH: Final = re.compile(
    r"^[ \t]*\#[ \t]*include[ \t]*[<\"](?:torch/(?:extension|library|torch|all|python)\.h|pybind11/)"
    r"|\b(?:PYBIND11_MODULE|TORCH_LIBRARY(?:_IMPL|_FRAGMENT)?)\b",
    re.MULTILINE,
)
_LONGEST_INCLUDE: Final = 200  # characters of a line before the name of what it includes
_QUOTED_INCLUDE: Final = re.compile(r"#[ \t]*include[ \t]*\Z")


def without_comments(text: str) -> str:
    """C++ source with comments blanked and literals emptied, but for the names of included files."""

    def blank(match: re.Match[str]) -> str:
        if match["comment"] is not None:
            return "\n" * match[0].count("\n") or " "
        before = text[max(match.start() - _LONGEST_INCLUDE, 0) : match.start()]
        line = before[before.rfind("\n") + 1 :]
        return match[0] if _QUOTED_INCLUDE.search(line) else '""'

    return _COMMENT_OR_LITERAL.sub(blank, text)


def binding_of(source_text: str) -> Binding | None:
    """How a C++ or CUDA source binds, told from its headers and macros; `None` where it says nothing.

    A source that names both is bound through tvm-ffi only if it exports through it.
    """
    code = without_comments(source_text)
    if "TVM_FFI_DLL_EXPORT" in code:
        return "tvm-ffi"
    if _TORCH.search(code):
        return "torch"
    return "tvm-ffi" if _TVM_FFI.search(code) else None


def flags_of(sources: Iterable[Source], given: Sequence[str] = (), path: Path | None = None) -> tuple[str, ...]:
    """The default flags, those `given` for the candidate at `path`, then those that `// kbench: flags=` lines ask for.

    Raises `BuildError` at the first flag that is not on the list, with file and line where a source asks for it, and
    at a `// kbench:` line of another kind.
    """
    asked = _allowed_flags(given, path or Path("conftest.py"))
    for source in sources:
        for number, line in enumerate(source.text.split("\n"), start=1):
            if match := _PRAGMA.match(line):
                asked += _allowed_flags(_directive(match[1], source.path, number), source.path, number)
    return (*DEFAULT_FLAGS, *asked)


def _directive(directive: str, path: Path, line: int) -> list[str]:
    key, equals, value = directive.partition("=")
    if key.strip() != "flags" or not equals:
        raise BuildError(
            f"nothing is known of {directive[:80]!r} here",
            path=path,
            line=line,
            fix="Write `// kbench: flags=-O2 -funroll-loops`.",
        )
    return value.split()


def _allowed_flags(flags: Sequence[str], path: Path, line: int | None = None) -> list[str]:
    for flag in flags:
        if not any(pattern.fullmatch(flag) for pattern in _ALLOWED):
            raise BuildError(f"the flag {flag[:80]!r} is not allowed", path=path, line=line, fix=_ALLOWED_IN_WORDS)
    return list(flags)


def compiler_name() -> str:
    """The C++ compiler that a build uses: `$CXX`, else the first there is of `c++`, `g++` and `clang++`."""
    return os.environ.get("CXX") or next(filter(shutil.which, ("c++", "g++", "clang++")), "c++")


def compiler() -> str:
    """What the C++ compiler says of itself. Raises `EnvironmentFault` where there is none that works."""
    return checked_version(compiler_name(), "C++ compiler", "Install g++ or clang++, or set CXX to one.")


def checked_version(name: str, kind: str, fix: str) -> str:
    """What a compiler says of itself. Raises `EnvironmentFault` where it is not to be found or does not work."""
    if (found := shutil.which(name)) is None:
        raise EnvironmentFault(f"there is no such {kind} on PATH", path=Path(name), fix=fix)
    try:
        return compiler_version(found)
    except subprocess.TimeoutExpired as error:
        what = f"the {kind} does not answer `--version` within {error.timeout:g} s"
        raise EnvironmentFault(what, path=Path(found), fix=fix) from error
    except OSError as error:
        what = f"the {kind} cannot be run ({(error.strerror or str(error)).lower()})"
        raise EnvironmentFault(what, path=Path(found), fix=fix) from error


def parts(sources: Sources, flags: Sequence[str], *packages: str) -> list[str | bytes]:
    """All that a library depends on: flags, compiler, processor, versions of these packages, every source.

    Raises `EnvironmentFault` where no C++ compiler works.
    """
    found: list[str | bytes] = [*flags, "compiler", compiler(), cpu_features()]
    found += [f"{name} {importlib.metadata.version(name)}" for name in packages]
    found += ["include", *sources.include]
    for source in sources.files:
        found += [source.staged, "unit" if source.unit else "header", source.data]
    return found


def linked(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags that the linker needs too: OpenMP and a sanitizer bring libraries.

    With OpenMP the library asks for libgomp.so.1 by the name that torch's own has: the loader takes that one again.
    """
    return tuple(flag for flag in flags if flag == "-fopenmp" or flag.startswith("-fsanitize="))


def own_paths(flags: Sequence[str], sources: Sources, place: Path) -> tuple[str, ...]:
    """Flags by which debug information names the candidate's files by relative paths, wherever they are compiled."""
    if "-g" not in flags:
        return ()
    folders = dict.fromkeys((OWN, *sources.include))
    prefixes = (
        f"{start}{folder}/" for folder in folders for start in ("", "./")
    )  # g++ writes the one, clang++ the other
    return (f"-ffile-prefix-map={place.resolve()}=.", *(f"-ffile-prefix-map={prefix}=" for prefix in prefixes))


@functools.cache
def compiler_version(path: str) -> str:
    """What the compiler says of itself, asked once per process; its path and size too where it says nothing."""
    asked = subprocess.run(
        [path, "--version"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=30,
        stdin=subprocess.DEVNULL,
    )
    return asked.stdout or f"{path} {Path(path).stat().st_size}"


@functools.cache
def cpu_features(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """What `-march=native` depends on: the machine, its model and its instruction sets."""
    wanted = {"vendor_id", "cpu family", "model", "flags", "Features", "CPU implementer", "CPU part", "CPU variant"}
    found: dict[str, str] = {}
    try:
        for line in cpuinfo.read_text("utf-8", "replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in wanted:
                found.setdefault(name.strip(), " ".join(sorted(value.split())))
    except OSError:
        found["processor"] = platform.processor()
    return "\n".join([platform.machine(), *(f"{name}: {found[name]}" for name in sorted(found))])
