"""However the grader or a child ends, nothing that a candidate started lives on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from pytest_kbench.record import Reason
from pytest_kbench.sandbox import connection, host, limits
from pytest_kbench.sandbox.host import Child, Failure, Limits, Program, Returned, Sandbox, SandboxError, SandboxRefused

from .conftest import CANDIDATES, Behaving, Start, wait_until_gone

GRADER = Path(__file__).parent / "grader_to_kill.py"
TWO = torch.zeros(2, dtype=torch.int64)


def pids_of(behave: Behaving, behaviour: str, count: int) -> list[int]:
    output = behave(behaviour, like=torch.zeros(count, dtype=torch.int64)).outputs[0]
    assert output is not None
    return [int(each) for each in output]


@pytest.mark.parametrize(("behaviour", "count"), [("leave_daemon", 2), ("leave_many", 20)])
def test_what_a_child_leaves_behind_ends_with_it(behave: Behaving, behaviour: str, count: int) -> None:
    pids = pids_of(behave, behaviour, count)
    assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    behave.child.close()
    assert not wait_until_gone(pids)


def test_what_a_child_leaves_behind_ends_when_it_crashes(behave: Behaving) -> None:
    pids = pids_of(behave, "leave_daemon", 2)
    behave.fails("abort")
    assert not wait_until_gone(pids)


def test_another_child_is_left_alone(start: Start) -> None:
    one, other = Behaving(start("behaviours.py")), Behaving(start("behaviours.py"))
    pids = pids_of(other, "leave_daemon", 2)
    one.child.close()
    time.sleep(0.1)
    assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    assert other("add_one").outputs[0] is not None


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_survives_a_killed_grader(how: signal.Signals) -> None:
    command = [sys.executable, str(GRADER), str(CANDIDATES / "behaviours.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as grader:
        assert grader.stdout is not None
        words = grader.stdout.readline().split()
        pids, scratch = [int(each) for each in words[:-1]], Path(words[-1])
        assert len(pids) == 4  # zygote, child, daemon, a child in the midst of a call
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        grader.send_signal(how)
        grader.wait()
    assert not wait_until_gone(pids, 10)
    end = time.monotonic() + 5
    while scratch.exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not scratch.exists()


def test_closing_a_sandbox_ends_all_and_leaves_no_folder() -> None:
    sandbox = Sandbox(threads=1)
    sandbox.layers()
    assert sandbox._zygotes
    pid, scratch = next(iter(sandbox._zygotes.values())).process.pid, next(iter(sandbox._zygotes.values())).scratch
    sandbox.close()
    assert not wait_until_gone([pid])
    assert not scratch.exists()


def test_strict_refuses_where_a_layer_is_missing(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
    report = limits.LayerReport((), {"seccomp": "not in this kernel"})
    monkeypatch.setattr(connection.Connection, "wait_ready", lambda self, deadline: report)
    monkeypatch.setattr(sandbox, "_mode", "strict")
    program = Program("python", CANDIDATES / "behaviours.py", ("forward",))
    with pytest.raises(SandboxRefused, match="seccomp: not in this kernel") as caught:
        sandbox.start(program, Limits(), time.monotonic() + 10)
    assert caught.value.layers == {"seccomp": "not in this kernel"}


def test_a_zygote_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_BOOTSTRAP", "raise ImportError('no torch here')")
    with (
        Sandbox() as sandbox,
        pytest.raises(SandboxError, match=r"^the zygote did not start: ImportError: no torch here$"),
    ):
        sandbox.layers()
    monkeypatch.setattr(host, "_BOOTSTRAP", "import torch_that_is_not_there")
    with Sandbox() as sandbox, pytest.raises(SandboxError, match=r"'torch_that_is_not_there'; .* PYTHONPATH") as caught:
        sandbox.layers()
    assert "\n" not in str(caught.value)


def test_a_zygote_finds_what_only_pythonpath_led_the_grader_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "only_here"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(host, "_PRELOADED", ("only_here",))
    monkeypatch.setattr(host, "_BOOTSTRAP", host._BOOTSTRAP.replace("\nmain(", "\nimport only_here\nmain("))
    with Sandbox(threads=1) as sandbox:
        assert sandbox.layers().active


BEHAVIOURS = Program("python", CANDIDATES / "behaviours.py", ("forward",))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("None", "TypeError: 'NoneType' object is not callable"),
        ("lambda *_: time.sleep(60)", "no answer within 1 s"),
    ],
)
def test_what_goes_wrong_before_a_candidate_is_there_is_not_the_candidates(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str, message: str
) -> None:
    ours = f"import time, pytest_kbench.sandbox.limits\npytest_kbench.sandbox.limits.lock_down = {fault}\n"
    main = "from pytest_kbench.sandbox.zygote import main\n"
    monkeypatch.setattr(host, "_BOOTSTRAP", host._BOOTSTRAP.replace(main, ours + main))
    monkeypatch.setattr(host, "READY_TIME", 1.0)
    with Sandbox(threads=1) as sandbox:
        with pytest.raises(SandboxError, match=f"did not get ready.*{message}"):
            sandbox.start(BEHAVIOURS, Limits(memory_bytes=1 << 30), time.monotonic() + 20)
        job = host.CompileJob("kernel.so", tmp_path)
        with pytest.raises(SandboxError, match=message):
            sandbox.compile(job, Limits(memory_bytes=1 << 30), 20)


def test_a_child_that_ends_before_it_is_asked_is_not_the_candidates(
    monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox
) -> None:
    ready = connection.Connection.wait_ready

    def wait_and_kill(self: connection.Connection, deadline: float) -> limits.LayerReport | Failure:
        report = ready(self, deadline)
        assert self.pid is not None
        os.kill(self.pid, signal.SIGKILL)
        wait_until_gone([self.pid])
        time.sleep(0.05)
        return report

    monkeypatch.setattr(connection.Connection, "wait_ready", wait_and_kill)
    with pytest.raises(SandboxError, match="ended before it was asked for anything: killed by SIGKILL"):
        sandbox.start(BEHAVIOURS, Limits(memory_bytes=1 << 30), time.monotonic() + 20)


def test_the_time_to_get_ready_is_not_the_candidates(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
    ready = connection.Connection.wait_ready

    def wait_long(self: connection.Connection, deadline: float) -> limits.LayerReport | Failure:
        time.sleep(1.1)
        return ready(self, deadline)

    monkeypatch.setattr(connection.Connection, "wait_ready", wait_long)
    child = sandbox.start(BEHAVIOURS, Limits(memory_bytes=1 << 30), time.monotonic() + 1)
    assert isinstance(child, Child)
    child.close()


@pytest.mark.parametrize("behaviour", ["add_one", "loop_without_the_gil"])
def test_closing_a_sandbox_under_eight_callers_gives_each_a_failure(behaviour: str) -> None:
    before = set(os.listdir("/proc/self/fd"))
    sandbox = Sandbox(threads=1)
    children = [sandbox.start(BEHAVIOURS, Limits(memory_bytes=1 << 30), time.monotonic() + 60) for _ in range(8)]
    results: list[object] = []

    def call(child: Child) -> None:
        try:
            while isinstance(found := Behaving(child).ask(behaviour, seconds=20), Returned):
                pass
            results.append(found)
        except BaseException as error:
            results.append(error)

    threads = [threading.Thread(target=call, args=(child,)) for child in children]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    sandbox.close()
    for thread in threads:
        thread.join(10)
    assert len(results) == 8
    assert {type(each) for each in results} == {Failure}, results
    assert {(each.reason, each.message) for each in results if isinstance(each, Failure)} == {
        (Reason.ENVIRONMENT, "the sandbox was closed")
    }
    assert set(os.listdir("/proc/self/fd")) <= before


def test_closing_a_sandbox_while_children_start_gives_each_an_answer() -> None:
    before = set(os.listdir("/proc/self/fd"))
    sandbox = Sandbox(threads=1)
    sandbox.layers()
    results: list[object] = []

    def start() -> None:
        try:
            results.append(sandbox.start(BEHAVIOURS, Limits(memory_bytes=1 << 30), time.monotonic() + 60))
        except BaseException as error:
            results.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(0.03)
    sandbox.close()
    for thread in threads:
        thread.join(60)
    sandbox.close()
    assert len(results) == 6
    assert all(isinstance(each, (Child, Failure, SandboxError)) for each in results), results
    assert not any(isinstance(each, Child) and each.alive for each in results)
    assert set(os.listdir("/proc/self/fd")) <= before


def test_a_child_closed_by_another_thread_ends_its_call(start: Start) -> None:
    child = start("behaviours.py")
    timer = threading.Timer(0.1, child.close)
    timer.start()
    begun = time.monotonic()
    assert Behaving(child).fails("loop_without_the_gil", seconds=20).reason is Reason.EXITED
    assert time.monotonic() - begun < 5
    timer.join()


def test_closing_twice_closes_nobody_elses_descriptor(start: Start) -> None:
    child = start("behaviours.py")
    child.close()
    mine = [os.pipe() for _ in range(4)]
    child.close()
    child.connection.breach("too late")
    assert Behaving(child).fails("add_one").reason is Reason.EXITED
    for pair in mine:
        for each in pair:
            os.close(each)


def test_descriptors_do_not_pile_up(start: Start) -> None:
    start("behaviours.py").close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        behave = Behaving(start("behaviours.py"))
        behave("add_one")
        behave.child.close()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("kind", [dict(compiler="", gpu=False), dict(compiler="", gpu=True), dict()])
def test_a_compiler_for_the_cpu_sees_no_gpu_as_looking_for_one_starts_threads(monkeypatch, kind):
    environment = {}

    def started(command: object, **how: object) -> None:
        environment.update(how["env"])
        raise OSError("that is all")

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setattr(host.subprocess, "Popen", started)
    with pytest.raises(SandboxError, match="that is all"):
        host._Zygote(None, host._Kind(**kind))
    assert environment["CUDA_VISIBLE_DEVICES"] == ("" if kind.get("gpu") is False else "1")
