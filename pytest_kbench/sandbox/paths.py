"""What every child may read and execute: an allow-list of paths."""

from __future__ import annotations

import os
import pwd
import shutil
import site
import stat
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_SYSTEM: Final = (  # not /usr itself: people keep projects in /usr/src and /usr/local/src
    "/bin", "/sbin", "/lib", "/lib32", "/lib64",
    *(f"/usr/{name}" for name in ("bin", "sbin", "lib", "lib32", "lib64", "libexec", "include", "share")),
    *(f"/usr/local/{name}" for name in ("bin", "sbin", "lib", "lib32", "lib64", "libexec", "include", "share")),
)  # fmt: skip
_ETC: Final = tuple(
    f"/etc/{name}"
    for name in (
        "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "passwd", "group", "nsswitch.conf", "localtime", "alternatives"
    )
)  # fmt: skip
_KERNEL: Final = (
    "/dev/random", "/dev/urandom", "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu", "/sys/devices/system/node",
)  # fmt: skip
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full")
GPU_PLACES: Final = ("/proc/driver/nvidia", "/sys/bus/pci/devices", "/sys/devices")
_PREFIX_PARTS: Final = ("bin", "include", "lib", "lib64", "libexec", "nvvm", "share", "targets", "pyvenv.cfg")
_COMPILERS: Final = ("c++", "g++", "gcc", "cc", "clang", "clang++", "ld", "as", "ninja", "nvcc")


def _prefix(path: str) -> list[str]:
    """The parts of an installation prefix that programs live in: a prefix may be a project's own folder, or `/usr`."""
    return [os.path.join(path, part) for part in _PREFIX_PARTS]


def within(path: str, folders: Iterable[str]) -> bool:
    """Whether `path` is one of `folders` or lies below one. Pure text; all absolute and normal."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def smallest_cover(paths: Iterable[str]) -> tuple[str, ...]:
    """The same files with no path named twice: those that lie below another are dropped. `/` is never covered."""
    kept: list[str] = []
    for path in sorted({os.path.normpath(path) for path in paths}, key=lambda each: (each.count("/"), each)):
        if path not in ("/", "//") and os.path.isabs(path) and not within(path, kept):
            kept.append(path)
    return tuple(kept)


def system_paths() -> tuple[str, ...]:
    """What every child may read and execute: the system, this Python, its packages, torch, tvm-ffi and compilers.

    Real paths that exist; symlinks are resolved, because landlock judges the file that is reached.
    """
    import numpy
    import torch
    import tvm_ffi

    paths: list[str] = [*_SYSTEM, *_ETC, *_KERNEL]
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}:
        paths += _prefix(prefix)
    paths += sysconfig.get_paths().values()
    paths += site.getsitepackages()
    if site.ENABLE_USER_SITE:
        paths.append(site.getusersitepackages())
    for package in (numpy, torch, tvm_ffi):
        place = Path(str(package.__file__)).parent
        paths.append(str(place))
        if next(place.parent.glob("*.dist-info"), None) is not None:  # packages, and no project
            paths.append(str(place.parent))
    paths.append(str(Path(__file__).parents[1]))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            paths += _prefix(os.environ[variable])
    paths += _prefix("/usr/local/cuda")
    for compiler in (*_COMPILERS, os.environ.get("CXX", ""), os.environ.get("CC", "")):
        found = shutil.which(compiler) if compiler else None
        if found:
            folder = os.path.dirname(os.path.realpath(found))
            paths += [folder, *_prefix(os.path.dirname(folder))]  # its own headers and libraries lie beside its bin
    home = _home()
    data = {sys.prefix, sys.base_prefix, home, "/usr", "/usr/local"}  # sysconfig's "data" is the prefix itself
    resolved = (os.path.realpath(path) for path in paths if path and path not in data)
    return smallest_cover(path for path in resolved if os.path.exists(path) and not within(home, [path]))


def _home() -> str:
    """This user's home by the user database, since HOME may be anything; a uid without an entry has none."""
    try:
        return os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return "/"


def gpu_files() -> tuple[str, ...]:
    """NVIDIA's device files; `GPU_PLACES` are what the driver reads beside them."""
    return tuple(map(str, sorted(Path("/dev").glob("nvidia*"))))


def open_to_others(path: str) -> bool:
    """Whether a user who owns nothing on the way may enter all folders above `path` and read it."""
    place = Path(path)
    try:
        mode = place.stat().st_mode
        wanted = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
        return mode & wanted == wanted and all(parent.stat().st_mode & stat.S_IXOTH for parent in place.parents)
    except OSError:
        return False
