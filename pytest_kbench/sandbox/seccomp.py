"""Seccomp: which system calls a child may make, as a filter in classic BPF. See seccomp(2)."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from .kernel import check, machine, syscall

_NR_SECCOMP: Final = {"x86_64": 317, "aarch64": 277}
_AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32: Final = 0x40000000
_LAST_KNOWN: Final = 469  # file_setattr; later calls do not exist as far as a child can see
_LD_W_ABS, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_OFFSET_NR, _OFFSET_ARCH, _OFFSET_ARGUMENTS = 0, 4, 16

# name: (x86_64, aarch64); None where the architecture has no such call. From asm/unistd_64.h, asm-generic/unistd.h.
SYSCALLS: Final[Mapping[str, tuple[int | None, int | None]]] = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "chroot": (161, 51),
    "chmod": (90, None), "chown": (92, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "fchown": (93, 55), "fchownat": (260, 54), "file_setattr": (469, 469), "fremovexattr": (199, 16),
    "fsetxattr": (190, 7), "futimesat": (261, None), "inotify_init": (253, None), "inotify_init1": (294, 26),
    "lchown": (94, None), "lremovexattr": (198, 15), "lsetxattr": (189, 6), "removexattr": (197, 14),
    "removexattrat": (466, 466), "setxattr": (188, 5), "setxattrat": (463, 463), "utime": (132, None),
    "utimensat": (280, 88), "utimes": (235, None),
    "clock_adjtime": (305, 266), "clock_settime": (227, 112), "clone": (56, 220), "clone3": (435, 435),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "fcntl": (72, 25), "finit_module": (313, 273),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433),
    "init_module": (175, 105), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425), "ioctl": (16, 29), "ioperm": (173, None), "iopl": (172, None),
    "ioprio_set": (251, 30), "kcmp": (312, 272), "kexec_file_load": (320, 294), "kexec_load": (246, 104),
    "keyctl": (250, 219), "kill": (62, 129), "lookup_dcookie": (212, 18), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "migrate_pages": (256, 238), "mount": (165, 40), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "move_pages": (279, 239), "mq_open": (240, 180), "msgget": (68, 186),
    "name_to_handle_at": (303, 264), "nfsservctl": (180, 42), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "open_tree_attr": (467, 467), "perf_event_open": (298, 241), "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pivot_root": (155, 41), "prctl": (157, 167),
    "prlimit64": (302, 261), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "reboot": (169, 142), "request_key": (249, 218), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "sched_setaffinity": (203, 122), "sched_setattr": (314, 274),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "semget": (64, 190), "setdomainname": (171, 162),
    "sethostname": (170, 161), "setns": (308, 268), "setpgid": (109, 154), "setpriority": (141, 140),
    "setsid": (112, 157), "settimeofday": (164, 170), "shmget": (29, 194), "socket": (41, 198),
    "socketpair": (53, 199), "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116), "tgkill": (234, 131),
    "timer_create": (222, 107), "tkill": (200, 130), "umount2": (166, 39), "unshare": (272, 97), "uselib": (134, None),
    "userfaultfd": (323, 282), "vhangup": (153, 58), "vmsplice": (278, 75),
}  # fmt: skip

_REFUSED: Final = (
    # other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "kcmp",
    "process_madvise", "process_mrelease", "migrate_pages", "move_pages", "setpriority", "ioprio_set",
    "sched_setscheduler", "sched_setparam", "sched_setattr",
    # what lets a process that was stopped go on by itself: a timer may send SIGCONT (alarms, which may not, are left)
    "timer_create",
    # the kernel's more dangerous doors
    "perf_event_open", "bpf", "userfaultfd", "keyctl", "add_key", "request_key", "io_uring_setup", "io_uring_enter",
    "io_uring_register", "lookup_dcookie", "syslog", "uselib", "nfsservctl",
    # file systems and namespaces
    "mount", "umount2", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree", "open_tree_attr", "move_mount",
    "mount_setattr", "pivot_root", "chroot", "setns", "unshare", "open_by_handle_at", "name_to_handle_at",
    "fanotify_init", "quotactl", "quotactl_fd", "swapon", "swapoff", "acct",
    # the machine
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "settimeofday",
    "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "iopl", "ioperm", "vhangup",
    # ways to talk, and memory that outlives or escapes its process
    "socket", "socketpair", "shmget", "semget", "msgget", "mq_open", "memfd_create", "memfd_secret", "inotify_init",
    "inotify_init1", "vmsplice",  # which keeps pages in pipes that are counted nowhere
    # what landlock does not see: owners and attributes of files that it does not even let be opened
    "chown", "lchown", "fchown", "fchownat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr",
    "lremovexattr", "fremovexattr", "removexattrat", "file_setattr",
)  # fmt: skip

# Likewise unseen, or ways out of the group that is stopped and swept up, or off the CPUs where a child is timed. But
# linkers and libraries call them and expect no refusal: they succeed and do nothing.
_PRETENDED: Final = (
    "setsid", "setpgid", "sched_setaffinity", "chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes",
    "futimesat", "utimensat",
)  # fmt: skip

_CLONE_REFUSED: Final = (
    0x00008000  # CLONE_PARENT: would become the zygote's child
    | 0x00020000  # CLONE_NEWNS
    | 0x02000000  # CLONE_NEWCGROUP
    | 0x04000000  # CLONE_NEWUTS
    | 0x08000000  # CLONE_NEWIPC
    | 0x10000000  # CLONE_NEWUSER
    | 0x20000000  # CLONE_NEWPID
    | 0x40000000  # CLONE_NEWNET
)
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX = 8, 10, 15
_EXIT_SIGNALS: Final = 0xFF & ~17  # of clone, but for SIGCHLD: one that is SIGCONT would wake a stopped parent
_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True)
class _Argument:
    """A test of one argument's low 32 bits: is it one of `values`, none of them, or has it any of their bits."""

    index: int
    test: Literal["is", "is-not", "bits"]
    values: tuple[int, ...]


class Filter:
    """Builds a seccomp program rule by rule; what no rule names is allowed."""

    def __init__(self, arch: str) -> None:
        self._column = ("x86_64", "aarch64").index(arch)
        refuse = self.refusal(errno.EPERM)
        self._program: list[tuple[int, int, int, int]] = [
            (_LD_W_ABS, 0, 0, _OFFSET_ARCH),
            (_JEQ, 1, 0, _AUDIT_ARCH[arch]),
            (_RET, 0, 0, refuse),
            (_LD_W_ABS, 0, 0, _OFFSET_NR),
            (_JGE, 0, 1, _X32),
            (_RET, 0, 0, refuse),
            (_JGE, 0, 1, _LAST_KNOWN + 1),
            (_RET, 0, 0, self.refusal(errno.ENOSYS)),
        ]

    @staticmethod
    def refusal(code: int) -> int:
        """The verdict that makes a call fail with errno `code`; 0 makes it return 0 and do nothing."""
        return _ERRNO | code

    def refuse(self, name: str, code: int = errno.EPERM, when: _Argument | None = None) -> None:
        """Make one call fail with errno `code`, always or only when an argument says so."""
        number = SYSCALLS[name][self._column]
        if number is None:
            return
        verdict = (_RET, 0, 0, self.refusal(code))
        if when is None:
            body = [verdict]
        else:
            body = [(_LD_W_ABS, 0, 0, _OFFSET_ARGUMENTS + 8 * when.index)]
            count = len(when.values)
            for position, value in enumerate(when.values):
                to_verdict, past_verdict = count - 1 - position, count - position
                last = position == count - 1
                if when.test == "is":
                    body.append((_JEQ, to_verdict, 1 if last else 0, value))
                elif when.test == "bits":
                    body.append((_JSET, to_verdict, 1 if last else 0, value))
                else:
                    body.append((_JEQ, past_verdict, 0, value))
            body += [verdict, (_RET, 0, 0, _ALLOW)]
        self._program.append((_JEQ, 0, len(body), number))
        self._program += body

    def program(self) -> bytes:
        """The finished program: `struct sock_filter` after `struct sock_filter`."""
        return b"".join(struct.pack("=HBBI", *each) for each in [*self._program, (_RET, 0, 0, _ALLOW)])


def seccomp_program(arch: str, pid: int, *, scoped_signals: bool) -> bytes:
    """The filter for a child whose process id is `pid`.

    With `scoped_signals` landlock bounds whom signals reach; without it, the filter allows only the child itself.
    """
    rules = Filter(arch)
    for name in _REFUSED:
        rules.refuse(name)
    rules.refuse("clone", when=_Argument(0, "bits", (_CLONE_REFUSED | _EXIT_SIGNALS,)))
    rules.refuse("clone3", errno.ENOSYS)  # its flags lie in memory, out of a filter's sight; libc falls back to clone
    for name in _PRETENDED:
        rules.refuse(name, 0)
    rules.refuse("prlimit64", when=_Argument(0, "is-not", (0,)))
    rules.refuse("prctl", when=_Argument(0, "is", (_PR_SET_PDEATHSIG,)))
    rules.refuse("ioctl", when=_Argument(1, "is", (_TIOCSTI, _TIOCLINUX)))
    rules.refuse("fcntl", when=_Argument(1, "is", (_F_SETOWN, _F_SETSIG, _F_SETOWN_EX)))
    if not scoped_signals:
        rules.refuse("kill", when=_Argument(0, "is-not", (0, pid, -pid & 0xFFFFFFFF)))
        rules.refuse("tgkill", when=_Argument(0, "is-not", (pid,)))
        for name in ("tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
            rules.refuse(name)
    return rules.program()


def install(scoped_signals: bool) -> None:
    """Put the filter on all threads of this process, for good. Raises `Refused`."""
    arch = machine()
    code = seccomp_program(arch, os.getpid(), scoped_signals=scoped_signals)
    instructions = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(instructions))
    tsync, spec_allow = 1, 4  # spec_allow: no slower speculation mode, which would change what is measured
    check(
        syscall(ctypes.c_long(_NR_SECCOMP[arch]), ctypes.c_uint(1), ctypes.c_uint(tsync | spec_allow), program),
        "seccomp",
    )
