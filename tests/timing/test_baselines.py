"""What a candidate's time is compared with: eager always, and what torch.compile makes of the reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kbench import Settings
from pytest_kbench.grader import Grader
from pytest_kbench.report.curves import curves
from pytest_kbench.sweep import parsed

TASK = '''
import torch

from pytest_kbench import Task, Tensor


def chain(x):
    """Many passes over memory, which a compiler makes one of."""
    for _ in range(8):
        x = torch.sin(x) + 1
    return x


task = Task(chain, args=[Tensor("x", "n")], shapes=dict(small=dict(n=5), large=dict(n=50_000)), grad=["x"],
            time=dict(cpu=["small", "large"]), time_backward=True)
'''
CANDIDATE = "import torch\n\n\ndef chain(x):\n    for _ in range(8):\n        x = torch.sin(x) + 1\n    return x\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "chain.py").write_text(TASK)
    (tmp_path / "mine.py").write_text(CANDIDATE)
    return tmp_path / "chain.py", tmp_path / "mine.py"


def compiled_files(cache: Path) -> set[str]:
    return {each.name for each in cache.glob("kept/*/inductor/**/*") if each.suffix in (".cpp", ".so")}


def test_compiled_baselines_are_timed_beside_eager_and_compile_once(files, tmp_path):
    settings = Settings(seed=0, budget=0.05, cache=tmp_path / "cache", baselines=("compile",))
    with Grader(settings) as grader:
        verdict = grader.grade(*files, checks=["speed"])
    assert verdict.outcome == "passed", verdict.message
    for record in verdict.records:
        assert [each.baseline for each in record.timings] == ["eager", "compile"], record.message
    large = verdict.records[2]
    eager, compiled = large.timings
    assert compiled.seconds["baseline"] < eager.seconds["baseline"]
    assert "; against compile: " in large.message
    first = compiled_files(settings.cache)
    assert first
    with Grader(settings) as grader:
        again = grader.grade(*files, checks=["speed"])
    assert len(again.records[0].timings) == 2
    assert compiled_files(settings.cache) == first


def test_a_baseline_that_cannot_be_made_is_left_out_and_said(files, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", str(tmp_path / "no-compiler"))
    settings = Settings(seed=0, budget=0.05, cache=tmp_path / "cache", baselines=("compile",))
    with Grader(settings) as grader:
        verdict = grader.grade(*files, checks=["speed"])
    assert verdict.outcome == "passed", verdict.message
    (first, *_) = verdict.records
    assert [each.baseline for each in first.timings] == ["eager"]
    assert "not against compile: compile could not be timed" in first.message


def test_a_baseline_that_the_task_declares_is_timed_too(files):
    task, mine = files
    own = "def twice(x):\n    return chain(x) + 0 * chain(x)\n\n\ntask = Task(chain, baselines=dict(twice=twice), "
    task.write_text(TASK.replace("task = Task(chain, ", own).replace('cpu=["small", "large"]', 'cpu=["large"]'))
    with Grader(Settings(seed=0, budget=0.05, baselines=("eager",))) as grader:
        (record, _) = grader.grade(task, mine, checks=["speed"]).records
    eager, twice = record.timings
    assert twice.baseline == "twice"
    assert twice.seconds["baseline"] > 1.3 * eager.seconds["baseline"]


def test_a_sweep_times_other_sizes_and_finds_nothing_wrong_with_them(files):
    task, mine = files
    task.write_text(TASK.replace("grad=[", 'fuzz=dict(n="0..60000"), grad=['))
    settings = Settings(seed=0, budget=0.02, baselines=("eager",), shapes=parsed("n=1..50000:log:3"))
    with Grader(settings) as grader:
        verdict = grader.grade(task, mine, checks=["speed"])
    assert verdict.outcome == "passed", verdict.message
    (curve,) = curves(verdict.records)
    assert [size for size, _ in curve.points] == [1, 224]  # 50,000 is timed anyway


def test_eager_is_always_compared_with_and_a_gpu_has_eager_alone_by_default():
    assert Settings(device="cpu").compared_with == ("eager", "compile")
    assert Settings(device="cpu", baselines=("max-autotune",)).compared_with == ("eager", "max-autotune")
    assert Settings(device="cpu", baselines=("eager",)).compared_with == ("eager",)
