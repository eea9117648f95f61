"""One escape attempt per layer, each refused inside; and each goes through outside, so that it is an attempt at all."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from pytest_kbench.sandbox.host import Child, Limits, Program, Returned, Sandbox, ValueArgument

from .conftest import CANDIDATES, SECRET, Start, X, argument, spec

ATTACKS = CANDIDATES / "attacks.py"


@pytest.fixture(scope="module")
def attack(sandbox: Sandbox) -> Iterator[Callable[..., bool]]:
    """Try one attack in a child; whether it went through. Children are replaced as they end."""
    child: Child | None = None

    def attempt(name: str, *values: object) -> bool:
        nonlocal child
        if child is None or not child.alive:
            started = sandbox.start(
                Program("python", ATTACKS, ("forward",)), Limits(memory_bytes=1 << 30), time.monotonic() + 20
            )
            assert isinstance(started, Child), started
            child = started
        arguments = [argument(X), ValueArgument("attack", name)]
        arguments += [ValueArgument(f"v{index}", value) for index, value in enumerate(values)]  # type: ignore[arg-type]
        returned = child.call(arguments, [spec(torch.zeros(1))], seconds=10)
        assert isinstance(returned, Returned), returned
        assert returned.outputs[0] is not None
        return bool(returned.outputs[0].item())

    yield attempt
    if child is not None:
        child.close()


def outside(name: str, *values: object) -> bool:
    """Try the same attack in a process with no sandbox around it."""
    command = [sys.executable, str(ATTACKS), name, *map(str, values)]
    return subprocess.run(command, capture_output=True, cwd=os.environ.get("TMPDIR", "/tmp")).returncode == 0


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that everybody may read and write, as far as its mode says."""
    file = tmp_path / "secret"
    file.write_text(SECRET)
    for each in (tmp_path, *list(tmp_path.parents)[:2]):
        if each.stat().st_uid == os.getuid():
            each.chmod(each.stat().st_mode | 0o777 if each == tmp_path else each.stat().st_mode | 0o055)
    file.chmod(0o666)
    return file


# Files.


@pytest.mark.parametrize("name", ["read", "write", "remove", "rename", "truncate"])
def test_a_file_outside_is_out_of_reach(attack: Callable[..., bool], secret: Path, name: str) -> None:
    assert not attack(name, str(secret))
    assert secret.read_text() == SECRET
    assert outside(name, secret)


@pytest.mark.parametrize("name", ["read_through_symlink", "read_through_hard_link", "read_in_a_subprocess"])
def test_detours_to_a_file_are_closed(attack: Callable[..., bool], secret: Path, name: str) -> None:
    assert not attack(name, str(secret))


@pytest.mark.parametrize("name", ["list_folder", "create", "make_folder"])
def test_a_folder_outside_is_out_of_reach(attack: Callable[..., bool], tmp_path: Path, secret: Path, name: str) -> None:
    assert not attack(name, str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["secret"]
    assert outside(name, tmp_path)


def test_changing_directory_opens_nothing(attack: Callable[..., bool], secret: Path) -> None:
    assert not attack("change_directory_and_read", str(secret.parent), secret.name)


@pytest.mark.parametrize(
    "place", ["/etc/shadow", "/etc/hostname", "/proc/version", "/proc/1/cmdline", "/proc/uptime", "/proc/kallsyms"]
)
def test_the_system_is_readable_only_as_far_as_needed(attack: Callable[..., bool], place: str) -> None:
    assert not attack("read", place)


def test_the_project_and_other_candidates_are_out_of_reach(attack: Callable[..., bool]) -> None:
    here = Path(__file__)
    for place in (
        here,
        CANDIDATES / "behaviours.py",
        here.parents[2] / "README.md",
        here.parents[2] / "pyproject.toml",
    ):
        assert not attack("read", str(place))
    for folder in (CANDIDATES, here.parent, here.parents[1], here.parents[2], Path("/tmp"), Path("/"), Path.home()):
        assert not attack("list_folder", str(folder))


def test_what_a_kernel_needs_is_readable(attack: Callable[..., bool]) -> None:
    for place in (torch.__file__, os.__file__, "/proc/cpuinfo", "/dev/urandom", "/proc/self/maps", str(ATTACKS)):
        assert attack("read", place), place
    assert attack("write", "scratch-file")
    assert attack("write", "/dev/null")


@pytest.mark.parametrize("name", ["make_device", "anonymous_file"])
def test_special_files_are_refused(attack: Callable[..., bool], name: str) -> None:
    assert not attack(name)


def test_shared_memory_of_the_machine_is_closed(attack: Callable[..., bool]) -> None:
    assert not attack("write_shared_memory", f"kbench-test-{os.getpid()}")
    assert outside("write_shared_memory", f"kbench-test-{os.getpid()}")


def test_file_handles_are_refused(attack: Callable[..., bool]) -> None:
    assert not attack("open_by_handle", "/usr/bin/env")
    assert outside("open_by_handle", "/usr/bin/env")


# Other processes.


@pytest.fixture(params=["grader", "zygote", "sibling"])
def victim(request: pytest.FixtureRequest, sandbox: Sandbox, start: Start) -> int:
    """The process that is attacked."""
    if request.param == "grader":
        return os.getpid()
    if request.param == "zygote":
        assert sandbox._zygotes
        return next(iter(sandbox._zygotes.values())).process.pid
    pid = start("behaviours.py").pid
    assert pid is not None
    return pid


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process that a process of the same user may do anything to."""
    process = subprocess.Popen(["/bin/sleep", "100"], start_new_session=True)
    yield process.pid
    process.kill()
    process.wait()


ON_PROCESSES = [
    "read_environment", "read_command_line", "read_memory", "list_descriptors", "signal_nothing", "signal_group",
    "signal_thread", "renice_group", "weigh_for_the_oom_killer",
    "queue_signal", "ptrace", "read_by_vm", "pidfd", "pin", "limit", "renice", "own_signal_to",
]  # fmt: skip


@pytest.mark.parametrize("name", ON_PROCESSES)
def test_other_processes_are_out_of_reach(attack: Callable[..., bool], victim: int, name: str) -> None:
    assert not attack(name, victim)


@pytest.mark.parametrize("name", ON_PROCESSES)
def test_outside_the_same_goes_through(sleeper: int, name: str) -> None:
    assert outside(name, sleeper)


def test_the_schedule_is_not_to_be_changed(attack: Callable[..., bool]) -> None:
    assert not attack("schedule")
    assert outside("schedule")


def test_a_childs_environment_and_arguments_say_nothing(attack: Callable[..., bool]) -> None:
    assert not attack("find_secret", SECRET)
    assert not attack("find_secret", "KBENCH")
    assert not attack("find_secret", "PYTEST")
    assert not attack("find_secret", str(os.getpid()))
    assert not attack("find_secret", str(Path(__file__).parents[2]) + "/pytest_kbench")


def test_no_descriptor_is_left_open(attack: Callable[..., bool]) -> None:
    assert not attack("extra_descriptors")


def test_nobody_leaves_the_session(attack: Callable[..., bool]) -> None:
    assert not attack("stays_in_its_session")
    assert outside("stays_in_its_session")


# Network.


def test_tcp_is_refused(attack: Callable[..., bool]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not attack("tcp", port)
        assert not attack("tcp_listen")
        assert outside("tcp", port)


def test_udp_is_refused(attack: Callable[..., bool]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        assert not attack("udp", server.getsockname()[1])
        assert outside("udp", server.getsockname()[1])


def test_unix_sockets_are_refused(attack: Callable[..., bool], secret: Path) -> None:
    place = str(secret.parent / "s")
    name = f"kbench-test-{os.getpid()}-{threading.get_ident()}"
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as unnamed:
        server.bind(place)
        server.listen()
        unnamed.bind("\0" + name)
        unnamed.listen()
        assert not attack("unix", place)
        assert not attack("abstract", name)
        assert outside("unix", place)
        assert outside("abstract", name)


@pytest.mark.parametrize("name", ["netlink", "see_interfaces"])
def test_the_network_is_not_even_seen(attack: Callable[..., bool], name: str) -> None:
    assert not attack(name)


# Rights, namespaces, doors into the kernel.


@pytest.mark.parametrize(
    "name",
    [
        "become_root", "gain_capability", "raise_process_limit", "outlive_the_parent", "new_user_namespace",
        "clone_user_namespace", "clone_as_sibling", "clone3", "mount", "open_tree", "io_uring", "bpf", "perf",
        "userfault", "keys", "shared_segment", "message_queue", "x32_call", "unheard_of_call", "type_into_terminal",
    ],
)  # fmt: skip
def test_doors_into_the_kernel_are_closed(attack: Callable[..., bool], name: str) -> None:
    assert not attack(name)


@pytest.mark.parametrize("name", ["outlive_the_parent", "new_user_namespace", "io_uring", "keys", "shared_segment"])
def test_outside_these_doors_are_open(name: str) -> None:
    if not outside(name):
        pytest.skip("this machine closes the door to everybody")


def test_identity_is_a_nobodys(sandbox: Sandbox, start: Start) -> None:
    pid = start("behaviours.py").pid
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    if os.geteuid() == 0:
        assert len(set(status["Uid"].split())) == 1
        assert int(status["Uid"].split()[0]) > 1000
        assert status["Groups"].strip() == ""
    assert int(status["CapPrm"], 16) in (0, 1 << 2)
    assert int(status["CapBnd"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


def test_all_layers_hold_here(sandbox: Sandbox) -> None:
    layers = sandbox.layers()
    assert layers.refused == {}
    assert {"seccomp", "landlock-files", "landlock-network", "landlock-scope", "rlimits", "scratch"} <= set(
        layers.active
    )
    assert ("uid" in layers.active) == (os.geteuid() == 0)


def test_strict_grades_here() -> None:
    with Sandbox(mode="strict", threads=1) as sandbox:
        program = Program("python", CANDIDATES / "behaviours.py", ("forward",))
        child = sandbox.start(program, Limits(memory_bytes=1 << 30), time.monotonic() + 20)
        assert isinstance(child, Child)


def test_two_siblings_have_two_users(start: Start) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives uids")
    uids = {os.stat(f"/proc/{start('behaviours.py').pid}").st_uid for _ in range(2)}
    assert len(uids) == 2
    assert os.geteuid() not in uids
