"""The pure parts of the lock-down: filters, allow-lists and identities, without any child."""

from __future__ import annotations

import errno
import struct
from pathlib import Path

import pytest

from pytest_kbench.sandbox import landlock, limits, memory, paths, seccomp

ALLOW = 0x7FFF0000
ERRNO = 0x00050000
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def run(program: bytes, number: int, *arguments: int, arch: int) -> int:
    """Interpret a seccomp filter for one call, as the kernel does; the verdict."""
    values = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, arch, 0, *(value & 0xFFFFFFFFFFFFFFFF for value in values))
    code = list(struct.iter_unpack("=HBBI", program))
    accumulator, position = 0, 0
    while True:
        operation, if_true, if_false, k = code[position]
        position += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, k)
            case 0x15:
                position += if_true if accumulator == k else if_false
            case 0x35:
                position += if_true if accumulator >= k else if_false
            case 0x45:
                position += if_true if accumulator & k else if_false
            case 0x06:
                return k
            case _:
                raise AssertionError(f"operation {operation:#x}")


@pytest.fixture(params=["x86_64", "aarch64"])
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Filtered:
    """One filter, asked by name."""

    def __init__(self, arch: str, scoped: bool = True) -> None:
        self.arch = arch
        self.program = seccomp.seccomp_program(arch, 1234, scoped_signals=scoped)

    def __call__(self, name: str, *arguments: int) -> int:
        number = seccomp.SYSCALLS[name][("x86_64", "aarch64").index(self.arch)]
        assert number is not None
        return run(self.program, number, *arguments, arch=ARCH[self.arch])


@pytest.mark.parametrize(
    "name",
    ["ptrace", "socket", "bpf", "mount", "io_uring_setup", "memfd_create", "keyctl", "setpriority", "timer_create"],
)
def test_dangerous_calls_are_refused_whatever_their_arguments(arch: str, name: str) -> None:
    assert Filtered(arch)(name) == ERRNO | errno.EPERM
    assert Filtered(arch)(name, 1, 2, 3) == ERRNO | errno.EPERM


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("clone", (0x3D0F00,), (0x10000000,)),
        ("clone", (17,), (0x8000 | 17,)),
        ("clone", (17,), (18,)),
        ("fcntl", (3, 1), (3, 10)),
        ("prlimit64", (0,), (1,)),
        ("prctl", (15,), (1,)),
        ("ioctl", (0, 0x5401), (0, 0x5412)),
        ("ioctl", (0, 0x5401), (0, 0x541C)),
        ("fcntl", (3, 1), (3, 8)),
        ("fcntl", (3, 1), (3, 15)),
    ],
)
def test_arguments_decide_where_they_must(
    arch: str, name: str, allowed: tuple[int, ...], refused: tuple[int, ...]
) -> None:
    assert Filtered(arch)(name, *allowed) == ALLOW
    assert Filtered(arch)(name, *refused) == ERRNO | errno.EPERM


def test_the_high_half_of_an_argument_fools_nobody(arch: str) -> None:
    assert Filtered(arch)("clone", 0xFFFFFFFF10000000) == ERRNO | errno.EPERM


@pytest.mark.parametrize("pid", [0, 1234, -1234])
def test_without_landlock_signals_reach_only_the_child_itself(arch: str, pid: int) -> None:
    assert Filtered(arch, scoped=False)("kill", pid) == ALLOW
    for other in (1, 1235, -1, -1235):
        assert Filtered(arch, scoped=False)("kill", other) == ERRNO | errno.EPERM
    assert Filtered(arch, scoped=False)("tgkill", 1, 1, 9) == ERRNO | errno.EPERM
    assert Filtered(arch, scoped=False)("rt_sigqueueinfo", 1234) == ERRNO | errno.EPERM


def test_calls_that_only_pretend_to_work_return_zero(arch: str) -> None:
    for name in ("setsid", "chmod", "utimensat"):
        if seccomp.SYSCALLS[name][("x86_64", "aarch64").index(arch)] is not None:
            assert Filtered(arch)(name) == ERRNO
    assert Filtered(arch)("setpgid") == ERRNO
    assert Filtered(arch)("sched_setaffinity", 0) == Filtered(arch)("sched_setaffinity", 1234) == ERRNO


def test_unknown_calls_do_not_exist(arch: str) -> None:
    program = Filtered(arch).program
    for number in (470, 500, 0x3FFFFFFF):
        assert run(program, number, arch=ARCH[arch]) == ERRNO | errno.ENOSYS
    assert Filtered(arch)("clone3") == ERRNO | errno.ENOSYS


def test_another_architectures_calls_are_refused(arch: str) -> None:
    program = Filtered(arch).program
    assert run(program, 0, arch=0x40000003) == ERRNO | errno.EPERM
    assert run(program, 0x40000000, arch=ARCH[arch]) == ERRNO | errno.EPERM


def test_ordinary_calls_are_allowed() -> None:
    program = Filtered("x86_64").program
    for number in (0, 1, 2, 3, 9, 10, 11, 12, 56 * 0 + 60, 202, 257):  # read to mmap, exit, futex, openat
        assert run(program, number, arch=ARCH["x86_64"]) == ALLOW


def test_syscall_numbers_are_this_machines() -> None:
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.exists():
        pytest.skip("no kernel headers here")
    known = {}
    for line in header.read_text().splitlines():
        if line.startswith("#define __NR_"):
            _, name, number = line.split()
            known[name.removeprefix("__NR_")] = int(number)
    for name, (number, _) in seccomp.SYSCALLS.items():
        assert known.get(name, number) == number


# Paths.


def test_the_smallest_cover_drops_what_lies_below_and_never_covers_everything() -> None:
    assert paths.smallest_cover(["/usr/lib/x", "/", "/usr/lib", "/usr/library", "relative", "/a/../b"]) == (
        "/b",
        "/usr/lib",
        "/usr/library",
    )


def test_within_goes_by_whole_names() -> None:
    assert paths.within("/a/b", ["/a"])
    assert paths.within("/a", ["/a"])
    assert not paths.within("/ab", ["/a"])


def test_the_system_does_not_include_projects_or_homes() -> None:
    system = paths.system_paths()
    project = str(Path(paths.__file__).resolve().parents[2])
    for place in ("/", "/usr", "/root", "/home", "/tmp", "/etc", "/proc", "/usr/src", str(Path.home()), project + "/x"):
        assert not paths.within(place, system)
    import torch

    assert paths.within(str(Path(torch.__file__).resolve()), system)


def test_what_others_may_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "closed").mkdir(0o700)
    (tmp_path / "closed" / "file").write_text("")
    assert not paths.open_to_others(str(tmp_path / "closed"))
    assert not paths.open_to_others(str(tmp_path / "closed" / "file"))
    assert not paths.open_to_others(str(tmp_path / "nothing"))
    assert paths.open_to_others("/usr/bin/env")


# Memory.

GIB = 1 << 30
V1 = "4:memory:/jobs/7\n0::/\n"
V1_MOUNT = "35 31 0:32 {shown} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
V2_MOUNT = "41 31 0:38 {shown} /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n"


def machine(root: Path, cgroup: str, mounts: str, files: dict[str, object]) -> Path:
    """A machine with 10 GiB of available memory, and these cgroups."""
    said: dict[str, object] = {
        "proc/meminfo": f"MemTotal: 99 kB\nMemAvailable: {10 * GIB // 1024} kB\n",
        "proc/self/cgroup": cgroup,
        "proc/self/mountinfo": mounts,
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }
    for name, text in said.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(str(text))
    return root


@pytest.mark.parametrize(
    ("cgroup", "mounts", "files", "left"),
    [
        ("", "", {}, 10),
        ("0::/a/b\n", V2_MOUNT.format(shown="/"), {"a/b/memory.max": "max\n", "a/b/memory.current": GIB}, 10),
        ("0::/a/b\n", V2_MOUNT.format(shown="/"), {"a/b/memory.max": 4 * GIB, "a/b/memory.current": GIB}, 3),
        # the limit of a group above counts too
        ("0::/a/b\n", V2_MOUNT.format(shown="/"), {"a/memory.max": 4 * GIB, "a/memory.current": 2 * GIB}, 2),
        # what is cached can be given back
        (
            "0::/a\n",
            V2_MOUNT.format(shown="/"),
            {
                "a/memory.max": 4 * GIB, "a/memory.current": 4 * GIB,
                "a/memory.stat": f"anon 5\ninactive_file {GIB}\nactive_file {GIB}\nfile_mapped 1\n",
            },
            2,
        ),
        # a container's own namespace, and a container that sees only its own group
        ("0::/\n", V2_MOUNT.format(shown="/"), {"memory.max": 4 * GIB, "memory.current": GIB}, 3),
        ("0::/pod/7\n", V2_MOUNT.format(shown="/pod/7"), {"memory.max": 4 * GIB, "memory.current": GIB}, 3),
        ("0::/elsewhere\n", V2_MOUNT.format(shown="/pod/7"), {"memory.max": 4 * GIB, "memory.current": GIB}, 3),
        # version 1, beside an empty version 2
        (
            V1,
            V1_MOUNT.format(shown="/"),
            {"memory/jobs/7/memory.limit_in_bytes": 4 * GIB, "memory/jobs/7/memory.usage_in_bytes": GIB},
            3,
        ),
        (
            V1,
            V1_MOUNT.format(shown="/") + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            {"memory/jobs/7/memory.limit_in_bytes": 2**63 - 4096, "memory/jobs/7/memory.usage_in_bytes": GIB},
            10,
        ),
        # more used than allowed; files that cannot be understood
        ("0::/a\n", V2_MOUNT.format(shown="/"), {"a/memory.max": GIB, "a/memory.current": 2 * GIB}, 0),
        ("0::/a\n", V2_MOUNT.format(shown="/"), {"a/memory.max": GIB, "a/memory.current": "?"}, 10),
        ("nonsense", "nonsense\n", {}, 10),
    ],
)  # fmt: skip
def test_memory_is_what_machine_and_cgroups_leave(
    tmp_path: Path, cgroup: str, mounts: str, files: dict[str, object], left: int
) -> None:
    assert memory.available_memory(machine(tmp_path, cgroup, mounts, files)) == left * GIB


def test_a_machine_that_says_nothing_has_no_known_memory(tmp_path: Path) -> None:
    assert memory.available_memory(tmp_path) is None


def test_this_machine_says_how_much_memory_there_is() -> None:
    assert (memory.available_memory() or 0) > 64 << 20


# Identities.


def test_children_get_uids_of_their_own() -> None:
    everything = "         0          0 4294967295\n"
    assert limits.child_uid(1, everything) != limits.child_uid(2, everything)
    assert limits.child_uid(4_194_303, everything) == 1_879_048_192 + 4_194_303


def test_few_uids_are_used_from_the_top() -> None:
    container = "0 100000 65536\n"
    found = {limits.child_uid(pid, container) for pid in range(1000)}
    assert len(found) == 1000
    assert all(each is not None and 1000 <= each < 65536 for each in found)


def test_a_namespace_with_one_user_has_no_uid_to_spare() -> None:
    assert limits.child_uid(7, "1000 1000 1\n") is None
    assert limits.child_uid(7, "") is None


def test_landlock_rights_grow_with_its_abi() -> None:
    everything = [landlock.file_access(abi, landlock._ACCESS) for abi in range(1, 8)]
    assert [each.bit_length() for each in everything] == [13, 14, 15, 15, 16, 16, 16]
