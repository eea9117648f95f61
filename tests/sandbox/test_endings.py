"""However the grader or a child ends, nothing that a candidate started lives on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from pytest_kbench.sandbox import connection, host, limits
from pytest_kbench.sandbox.host import Limits, Sandbox, SandboxError, SandboxRefused

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
    assert sandbox._zygote is not None
    pid, scratch = sandbox._zygote.process.pid, sandbox._zygote.scratch
    sandbox.close()
    assert not wait_until_gone([pid])
    assert not scratch.exists()


def test_strict_refuses_where_a_layer_is_missing(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
    report = limits.LayerReport((), {"seccomp": "not in this kernel"})
    monkeypatch.setattr(connection.Connection, "wait_ready", lambda self, deadline: report)
    monkeypatch.setattr(sandbox, "_strict", True)
    from pytest_kbench.sandbox.host import Program

    program = Program("python", CANDIDATES / "behaviours.py", ("forward",))
    with pytest.raises(SandboxRefused, match="seccomp: not in this kernel") as caught:
        sandbox.start(program, Limits(), time.monotonic() + 10)
    assert caught.value.layers == {"seccomp": "not in this kernel"}


def test_a_zygote_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_BOOTSTRAP", "raise ImportError('no torch here')")
    with Sandbox() as sandbox, pytest.raises(SandboxError, match="no torch here"):
        sandbox.layers()


def test_descriptors_do_not_pile_up(start: Start) -> None:
    start("behaviours.py").close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        behave = Behaving(start("behaviours.py"))
        behave("add_one")
        behave.child.close()
    assert len(os.listdir("/proc/self/fd")) == before
