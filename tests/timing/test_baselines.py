"""What a candidate's time is compared with: eager always, and what torch.compile makes of the reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kbench import Settings
from pytest_kbench.grader import Grader
from pytest_kbench.record import Reason
from pytest_kbench.report.curves import curves
from pytest_kbench.sandbox.host import Sandbox, SandboxError
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
    assert [size for size, _ in curve.points] == [1, 224, 50_000]


def test_eager_is_always_compared_with_and_a_gpu_has_eager_alone_by_default():
    assert Settings(device="cpu").compared_with == ("eager", "compile")
    assert Settings(device="cpu", baselines=("max-autotune",)).compared_with == ("eager", "max-autotune")
    assert Settings(device="cpu", baselines=("eager",)).compared_with == ("eager",)


DODGE = '''
import sys

import torch

child = sys.modules["pytest_kbench.sandbox.child"]
rehearse = child.LoadedCandidate.rehearse
left, calls = 0, 0


def counted(self, request):
    """A stage has ended: one is for finding out how many calls a turn has, one for each comparison."""
    global left, calls
    if not request["calls"]:
        left, calls = left + 1, 0
    return rehearse(self, request)


child.LoadedCandidate.rehearse = counted


def chain(x):
    global calls
    calls += 1
    for _ in range(8):
        x = torch.sin(x) + 1
    return x + 1000 if left >= 2 and 40 < calls < 90 else x
'''


def test_wrong_values_in_a_later_comparison_do_not_keep_a_baseline_out(files):
    task, mine = files
    task.write_text(TASK.replace('cpu=["small", "large"]', 'cpu=["large"]').replace(", time_backward=True", ""))
    mine.write_text(DODGE)
    with Grader(Settings(seed=0, budget=0.3, baselines=("compile",))) as grader:
        (record,) = grader.grade(task, mine, checks=["speed"]).records
    assert record.reason is Reason.WRONG, record.message


def test_a_baseline_that_is_wrong_is_left_out_and_nobody_is_accused(files):
    task, mine = files
    other = "def another(x):\n    return chain(x) + 1\n\n\ntask = Task(chain, baselines=dict(another=another), "
    task.write_text(TASK.replace("task = Task(chain, ", other).replace('cpu=["small", "large"]', 'cpu=["large"]'))
    with Grader(Settings(seed=0, budget=0.05, baselines=("eager",), min_speedup="0.01")) as grader:
        (record, _) = grader.grade(task, mine, checks=["speed"]).records
    assert "not against another: another gives wrong values here" in record.message
    assert record.facts["missing"] == "another"
    assert record.facts["gate"] == "ambiguous"  # the best baseline may be the one that is missing


def test_a_reference_and_baselines_may_lie_in_another_file(tmp_path):
    source, rest = TASK.split("task = Task(")
    twice = "@torch.no_grad()\ndef twice(x):\n    return 0 * chain(x) + chain(x)\n"
    helper = f"import torch\n{source.split('Tensor', 1)[1]}\n\n{twice}"
    (tmp_path / "functions_of_mine.py").write_text(helper)
    (tmp_path / "chain.py").write_text(
        "import sys\nfrom pathlib import Path\n\nfrom pytest_kbench import Task, Tensor\n\n"
        "sys.path.insert(0, str(Path(__file__).parent))\nfrom functions_of_mine import chain, twice\n\n"
        f"task = Task(baselines=dict(twice=twice), function={rest.replace('time_backward=True', 'time_backward=False')}"
    )
    (tmp_path / "mine.py").write_text(CANDIDATE)
    with Grader(Settings(seed=0, budget=0.05, baselines=("eager",))) as grader:
        verdict = grader.grade(tmp_path / "chain.py", tmp_path / "mine.py", checks=["speed"])
    assert [each.baseline for each in verdict.records[1].timings] == ["eager", "twice"], verdict.message


def test_where_the_compiler_does_not_load_eager_is_timed_all_the_same(files, monkeypatch):
    task, mine = files
    start = Sandbox.start

    def refused(self, program, limits, deadline):
        if program.mode is not None:
            raise SandboxError("the zygote did not start: torch.compile is not for this Python")
        return start(self, program, limits, deadline)

    monkeypatch.setattr(Sandbox, "start", refused)
    with Grader(Settings(seed=0, budget=0.05, baselines=("compile",))) as grader:
        verdict = grader.grade(task, mine, checks=["speed"])
    assert verdict.outcome == "passed", verdict.message
    assert "not against compile: compile could not be timed: the zygote did not start" in verdict.records[0].message
