"""A child that nobody asks anything stands still, and a fork of the grader leaves it alone."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pytest_kbench import Grader, Settings
from pytest_kbench.sandbox.host import Sandbox

from .conftest import Behaving, Start, wait_until_gone

BUSY = """
import os, torch
def forward(x, behaviour):
    y = x + 1
    pids = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            while True: pass
        pids.append(pid)
    return torch.tensor(pids)
"""
TASK = """
import torch
from pytest_kbench import Task, Tensor
def relu(x):
    return torch.relu(x)
task = Task(relu, args=[Tensor("x", "rows columns")], shapes={"small": {"rows": 2, "columns": 3}})
"""
BUSY_RELU = """
import os, torch
started = []
def relu(x):
    if len(started) < 3:
        started.append(os.fork())
        if not started[-1]:
            while True: pass
    return torch.relu(x)
"""
TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def busy(start: Start, tmp_path: Path) -> tuple[Behaving, list[int]]:
    """A child that has left processes which never rest, and their ids."""
    file = tmp_path / "busy.py"
    file.write_text(BUSY)
    behave = Behaving(start(file))
    output = behave("", like=torch.zeros(3, dtype=torch.int64)).outputs[0]
    assert output is not None
    return behave, [int(each) for each in output]


def seconds_used(pids: list[int]) -> float:
    """Processor time of these processes."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / TICKS


def used_within(pids: list[int], seconds: float) -> float:
    """What they use of it meanwhile."""
    before = seconds_used(pids)
    time.sleep(seconds)
    return seconds_used(pids) - before


def test_a_paused_child_uses_no_processor_and_goes_on_afterwards(busy: tuple[Behaving, list[int]]) -> None:
    behave, pids = busy
    assert used_within(pids, 0.3) > 0.1
    behave.child.pause()
    time.sleep(0.05)
    assert behave.child.alive
    assert used_within(pids, 0.3) == 0
    behave.child.resume()
    assert used_within(pids, 0.3) > 0.1
    behave.child.pause()
    behave("", like=torch.zeros(3, dtype=torch.int64))  # a request resumes it


@pytest.mark.parametrize("end", ["close", "kill"])
def test_a_paused_child_can_be_ended(busy: tuple[Behaving, list[int]], end: str) -> None:
    behave, pids = busy
    pid = behave.child.pid
    assert pid is not None
    behave.child.pause()
    behave.child.pause()
    if end == "close":
        behave.child.close()
    else:
        os.kill(pid, 9)
    assert not wait_until_gone([pid, *pids])
    time.sleep(0.05)
    assert not behave.child.alive
    behave.child.pause()
    behave.child.resume()


def test_a_grader_lets_a_candidate_rest_between_grades(tmp_path: Path) -> None:
    task = tmp_path / "relu.py"
    task.write_text(TASK)
    candidate = tmp_path / "busy.py"
    candidate.write_text(BUSY_RELU)
    with Grader(Settings(threads=1)) as grader:
        for _ in range(2):
            verdict = grader.grade(task, candidate, checks=["correct"])
            assert verdict.outcome == "passed", verdict.message
            (bench,) = grader._idle.values()
            assert bench._child is not None
            assert bench._child.pid is not None
            children = Path(f"/proc/{bench._child.pid}/task/{bench._child.pid}/children").read_text().split()
            pids = [int(each) for each in children]
            assert pids
            time.sleep(0.05)
            assert used_within(pids, 0.3) == 0
        pid = bench._child.pid
    assert not wait_until_gone([pid, *pids])


# Forks.


def in_a_fork(act: Callable[[], object]) -> str:
    """What `act` raises or gives in a fork of this process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = str(act())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said


REFUSAL = "SandboxError: made before a fork; make another Grader in this process"


def test_a_fork_cannot_use_what_was_made_before_it(sandbox: Sandbox, start: Start) -> None:
    behave = Behaving(start("behaviours.py"))
    acts: list[Callable[[], object]] = [
        lambda: behave("add_one"), lambda: behave.child.alive, behave.child.pause, behave.child.resume,
        lambda: start("behaviours.py"),
    ]  # fmt: skip
    assert [in_a_fork(act) for act in acts] == [REFUSAL] * len(acts)
    assert behave("add_one").outputs[0] is not None


def test_a_fork_that_tidies_up_leaves_the_children_of_its_parent_alone() -> None:
    from .test_endings import BEHAVIOURS, Limits

    sandbox = Sandbox(threads=1)
    child = sandbox.start(BEHAVIOURS, Limits(memory_bytes=1 << 30), time.monotonic() + 20)
    behave = Behaving(child)  # type: ignore[arg-type]
    zygote = next(iter(sandbox._zygotes.values()))
    assert zygote is not None

    def tidy() -> str:
        behave.child.close()
        sandbox.close()
        zygote.close()
        gc.collect()
        return "tidied"

    assert in_a_fork(tidy) == "tidied"
    assert zygote.scratch.exists()
    assert behave("add_one").outputs[0] is not None
    sandbox.close()
    assert not zygote.scratch.exists()


def test_a_sandbox_ends_at_once_although_a_fork_lives_on() -> None:
    sandbox = Sandbox(threads=1)
    sandbox.layers()
    pid = os.fork()
    if pid == 0:
        time.sleep(30)
        os._exit(0)
    begun = time.monotonic()
    sandbox.close()
    assert time.monotonic() - begun < 5
    os.kill(pid, 9)
    os.waitpid(pid, 0)


def test_a_fork_may_make_another_sandbox(sandbox: Sandbox) -> None:
    def again() -> bool:
        with Sandbox(threads=1) as another:
            return bool(another.layers().active)

    assert in_a_fork(again) == "True"
