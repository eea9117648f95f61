"""Build a C++ candidate in torch's form: `PYBIND11_MODULE` or `TORCH_LIBRARY`, tensors in and out.

torch's own `torch/extension.h` takes half a minute to compile, of which a kernel needs a fifth. Ours (include/lean)
stands before it on the search path. What it costs least to offer is chosen from the source, and a source that does not
compile with it is compiled with torch's own, which is then said; the cache remembers which it was.
"""

from __future__ import annotations

import functools
import mmap
import os
import re
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import torch

from ..record import Reason
from ..sandbox.host import Failure, Limits, Program
from . import cpp, library, ninja, precompiled
from .cache import Store, key
from .errors import EnvironmentFault
from .messages import readable
from .sources import Sources

if TYPE_CHECKING:
    from ..candidate import Candidate
    from ..sandbox.host import Sandbox

FORMAT: Final = "torch 1"  # change it when the same sources would be built differently
LEAN: Final = Path(__file__).parent / "include" / "lean"
TORCH: Final = Path(torch.__file__).parent
MODULE: Final = "kernel"  # the Python name of the library
HEADER: Final = "header"  # of an entry: which header the library was compiled with
NAMED: Final = "named/kbench_named.h"  # what a source names, written for it

Header = Literal["lean", "pybind", "full"]

EXAMPLE: Final = """\
#include <torch/extension.h>
torch::Tensor {name}(torch::Tensor x) {{ /* the task's arguments in order: return the output */ }}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("{name}", &{name}); }}"""

_BINDS: Final = re.compile(
    r"\b(?:PYBIND11_MODULE|\w*TORCH_LIBRARY\w*|RegisterOperators|PyInit_\w+|REGISTER_EXTENSION)\b"
)
_INCLUDE: Final = r"\#[ \t]*include[ \t]*[<\"]"
# What our header does not have, or has in another way (`requires_grad` is an option of torch's own factories only).
_FULL: Final = re.compile(
    rf"\brequires_grad|\btorch::(?:autograd|nn|optim|jit|serialize|data|save|load)\b"
    rf"|{_INCLUDE}torch/(?:csrc/|nn|autograd|optim|jit|serialize|script)"
)
_PYBIND: Final = re.compile(
    rf"{_INCLUDE}pybind11/"
    r"|\b(?:py|pybind11)::(?!arg\b|none\b|gil_scoped_release\b|call_guard\b|module\b|module_\b|literals\b)"
)
_VARIANT: Final = re.compile(r"(?:_outf?|_symint|_)$")  # `relu_`, `add_out`: declared beside `relu`, `add`
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADERS_OF_WORDS: Final = {
    re.compile(r"\w*TORCH_LIBRARY\w*|CppFunction|RegisterOperators|dispatch"): "torch/library.h",
    re.compile(r"AT_DISPATCH_V2|AT_WRAP|AT_EXPAND"): "ATen/Dispatch_v2.h",
    re.compile(r"indexing|Slice|Ellipsis"): "ATen/TensorIndexing.h",
    re.compile(r"OpMathType|opmath_type"): "ATen/OpMathType.h",
    re.compile(r"acc_type|acc_type_device"): "ATen/AccumulateType.h",
    re.compile(r"InferenceMode"): "c10/core/InferenceMode.h",
    re.compile(r"TensorArg|TensorGeometryArg|CheckedFrom"): "ATen/TensorUtils.h",
    re.compile(r"(?:Optional)?DeviceGuard|device_of"): "ATen/DeviceGuard.h",
    re.compile(r"globalContext"): "ATen/Context.h",
    re.compile(r"expand_inplace|expand_outplace|expand_size|infer_size"): "ATen/ExpandUtils.h",
}
# The first error of a compiler, if it is of a name: g++'s, clang's and nvcc's words for it. Others give empty text.
_MISSING: Final = re.compile(
    r"error: (?:[\u2018']?(?:\w+::)*(\w+)[\u2019']? "
    r"(?:was not declared|has not been declared|does not name a type|is not a member)"
    r"|use of undeclared identifier '(\w+)'|no member named '(\w+)'|unknown type name '(\w+)'"
    r"|identifier \"(\w+)\" is undefined|namespace \"\w+\" has no member \"(\w+)\"|)"
)
# torch's functions between Python's tensors and C++'s, as include/lean/kbench/bind.h declares them.
_BORDER: Final = (
    b"_ZN8pybind116detail11type_casterIN2at6TensorEvE4loadENS_6handleEb\0",
    b"_ZN8pybind116detail11type_casterIN2at6TensorEvE4castERKS3_NS_19return_value_policyENS_6handleE\0",
)


def binds(sources: Sources) -> bool:
    """Whether the sources have anything that makes a function known to Python or to torch's dispatcher."""
    return any(_BINDS.search(cpp.without_comments(source.text)) for source in sources.files)


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
    """The candidate's library, from the cache or compiled now within `seconds` a try; see `program.prepare`."""
    python = sysconfig.get_config_var("SOABI") or sysconfig.get_platform()
    this_build = key([FORMAT, python, *headers(), *cpp.parts(sources, flags, "torch")])
    longest = 2 * seconds + precompiled.SECONDS  # that another process may honestly take: two tries, and our header
    with library.entry_of(store, this_build, candidate.path, longest) as entry:
        if not entry.complete:
            check()
            with store.workplace() as place:
                made, header = _made(sources, flags, place, sandbox, store, limits, seconds)
                if isinstance(made, Failure):
                    return readable(made, sources, seconds)
                with entry.writing() as folder:
                    library.keep(made, folder / library.LIBRARY)
                    (folder / HEADER).write_text(header, "utf-8")
        facts = (("header", "full"),) if (entry.path / HEADER).read_text("utf-8") == "full" else ()
        return Program("torch", entry.path / library.LIBRARY, entry_points, facts=facts)


def check() -> None:
    """Raises `EnvironmentFault` where the machine lacks ninja or Python's headers."""
    ninja.check()
    if not (python_include() / "Python.h").is_file():
        raise EnvironmentFault(
            "there is no Python.h, which torch's form of C++ needs",
            path=python_include(),
            fix="Install Python's headers (python3-dev).",
        )


def _made(
    sources: Sources,
    flags: Sequence[str],
    place: Path,
    sandbox: Sandbox,
    store: Store,
    limits: Limits,
    seconds: float,
) -> tuple[Path | Failure, Header]:
    """The library compiled with the least header that will do, in a folder of its own for each try."""
    header = header_of(sources)
    if header != "full":
        ready = None
        if header == "lean" and tuple(flags) == cpp.DEFAULT_FLAGS:
            ready = precompiled.obtain(precompiled_command(flags), sandbox, store)
        made = compile_with(header, sources, flags, _folder(place, header), sandbox, limits, seconds, ready)
        if isinstance(made, Path) or made.reason is not Reason.COMPILE or not may_need_full(made):
            return made, header
    return compile_with("full", sources, flags, _folder(place, "full"), sandbox, limits, seconds), "full"


def may_need_full(failure: Failure) -> bool:
    """Whether torch's own header may have what a build with ours lacked.

    It cannot where the first error is of a name that nothing of torch's has: then trying would only cost time.
    """
    missing = next(iter(_MISSING.findall(failure.detail)), None)
    return missing is None or _named_by_torch(next(filter(None, missing), ""))


def _named_by_torch(name: str) -> bool:
    """Whether any header of torch's, pybind11 among them, has this word in its code."""
    wanted, word = name.encode(), re.compile(rf"\b{name}\b")
    for place in ("torch", "pybind11", "c10", "ATen"):
        for folder, _, files in os.walk(TORCH / "include" / place):
            if Path(folder).name == "ops":  # an operator is included by name
                continue
            for file in files:
                data = Path(folder, file).read_bytes()
                if wanted in data and word.search(cpp.without_comments(data.decode("utf-8", "replace"))):
                    return True
    return False


def _folder(place: Path, name: str) -> Path:
    folder = place / name
    folder.mkdir()
    return folder


def compile_with(
    header: Header,
    sources: Sources,
    flags: Sequence[str],
    place: Path,
    sandbox: Sandbox,
    limits: Limits,
    seconds: float,
    ready: Path | None = None,
) -> Path | Failure:
    """One try, in an empty folder. `ready` is a header that was compiled before (`precompiled.obtain`)."""
    generated = () if header == "full" else ((NAMED, named(sources)),)
    traced = (*flags, *cpp.own_paths(flags, sources, place))
    compiler = (cpp.compiler_name(), "-fPIC", *traced, *defines(header))
    if ready is not None:
        compiler += ("-include", str(ready))
    compiler += (*(f"-I{folder}" for folder in sources.include), *includes(header))
    linker = (cpp.compiler_name(), "-shared")
    tools = ninja.Tools({".cpp": compiler}, linker, (*libraries(), *cpp.linked(flags)))
    paths = () if ready is None else (ready.parent,)
    return library.compiled(sources, tools, place, sandbox, limits, seconds, generated=generated, readable=paths)


def header_of(sources: Sources) -> Header:
    """The least header that may do, told from what the sources name."""
    code = [cpp.without_comments(source.text) for source in sources.files]
    if any(_FULL.search(text) for text in code):
        return "full"
    if not crosses_border() or any(_PYBIND.search(text) for text in code):
        return "pybind"
    return "lean"


def named(sources: Sources) -> str:
    """The text of a header with torch's headers of all that the sources name: operators above all."""
    words = {word for source in sources.files for word in _WORD.findall(cpp.without_comments(source.text))}
    stems = {_VARIANT.sub("", word) for word in words}
    included = [f"ATen/ops/{word}.h" for word in sorted((words | stems) & operators())]
    for pattern, header in _HEADERS_OF_WORDS.items():
        if any(pattern.fullmatch(word) for word in words):
            included.append(header)
    return "".join(f"#include <{header}>\n" for header in included)


@functools.cache
def operators() -> frozenset[str]:
    """Names of the operators that torch has a header for."""
    return frozenset(path.stem for path in (TORCH / "include" / "ATen" / "ops").glob("*.h"))


@functools.cache
def crosses_border() -> bool:
    """Whether this torch has the two functions that our binding calls."""
    try:
        with (
            (TORCH / "lib" / "libtorch_python.so").open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return all(data.find(symbol) >= 0 for symbol in _BORDER)
    except (OSError, ValueError):
        return False


@functools.cache
def headers() -> tuple[bytes, ...]:
    """The bytes of our own headers."""
    return tuple(path.read_bytes() for path in sorted(LEAN.rglob("*.h")))


def defines(header: Header) -> tuple[str, ...]:
    """What the compiler is told of the build."""
    found = (f"-DTORCH_EXTENSION_NAME={MODULE}", "-DTORCH_API_INCLUDE_EXTENSION_H")
    return (*found, "-DKBENCH_PYBIND") if header == "pybind" else found


def includes(header: Header) -> tuple[str, ...]:
    """Where headers are looked for after the candidate's own: ours first, unless it is torch's that are wanted."""
    ours: Iterable[Path] = () if header == "full" else (Path(NAMED).parent, LEAN)
    torchs = (TORCH / "include", TORCH / "include" / "torch" / "csrc" / "api" / "include", python_include())
    return (*(f"-I{folder}" for folder in ours), *(part for folder in torchs for part in ("-isystem", str(folder))))


def python_include() -> Path:
    """Where Python.h is."""
    return Path(sysconfig.get_paths()["include"])


def libraries() -> tuple[str, ...]:
    """What the linker is given."""
    return (f"-L{TORCH / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python")


def precompiled_command(flags: Sequence[str]) -> tuple[str, ...]:
    """The command that compiles our header by itself, without input and output."""
    return (cpp.compiler_name(), "-fPIC", *flags, *defines("lean"), *includes("lean"))
