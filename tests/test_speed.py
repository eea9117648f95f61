"""The speed check: what is timed, what its record says, and what keeps a candidate from being timed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_kbench import Grader, Reason, Record, Settings, Task, Tensor
from pytest_kbench.checks import speed
from pytest_kbench.formats.native import load
from pytest_kbench.record import Timing

ROOT = Path(__file__).parent.parent
TASK = '''
import torch
from pytest_kbench import Scalar, Task, Tensor


def scaled(x, y, factor):
    """The reference."""
    return x.sin() * factor + y


task = Task(
    scaled,
    args=[Tensor("x", "rows columns"), Tensor("y", "rows columns"), Scalar("factor", 2.0, 3.0)],
    shapes={"small": dict(rows=3, columns=5), "large": dict(rows=200, columns=300)},
    dtypes=["float32", "float64"],
    grad=["x", "y"],
    time=dict(cpu=["large"]),
    time_backward=True,
)
'''
RIGHT = "def scaled(x, y, factor):\n    return x.sin() * factor + y\n"

Timed = Callable[..., list[Record]]


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(Settings(seed=0, baselines=("eager",), budget=0.05)) as grader:
        yield grader


@pytest.fixture
def timed(grader: Grader, tmp_path: Path) -> Timed:
    def grade(source: str, *, task: str = TASK, suffix: str = "py", **kwargs: object) -> list[Record]:
        (tmp_path / "scaled.py").write_text(task)
        candidate = tmp_path / f"mine.{suffix}"
        candidate.write_text(source)
        return list(grader.grade(tmp_path / "scaled.py", candidate, **{"checks": ["speed"], **kwargs}).records)

    return grade


def named(task: str, folder: Path) -> list[str]:
    path = folder / "scaled.py"
    path.write_text(task)
    return [each.id for each in speed.cases(load(path)[0], Settings(seed=0))]


def test_the_shapes_of_time_are_timed_in_the_first_dtype_and_their_backward_if_asked_for(tmp_path):
    assert named(TASK, tmp_path) == ["large:f32", "large:f32:backward"]
    assert named(TASK.replace("time_backward=True,", ""), tmp_path) == ["large:f32"]
    untimed = TASK.replace('time=dict(cpu=["large"]),', "").replace("time_backward=True,", "")
    assert named(untimed, tmp_path) == ["large:f32"]  # the largest


def test_a_record_says_how_it_was_timed_and_keeps_the_samples(timed):
    forward, backward = timed(RIGHT)
    for record in (forward, backward):
        assert record.status == "passed", record.message
        (timing,) = record.timings
        assert timing.baseline == "eager"
        assert timing.threads == 1
        assert timing.speed in ("faster", "slower", "same", "ambiguous")
        assert len(timing.samples) == timing.blocks > 0
        assert 0 < timing.seconds["candidate"] <= timing.wall["candidate"]
        assert timing.warm > 0
        assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_what_takes_many_times_as_long_is_slower(timed):
    source = "def scaled(x, y, factor):\n    for _ in range(20):\n        z = x.sin() * factor + y\n    return z\n"
    (record, _) = timed(source)
    (timing,) = record.timings
    assert timing.speed in ("slower", "ambiguous")  # ambiguous where something else was busy all the time
    assert timing.speedup is None or timing.speedup < 0.2


def test_what_failed_another_check_is_not_timed(timed):
    records = timed("def scaled(x, y, factor):\n    return x\n", checks=["correct", "speed"])
    assert {record.status for record in records if record.check == "correct"} == {"failed"}
    late = timed(RIGHT.replace("+ y", "- y"), checks=["contract", "speed"])
    skipped = [record for record in late if record.check == "speed"]
    assert all(record.reason is Reason.NOT_TIMED and record.status == "skipped" for record in skipped)
    assert all("contract failed: wrong" in record.message for record in skipped)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise ValueError('not this one')", Reason.RAISED),
        ("import os; os.abort()", Reason.CRASHED),
        ("return 3", Reason.STRUCTURE),
        ("return x[:7]", Reason.WRONG),
        ("return x.sin() * factor", Reason.WRONG),
        ("return x.double().sin() * factor + y", Reason.WRONG),
    ],
)
def test_a_candidate_that_cannot_be_timed_fails_with_its_reason(timed, body, reason):
    record = timed(f"def scaled(x, y, factor):\n    {body}\n")[0]
    assert record.status == "failed"
    assert record.reason is reason, record.message


def test_a_wrong_gradient_is_seen_while_it_is_timed(timed):
    source = """
import torch

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x.sin() * factor + y

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.factor, cotangent, None

def scaled(x, y, factor):
    return Scaled.apply(x, y, factor)
"""
    forward, backward = timed(source)
    assert forward.status == "passed", forward.message
    assert (backward.status, backward.reason) == ("failed", Reason.WRONG)


def test_a_forward_alone_has_its_forward_timed(timed):
    forward, backward = timed("def scaled(x, y, factor):\n    return (x.sin() * factor + y).detach()\n")
    assert forward.status == "passed"
    assert (backward.status, backward.reason) == ("skipped", Reason.UNSUPPORTED)


def test_an_operator_that_writes_its_argument_is_timed_on_new_values_each_time(timed):
    task = """
from pytest_kbench import Task, Tensor

def scaled(x):
    x.sin_()

task = Task(scaled, args=[Tensor("x", "n")], shapes={"one": dict(n=4000)}, in_place=["x"])
"""
    (record,) = timed("def scaled(x):\n    x.copy_(x.sin())\n", task=task)
    assert record.status == "passed", record.message
    (record,) = timed("def scaled(x):\n    pass\n", task=task)
    assert (record.status, record.reason) == ("failed", Reason.WRONG)


def test_a_reference_that_imports_its_neighbours_is_timed(timed, tmp_path, monkeypatch):
    (tmp_path / "neighbour.py").write_text("def twice(x):\n    return x + x\n")
    monkeypatch.syspath_prepend(tmp_path)
    task = """
from neighbour import twice
from pytest_kbench import Task, Tensor

def scaled(x):
    return twice(x)

task = Task(scaled, args=[Tensor("x", "n")], shapes={"one": dict(n=4000)})
"""
    (record,) = timed("def scaled(x):\n    return x * 2\n", task=task)
    assert record.status == "passed", record.message


def test_a_case_of_ones_own_is_timed(timed):
    (record,) = timed(RIGHT, cases=["dims(rows=64,columns=64) dtype(float64) scalars(factor=3.0) seed(1)"])
    assert record.status == "passed", record.message
    (record,) = timed(RIGHT, cases=["dims(rows=64) dtype(float64) scalars(factor=3.0) seed(1)"])
    assert record.reason is Reason.CASE


def test_a_compiled_candidate_with_a_backward_of_its_own_is_timed(grader):
    verdict = grader.grade(ROOT / "tasks" / "softmax.py", ROOT / "candidates/softmax/naive.cpp", checks=["speed"])
    assert verdict.outcome == "passed", verdict.message


def test_a_reference_that_no_file_has_at_its_top_level_is_not_timed(grader, tmp_path):
    def scaled(x):
        return x * 2

    task = Task(scaled, args=[Tensor("x", "n")], shapes={"one": dict(n=4000)})
    candidate = tmp_path / "mine.py"
    candidate.write_text("def scaled(x):\n    return x + x\n")
    (record,) = grader.grade(task, candidate, checks=["speed"]).records
    assert (record.status, record.reason) == ("skipped", Reason.NOT_TIMED)
    assert "cannot be run in a process of its own" in record.message


def test_a_reference_that_a_task_file_makes_is_timed(timed):
    task = """
from pytest_kbench import Task, Tensor

def made(factor):
    def scaled(x):
        return x * factor
    return scaled

task = Task(made(2), args=[Tensor("x", "n")], shapes={"one": dict(n=4000)})
"""
    (record,) = timed("def scaled(x):\n    return x + x\n", task=task)
    assert record.status == "passed", record.message


def test_what_a_call_asks_for_holds_and_not_what_its_grader_was_made_with(timed):
    (record, _) = timed(RIGHT, settings=Settings(seed=0, baselines=("eager",), budget=1e-6))
    assert record.timings[0].blocks == 1
    assert "too few" in record.message or "busy" in record.message


@pytest.mark.parametrize(
    ("seconds", "moved", "flops", "told"),
    [
        (1e-6, 3_950_000, None, "3.95 TB/s"),
        (1e-6, 612_000, 51_200_000, "612 GB/s, 51.2 TFLOP/s"),
        (1.0, 12, 0, "12 B/s"),
        (1.0, None, None, ""),
    ],
)
def test_what_is_moved_and_computed_in_a_second_has_three_digits(seconds, moved, flops, told):
    timing = Timing(
        "eager", "perf_counter_ns", "same", 1.0, 0.99, 1.01, {"baseline": seconds, "candidate": seconds}, {}, None,
        1, 1, 20, 0, 0.0, None, 1.0, bytes=moved, flops=flops,
    )  # fmt: skip
    assert timing.rates == told
    assert timing.told == ", ".join(filter(None, ["as fast (0.99 to 1.01)", told]))


def test_who_waits_for_the_host_is_told_so():
    timing = Timing(
        "eager", "CUDA events around a graph", "faster", 2.0, 1.9, 2.1, {"baseline": 4e-6, "candidate": 2e-6}, {},
        None, 1, 1, 20, 0, 0.0, None, 1.0, issuing={"baseline": 1e-6, "candidate": 25e-6},
    )  # fmt: skip
    assert timing.host_bound
    assert timing.told == "2x faster (1.9 to 2.1); host-bound: issuing a call takes 25 us"


EARLY = """
import sys

import torch

child = sys.modules["pytest_kbench.sandbox.child"]
honest = child.before_backwards
early = []


def before_backwards(function, calls, **how):
    found = honest(function, calls, **how)
    for call in calls:
        forward = call.forward
        leaves = list(forward.leaves.values())
        early.append(torch.autograd.grad(forward.objects[0], leaves, call.cotangents[0], retain_graph=True))
    return found


def backwards(own, calls, **how):
    for call in calls:
        call.kept = [each.contiguous() for each in early.pop(0)]
    return [1000] * len(calls), [[each.data_ptr() for each in call.kept] for call in calls]


child.before_backwards, child.backwards = before_backwards, backwards


def scaled(x, y, factor):
    return x.sin() * factor + y
"""


def test_gradients_cannot_be_worked_out_before_the_backward_is_timed(timed):
    forward, backward = timed(EARLY)
    assert forward.status == "passed", forward.message
    assert (backward.status, backward.reason) == ("failed", Reason.WRONG), backward.message
