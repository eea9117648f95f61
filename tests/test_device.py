"""Which device grades what."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kbench import Settings, device
from pytest_kbench.candidate import Candidate
from pytest_kbench.device import device_for, kind_of, resolved

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
