"""Landlock: what a process may do with files, TCP ports, abstract sockets and signals. See landlock(7)."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from typing import Final

from .kernel import check, syscall

_NR_LANDLOCK: Final = (444, 445, 446)
_ACCESS: Final = {
    name: 1 << bit
    for bit, name in enumerate(
        (
            "execute", "write_file", "read_file", "read_dir", "remove_dir", "remove_file", "make_char", "make_dir",
            "make_reg", "make_sock", "make_fifo", "make_block", "make_sym", "refer", "truncate", "ioctl_dev",
        )
    )
}  # fmt: skip
_FIRST_ABI: Final = {"refer": 2, "truncate": 3, "ioctl_dev": 5}
ABI_NETWORK: Final = 4
ABI_SCOPE: Final = 6
READ: Final = ("execute", "read_file", "read_dir")
_FILE_RIGHTS: Final = ("execute", "write_file", "read_file", "truncate", "ioctl_dev")
READ_NO_EXECUTE: Final = ("read_file", "read_dir")
DEVICE: Final = ("read_file", "write_file", "truncate")
GPU: Final = ("read_file", "write_file", "read_dir", "ioctl_dev")
SCRATCH: Final = tuple(name for name in _ACCESS if name not in ("make_char", "make_block", "ioctl_dev"))


def file_access(abi: int, names: Iterable[str]) -> int:
    """The access bits of these rights, as far as this landlock ABI knows them."""
    return sum(_ACCESS[name] for name in set(names) if _FIRST_ABI.get(name, 1) <= abi)


def landlock_abi() -> int:
    """Version of landlock in this kernel; raises `Refused` when there is none."""
    return check(
        syscall(ctypes.c_long(_NR_LANDLOCK[0]), ctypes.c_void_p(None), ctypes.c_size_t(0), ctypes.c_uint32(1)),
        "landlock_create_ruleset",
    )


class Landlock:
    """A rule set under construction: only what is allowed by a rule stays possible after `restrict`."""

    def __init__(self) -> None:
        self.abi = landlock_abi()
        self._handled = file_access(self.abi, _ACCESS)
        attributes = struct.pack(
            "=QQQ", self._handled, 3 if self.abi >= ABI_NETWORK else 0, 3 if self.abi >= ABI_SCOPE else 0
        )
        size = 24 if self.abi >= ABI_SCOPE else 16 if self.abi >= ABI_NETWORK else 8
        self._ruleset = check(
            syscall(ctypes.c_long(_NR_LANDLOCK[0]), attributes, ctypes.c_size_t(size), ctypes.c_uint32(0)),
            "landlock_create_ruleset",
        )

    def allow(self, path: str, rights: Iterable[str]) -> None:
        """Allow `rights` on a file, or on a folder and all below it. A path that is not there is passed over."""
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            names = set(rights)
            if not stat.S_ISDIR(os.fstat(place).st_mode):
                names &= set(_FILE_RIGHTS)
            rule = struct.pack("=Qi", file_access(self.abi, names), place)
            check(
                syscall(
                    ctypes.c_long(_NR_LANDLOCK[1]),
                    ctypes.c_int(self._ruleset),
                    ctypes.c_int(1),
                    rule,
                    ctypes.c_uint32(0),
                ),
                f"landlock_add_rule({path})",
            )
        finally:
            os.close(place)

    def restrict(self) -> None:
        """Apply to this process and all it starts. Needs no_new_privs."""
        try:
            check(
                syscall(ctypes.c_long(_NR_LANDLOCK[2]), ctypes.c_int(self._ruleset), ctypes.c_uint32(0)),
                "landlock_restrict_self",
            )
        finally:
            os.close(self._ruleset)
