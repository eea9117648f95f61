"""Build a CUDA candidate with nvcc: in torch's form or for tvm-ffi, for one architecture.

The same header, cache and sandbox as for C++; `.cpp` files of a folder are compiled by the C++ compiler. No GPU is
used: the architecture is given, or asked of the driver's tool, which opens no device for computing.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..record import Reason
from ..sandbox.host import Failure, Limits, Program
from . import cpp, library, ninja, torch_form, tvm_ffi
from .cache import Store, key
from .errors import EnvironmentFault
from .messages import readable
from .sources import Sources

if TYPE_CHECKING:
    from ..candidate import Candidate
    from ..sandbox.host import Sandbox

FORMAT: Final = "cuda 1"  # change it when the same sources would be built differently
NVCC_FLAGS: Final = ("-O3", "-std=c++20", "--expt-relaxed-constexpr", "--expt-extended-lambda")
# As torch's own builds have it: half types convert by torch's operators alone.
_TORCH_DEFINES: Final = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
)
_ARCHITECTURE: Final = re.compile(r"(\d{1,2})\.(\d)([af]?)")
_FIX: Final = "Install the CUDA toolkit, or set CUDA_HOME to it."


def build(
    candidate: Candidate,
    sources: Sources,
    binding: cpp.Binding,
    entry_points: tuple[str, ...],
    sandbox: Sandbox,
    store: Store,
    limits: Limits,
    seconds: float,
    *,
    architecture: str | None = None,
) -> Program | Failure:
    """The candidate's library, from the cache or compiled now within `seconds` a try.

    `architecture` is a compute capability, "9.0" or "9.0a"; by default that of the first GPU. Raises `EnvironmentFault`
    where there is no nvcc, or no GPU to ask.
    """
    target = architecture or device_architecture()
    flags = cpp.DEFAULT_FLAGS
    packages = ("apache-tvm-ffi", "torch")
    python = sysconfig.get_config_var("SOABI") or sysconfig.get_platform()
    parts = [FORMAT, binding, target, python, nvcc_version(), *NVCC_FLAGS, *torch_form.headers()]
    this_build = key([*parts, *cpp.parts(sources, flags, *packages)])
    with library.entry_of(store, this_build, candidate.path, seconds) as entry:
        if not entry.complete:
            ninja.check()
            with store.workplace() as place:
                made, header = _made(sources, binding, target, place, sandbox, limits, seconds)
                if isinstance(made, Failure):
                    return readable(made, sources, seconds)
                with entry.writing() as folder:
                    library.keep(made, folder / library.LIBRARY)
                    (folder / torch_form.HEADER).write_text(header, "utf-8")
        facts = (("header", "full"),) if (entry.path / torch_form.HEADER).read_text("utf-8") == "full" else ()
        return Program(binding, entry.path / library.LIBRARY, entry_points, facts=facts)


def _made(
    sources: Sources,
    binding: cpp.Binding,
    architecture: str,
    place: Path,
    sandbox: Sandbox,
    limits: Limits,
    seconds: float,
) -> tuple[Path | Failure, torch_form.Header]:
    """The library compiled with the least header that will do, in a folder of its own for each try."""
    header: torch_form.Header = "lean" if binding == "tvm-ffi" else torch_form.header_of(sources)
    made = compile_with(header, sources, binding, architecture, place / header, sandbox, limits, seconds)
    failed = isinstance(made, Failure) and made.reason is Reason.COMPILE and torch_form.may_need_full(made)
    if failed and binding == "torch" and header != "full":
        header = "full"
        made = compile_with(header, sources, binding, architecture, place / header, sandbox, limits, seconds)
    return made, header


def compile_with(
    header: torch_form.Header,
    sources: Sources,
    binding: cpp.Binding,
    architecture: str,
    place: Path,
    sandbox: Sandbox,
    limits: Limits,
    seconds: float,
    *,
    target: str | None = None,
) -> Path | Failure:
    """One try, in a folder that is made for it. `target` is what is made: the library, if nothing is said."""
    place.mkdir()
    generated: tuple[tuple[str, str], ...] = ()
    if binding == "torch" and header != "full":
        generated = ((torch_form.NAMED, torch_form.named(sources)),)
    made = tools(header, sources, binding, architecture)
    return library.compiled(sources, made, place, sandbox, limits, seconds, generated=generated, target=target)


def tools(header: torch_form.Header, sources: Sources, binding: cpp.Binding, architecture: str) -> ninja.Tools:
    """The commands of a build."""
    home = cuda_home()
    defines: tuple[str, ...] = ()
    if binding == "torch":
        own = tuple(f"-I{folder}" for folder in sources.include)
        include = (*torch_form.defines(header), *own, *torch_form.includes(header))
        libraries = (*torch_form.libraries(), "-lc10_cuda", "-ltorch_cuda")
        defines = _TORCH_DEFINES
    else:
        include, libraries = tvm_ffi.includes(sources), tvm_ffi.libraries()
    toolkit = ("-isystem", str(home / "include"))
    host = (cpp.compiler_name(), "-fPIC", *cpp.DEFAULT_FLAGS, *include, *toolkit)
    device = (str(nvcc()), *NVCC_FLAGS, generate(architecture), "-Xcompiler", "-fPIC,-fopenmp", *defines, *include)
    if os.environ.get("CXX"):
        device += ("-ccbin", os.environ["CXX"])
    linked = (*libraries, f"-L{home / 'lib64'}", "-lcudart", "-fopenmp")
    return ninja.Tools({".cpp": host, ".cu": device}, (cpp.compiler_name(), "-shared"), linked)


def generate(architecture: str) -> str:
    """nvcc's flag for a compute capability. Raises `ValueError` for what is none."""
    match = _ARCHITECTURE.fullmatch(architecture)
    if match is None:
        raise ValueError(f"{architecture!r} is no compute capability, such as 9.0 or 9.0a")
    number = "".join(match.groups())
    return f"-gencode=arch=compute_{number},code=sm_{number}"


def nvcc() -> Path:
    """The CUDA compiler: of CUDA_HOME or CUDA_PATH, else on PATH, else of /usr/local/cuda.

    Raises `EnvironmentFault` where there is none.
    """
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    for place in (*(f"{home}/bin" for home in homes), os.environ.get("PATH", os.defpath), "/usr/local/cuda/bin"):
        if (found := shutil.which("nvcc", path=place)) is not None:
            return Path(found)
    raise EnvironmentFault("there is no nvcc", path=Path("nvcc"), fix=_FIX)


def cuda_home() -> Path:
    """The toolkit's folder: where nvcc's headers and libraries are."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            return Path(os.environ[name])
    beside = nvcc().resolve().parents[1]
    return beside if (beside / "include" / "cuda_runtime.h").exists() else Path("/usr/local/cuda")


def nvcc_version() -> str:
    """What nvcc says of itself. Raises `EnvironmentFault` where it does not work."""
    return cpp.checked_version(str(nvcc()), "CUDA compiler", _FIX)


@functools.cache
def device_architecture() -> str:
    """The compute capability of the first GPU, from 9.0 on with what that one alone can do: `9.0a`.

    Raises `EnvironmentFault` where the driver names none.
    """
    command: Sequence[str] = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        first = said.split()[0]
        generate(first)
    except (OSError, subprocess.SubprocessError, IndexError, ValueError) as error:
        what = "it does not say what the GPU's compute capability is"
        raise EnvironmentFault(what, path=Path(command[0]), fix="Name one: architecture='9.0'.") from error
    return f"{first}a" if int(first.partition(".")[0]) >= 9 else first
