"""Calls into the kernel for which Python has no function, and what it means when they are refused."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
from typing import Final

libc = ctypes.CDLL(None, use_errno=True)
syscall = libc.syscall
syscall.restype = ctypes.c_long
MACHINES: Final = ("x86_64", "aarch64")
_NR_CLOSE_RANGE: Final = 436


class Refused(Exception):
    """A layer that this kernel, or this user's rights, do not give."""


def check(result: int, what: str) -> int:
    """The result of a call into libc; raises `Refused` with the reason when it is negative."""
    if result < 0:
        code = ctypes.get_errno()
        raise Refused(f"{what}: {os.strerror(code)}")
    return result


def prctl(option: int, *values: int) -> int:
    """prctl(2), with all five arguments; negative when refused."""
    arguments = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    return int(libc.prctl(ctypes.c_int(option), *arguments))


def machine() -> str:
    """The architecture whose syscall numbers apply; raises `Refused` on any other than x86_64 and aarch64."""
    name = platform.machine()
    if name not in MACHINES:
        raise Refused(f"no table of system calls for {name}")
    return name


def close_from(first: int) -> None:
    """Close every descriptor numbered `first` or higher (close_range, or one by one on an old kernel)."""
    if syscall(ctypes.c_long(_NR_CLOSE_RANGE), ctypes.c_ulong(first), ctypes.c_ulong(0xFFFFFFFF), ctypes.c_ulong(0)):
        os.closerange(first, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
