"""Which device grades what."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pytest_kbench import Grader, Settings, device
from pytest_kbench.candidate import Candidate
from pytest_kbench.checks import bench
from pytest_kbench.device import device_for, kind_of, resolved
from pytest_kbench.oracle.inputs import TooLarge
from pytest_kbench.sandbox.outcome import NoDeviceMemory

ROOT = Path(__file__).parent.parent


@pytest.fixture
def gpus(monkeypatch):
    return lambda count: monkeypatch.setattr(device, "gpus", lambda: count)


@pytest.mark.parametrize(
    ("count", "name", "chosen"),
    [
        (0, "auto", "cpu"),
        (0, "cpu", "cpu"),
        (2, "auto", "cuda:0"),
        (2, "cpu", "cpu"),
        (2, "cuda", "cuda:0"),
        (2, "cuda:1", "cuda:1"),
    ],
)
def test_the_best_device_that_is_there_is_chosen_or_the_one_that_is_named(gpus, count, name, chosen):
    gpus(count)
    assert resolved(name) == chosen
    assert resolved(chosen) == chosen
    assert kind_of(chosen) == chosen.partition(":")[0]


@pytest.mark.parametrize(
    ("count", "name", "told"),
    [
        (0, "cuda", "torch sees no GPU here; choose auto or cpu"),
        (2, "cuda:2", "torch sees 2 here, from cuda:0 to cuda:1"),
        (2, "gpu", "choose auto, cpu, cuda or cuda:N"),
        (2, "cuda:", "choose auto, cpu, cuda or cuda:N"),
        (2, "", "choose auto, cpu, cuda or cuda:N"),
    ],
)
def test_a_device_that_is_not_there_is_refused_with_what_there_is(gpus, count, name, told):
    gpus(count)
    with pytest.raises(ValueError, match=told):
        resolved(name)
    with pytest.raises(ValueError, match=rf"Settings\.device='{name}': {told}"):
        Settings(device=name)


def test_c_plus_plus_is_graded_on_the_cpu_whatever_else_there_is():
    folder = ROOT / "candidates" / "softmax"
    chosen = {name: device_for(Candidate.at(folder / name), "cuda:1") for name in ("naive.cpp", "rows.cu", "eager.py")}
    assert chosen == {"naive.cpp": "cpu", "rows.cu": "cuda:1", "eager.py": "cuda:1"}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (TooLarge("judging this takes about 144 GiB of GPU memory, and there are 139 GiB"), "144 GiB"),
        (torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate"), "beside what others use"),
        (NoDeviceMemory("no memory of cuda:0"), "beside what others use"),
    ],
)
@pytest.mark.parametrize("check", ["correct", "fuzz"])
def test_what_a_gpu_has_no_memory_for_is_skipped_and_is_no_fault(monkeypatch, tmp_path, error, told, check):
    def ask(*given, **named):
        raise error

    monkeypatch.setattr(bench, "ask", ask)
    (tmp_path / "mine.py").write_text("import torch\n\n\ndef relu(x):\n    return torch.relu(x)\n")
    with Grader(Settings(seed=0, examples=3)) as grader:
        record = grader.grade(ROOT / "tasks" / "relu.py", tmp_path / "mine.py", checks=[check]).records[0]
    if check == "correct":
        assert (record.status, str(record.reason)) == ("skipped", "memory")
        assert told in record.message
        assert "\n" not in record.message
    else:
        assert record.status != "failed"
