"""Lock-down of a forked child, before it sees any candidate: what it may read, write, reach, use and call.

`lock_down(policy)` applies the layers in an order in which each is still possible, and says of each whether it is
active or refused, and why. No layer is trusted alone: files are bounded by landlock and by the uid, signals by
landlock's scope and by the uid, processes by rlimits, by the session and by the zygote that sweeps up.

Sources: landlock(7), seccomp(2), capabilities(7), user_namespaces(7), prctl(2) and the kernel's uapi headers.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import resource
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from . import driver, seccomp
from .kernel import Refused, check, libc, machine, prctl, syscall
from .landlock import ABI_NETWORK, ABI_SCOPE, DEVICE, GPU, READ, READ_NO_EXECUTE, SCRATCH, Landlock
from .paths import DEVICES, GPU_PLACES, gpu_files, open_to_others, smallest_cover, within

_NR_CAPSET: Final = {"x86_64": 126, "aarch64": 91}


@dataclass(frozen=True, slots=True)
class LayerReport:
    """Which layers of the lock-down hold: names of active ones, and refused ones with the reason.

    A layer that others make up for (a uid of its own, for an ordinary user's children) is in neither.
    """

    active: tuple[str, ...]
    refused: Mapping[str, str]


SWITCHED_OFF: Final = "all layers"  # what is refused where the user asked for no sandbox


@dataclass(frozen=True, slots=True)
class Policy:
    """What one child may do. Paths are absolute; sizes are bytes. Without `locked` none of it holds.

    With `gpu`, the driver is started before anything is locked, and its device files stay open to the child.
    `scratch` is an empty folder that the child's private tmpfs is mounted on; where that is refused, the child uses a
    folder `scratch/<pid>` instead, and whoever waits for the child watches its size. `cpus`, if any, are those that the
    child runs on.
    """

    scratch: str
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    memory_bytes: int = 8 << 30
    processes: int = 256
    file_bytes: int = 1 << 30
    scratch_bytes: int = 512 << 20
    address_bytes: int | None = None
    open_files: int = 1024
    threads: int | None = None
    cpus: tuple[int, ...] = ()
    gpu: bool = False
    locked: bool = True

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Policy:
        """The inverse of `dataclasses.asdict` and a trip through JSON."""
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**fields)


# Identity and rights.

_CAP_DAC_READ_SEARCH: Final = 2
_CAP_SETPCAP: Final = 8
# What a uid of its own gives to a child of root: processes that are counted apart (so does a user namespace), files of
# others out of reach (so does landlock), siblings out of reach of signals, ptrace, affinity, limits and priorities (so
# do landlock's scope or, where there is none, seccomp), and nobody who leaves the group that is swept up (seccomp). An
# ordinary user, who cannot give uids, loses nothing where these hold: then the layer is neither active nor refused.
_INSTEAD_OF_UID: Final = ("user-namespace", "landlock-files", "rlimits", "seccomp")
_BASE_UID: Final = 1_879_048_192  # systemd's table of uids: unused from here to 2^31
_PID_LIMIT: Final = 1 << 22
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 4, 8, 38, 47
_PR_CAPBSET_READ, _PR_CAPBSET_DROP = 23, 24


def child_uid(pid: int, uid_map: str) -> int | None:
    """The uid of the child with this process id, or `None` where the user namespace has no uids to spare.

    A pure function of both, so that zygote and child agree. `uid_map` is the text of /proc/self/uid_map. Where the
    whole range of unused uids is mapped no two processes share one; else ids are taken from the top of the largest
    range, at least 1000 apart from its start.
    """
    ranges = [(int(first), int(count)) for first, _, count in (line.split() for line in uid_map.splitlines() if line)]
    if any(first <= _BASE_UID and first + count >= _BASE_UID + _PID_LIMIT for first, count in ranges):
        return _BASE_UID + pid
    first, count = max(ranges, key=lambda each: each[1], default=(0, 0))
    spare = min(count - 1000, 50_000)
    return first + count - 1 - pid % spare if spare > 0 else None


def _capset(capabilities: int, inheritable: int) -> None:
    header = struct.pack("=Ii", 0x20080522, 0)
    low = [each & 0xFFFFFFFF for each in (capabilities, capabilities, inheritable)]
    high = [each >> 32 for each in (capabilities, capabilities, inheritable)]
    data = struct.pack("=6I", *low, *high)
    check(syscall(ctypes.c_long(_NR_CAPSET[machine()]), header, data), "capset")


def _capabilities() -> int:
    return int(_status("CapPrm"), 16)


def _status(key: str) -> str:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return line.split(":", 1)[1].strip()
    raise Refused(f"no {key} in /proc/self/status")


def _drop_capabilities(keep: int) -> None:
    """Leave `keep` (a bit set) permitted, effective and ambient, and nothing that could be gained again."""
    _capset(keep, keep)
    for capability in range(64):
        if keep >> capability & 1:
            check(prctl(_PR_CAP_AMBIENT, 2, capability), "ambient capability")


def _bound_capabilities(keep: int) -> None:
    """Empty the bounding set, where there are rights to do so: no program that is executed gains any capability."""
    held = _capabilities()
    if not held >> _CAP_SETPCAP & 1:
        return  # nothing is held, and no_new_privs sees to it that nothing is gained
    _capset(held, keep)
    capability = 0
    while prctl(_PR_CAPBSET_READ, capability) >= 0:  # until the last one that this kernel knows
        check(prctl(_PR_CAPBSET_DROP, capability), "prctl(PR_CAPBSET_DROP)")
        capability += 1


def _become(uid: int) -> None:
    """Take on a uid and gid of its own, and no other group; permitted capabilities are kept for the next step."""
    prctl(_PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _give(path: str, uid: int) -> None:
    """Make a folder and all in it this uid's. The grader put it there, and nobody else can reach it yet."""
    os.chown(path, uid, uid)
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            os.chown(os.path.join(folder, name), uid, uid, follow_symlinks=False)


# Namespaces.

_NEWNS, _NEWIPC, _NEWUSER, _NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_PRIVATE = 2, 4, 0x4000, 0x40000


def _unshare(flags: int) -> None:
    check(libc.unshare(ctypes.c_int(flags)), "unshare")


def _own_user_namespace() -> None:
    """Become the only user of a user namespace, under the same name."""
    uid, gid = os.geteuid(), os.getegid()
    _unshare(_NEWUSER)
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    except OSError as error:
        raise Refused(f"user namespace: {error.strerror}") from error


def _mount_scratch(place: str, size: int, uid: int, gid: int) -> None:
    check(libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None), "mount(private)")
    options = f"size={size},nr_inodes=65536,mode=0700,uid={uid},gid={gid}".encode()
    check(
        libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", ctypes.c_ulong(_MS_NOSUID | _MS_NODEV), options),
        "mount(tmpfs)",
    )


# The whole.


@dataclass(slots=True)
class _Progress:
    """Layers so far."""

    active: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    def attempt(self, name: str, layer: Callable[[], None]) -> bool:
        """Try one layer; a refusal of any kind is noted, because the next layer must still be tried."""
        try:
            layer()
        except (Refused, OSError, ValueError) as error:
            self.refused[name] = str(error)
            return False
        self.active.append(name)
        return True


def _set_rlimits(policy: Policy, own_processes: bool) -> None:
    sizes = [int(each) * resource.getpagesize() for each in Path("/proc/self/statm").read_text().split()]
    mapped, already = sizes[0], sizes[5]
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: policy.file_bytes,
        resource.RLIMIT_NOFILE: policy.open_files,
        resource.RLIMIT_DATA: policy.memory_bytes + already,
        resource.RLIMIT_NICE: 0,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_MEMLOCK: 1 << 20,
    }
    if policy.address_bytes is not None:
        wanted[resource.RLIMIT_AS] = policy.memory_bytes + policy.address_bytes + mapped
    if own_processes:
        wanted[resource.RLIMIT_NPROC] = policy.processes
    for limit, value in wanted.items():
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))
    if not own_processes:
        raise Refused("no limit of processes: they are counted together with the user's own")


def _allow_paths(policy: Policy, system: Sequence[str], scratch: str) -> Landlock:
    rules = Landlock()
    for path in smallest_cover((*system, *policy.readable)):
        rules.allow(path, READ)
    for path in DEVICES:
        rules.allow(path, DEVICE)
    if policy.gpu:
        for path in gpu_files():
            rules.allow(path, GPU)
        for path in GPU_PLACES:
            rules.allow(path, READ_NO_EXECUTE)
        for path in driver.folders():
            rules.allow(path, READ)
    rules.allow(f"/proc/{os.getpid()}", READ_NO_EXECUTE)
    for path in (scratch, *policy.writable):
        rules.allow(path, SCRATCH)
    return rules


@functools.cache
def closed_to_others(system: tuple[str, ...]) -> bool:
    """Whether a child with a uid of its own could not reach some of `system` without CAP_DAC_READ_SEARCH."""
    return not all(open_to_others(path) for path in system if not within(path, ("/proc", "/dev", "/sys")))


def lock_down(policy: Policy, system: tuple[str, ...], zygote: int) -> LayerReport:
    """Lock this process down, for good. To be called once, in a fork with one thread, before any candidate code.

    `system` is what `system_paths` gave, `zygote` the process that must still be the parent: if it is not, the child
    ends itself. Afterwards the working directory, HOME and TMPDIR are the child's scratch folder.
    """
    if policy.gpu:
        driver.start()
    if not policy.locked:
        return _leave_open(policy, zygote)
    progress = _Progress()
    root = os.geteuid() == 0
    pid = os.getpid()
    uid = child_uid(pid, Path("/proc/self/uid_map").read_text()) if root else None
    own_paths = (*policy.readable, *policy.writable, policy.scratch)
    search = root and (closed_to_others(system) or not all(map(open_to_others, own_paths)))

    progress.attempt("session", os.setsid)
    if uid is not None:
        for path in policy.writable:
            _give(path, uid)
    with contextlib.suppress(OSError):  # a preference, no protection
        Path("/proc/self/oom_score_adj").write_text("1000")
    prctl(_PR_SET_NO_NEW_PRIVS, 1)

    own_user = not root and progress.attempt("user-namespace", _own_user_namespace)
    mounts = progress.attempt("mount-namespace", lambda: _unshare(_NEWNS))
    progress.attempt("ipc-namespace", lambda: _unshare(_NEWIPC))
    progress.attempt("network-namespace", lambda: _unshare(_NEWNET))
    owner, group = (os.geteuid(), os.getegid()) if uid is None else (uid, uid)
    scratch = policy.scratch
    if not mounts or not progress.attempt(
        "scratch", lambda: _mount_scratch(policy.scratch, policy.scratch_bytes, owner, group)
    ):
        progress.refused.setdefault("scratch", "no mount namespace")
        scratch = os.path.join(policy.scratch, str(pid))
        os.mkdir(scratch, 0o700)
        os.chown(scratch, owner, group)

    scoped = False
    try:
        rules = _allow_paths(policy, system, scratch)
    except (Refused, OSError) as error:
        for name in ("landlock-files", "landlock-network", "landlock-scope"):
            progress.refused[name] = str(error)
    else:
        if progress.attempt("landlock-files", rules.restrict):
            for name, first in (("landlock-network", ABI_NETWORK), ("landlock-scope", ABI_SCOPE)):
                if rules.abi >= first:
                    progress.active.append(name)
                else:
                    progress.refused[name] = f"landlock ABI {rules.abi}, {first} is needed"
            scoped = rules.abi >= ABI_SCOPE

    progress.attempt("rlimits", lambda: _set_rlimits(policy, uid is not None or own_user))

    # Without landlock this capability would open every file: then rather let late imports fail.
    search = search and "landlock-files" in progress.active
    keep = 1 << _CAP_DAC_READ_SEARCH if search and _capabilities() >> _CAP_DAC_READ_SEARCH & 1 else 0
    progress.attempt("capability-bounds", lambda: _bound_capabilities(keep))
    if uid is not None:
        progress.attempt("uid", lambda: _become(uid))
    progress.attempt("capabilities", lambda: _drop_capabilities(keep))
    prctl(_PR_SET_DUMPABLE, 1)
    progress.attempt("death-signal", lambda: _die_with(zygote))

    os.chdir(scratch)
    progress.attempt("seccomp", lambda: seccomp.install(scoped))
    if root and uid is None:
        progress.refused["uid"] = "no uid to spare in this user namespace"
    elif not root and (lost := [name for name in _INSTEAD_OF_UID if name not in progress.active]):
        progress.refused["uid"] = f"not root, and without {' and '.join(lost)} what another uid would protect is open"
    return LayerReport(tuple(progress.active), dict(progress.refused))


def _leave_open(policy: Policy, zygote: int) -> LayerReport:
    """What is left where the user switched the sandbox off: a session and a folder of its own, and death with us."""
    progress = _Progress()
    progress.attempt("session", os.setsid)
    scratch = os.path.join(policy.scratch, str(os.getpid()))
    os.mkdir(scratch, 0o700)
    os.chdir(scratch)
    progress.attempt("death-signal", lambda: _die_with(zygote))
    progress.refused[SWITCHED_OFF] = "switched off"
    return LayerReport(tuple(progress.active), dict(progress.refused))


def _die_with(zygote: int) -> None:
    """Ask for SIGKILL when the parent dies; a change of credentials clears it, so this comes after."""
    check(prctl(_PR_SET_PDEATHSIG, 9), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != zygote:
        os._exit(1)
