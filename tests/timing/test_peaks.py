"""What a device can do at most: which roof binds, what is kept of a measurement, and what a candidate makes of it."""

from __future__ import annotations

import json

import pytest
import torch

from pytest_kbench import Grader, Reason, Settings
from pytest_kbench.checks.timekeeper import Timekeeper
from pytest_kbench.record import Timing
from pytest_kbench.timing.peaks import Peaks, datasheet, measured, remembered
from pytest_kbench.timing.roofline import Work

PEAKS = Peaks(bandwidth=1e12, flops=1e14)


@pytest.mark.parametrize(
    ("work", "seconds", "roof"),
    [
        (Work(3_000_000, 1_000_000, None), 4e-6, "memory"),
        (Work(3_000_000, 1_000_000, 1_000), 4e-6, "memory"),
        (Work(3_000_000, 1_000_000, 1_000_000_000), 1e-5, "compute"),
    ],
)
def test_the_roof_that_takes_longer_binds(work, seconds, roof):
    assert PEAKS.light(work) == (pytest.approx(seconds), roof)


def test_without_a_known_peak_of_operations_memory_binds():
    assert Peaks(1e12, None).light(Work(1_000_000, 0, 1_000_000_000)) == (pytest.approx(1e-6), "memory")


def test_what_is_written_may_stay_in_a_cache():
    assert PEAKS.least(Work(1_000_000, 5_000_000, None), cache=4_000_000) == pytest.approx(2e-6)
    assert PEAKS.least(Work(1_000_000, 3_000_000, None), cache=4_000_000) == pytest.approx(1e-6)


def test_a_datasheet_is_found_by_a_part_of_the_name():
    found = datasheet("NVIDIA H200", "bfloat16")
    assert found is not None
    assert (found.bandwidth, found.flops) == (4.8e12, 989e12)
    assert datasheet("NVIDIA GeForce RTX 4090", "float32") is None


def test_a_measurement_is_made_once_per_device_and_dtype(tmp_path):
    file, made = tmp_path / "below" / "peaks.json", []

    def measure() -> Peaks:
        made.append(1)
        return Peaks(2e10, None if len(made) == 2 else 3e10)

    first = remembered(file, "a CPU", "float32", measure)
    assert remembered(file, "a CPU", "float32", measure) == first
    assert remembered(file, "a CPU", "float64", measure).flops is None
    assert remembered(file, "a CPU", "float64", measure).flops is None
    assert remembered(file, "another CPU", "float32", measure) == first
    assert len(made) == 3


@pytest.mark.parametrize("kept", ["", "[]", '{"a CPU, float32": 1}', '{"a CPU, float32": {"bandwidth": -1}}', "\x00"])
def test_a_file_that_makes_no_sense_is_written_anew(tmp_path, kept):
    file = tmp_path / "peaks.json"
    file.write_text(kept)
    assert remembered(file, "a CPU", "float32", lambda: PEAKS) == PEAKS
    assert json.loads(file.read_text())["a CPU, float32"] == {"bandwidth": 1e12, "flops": 1e14}


def test_where_nothing_can_be_kept_it_is_measured_all_the_same(tmp_path):
    (tmp_path / "file").write_text("")
    assert remembered(tmp_path / "file" / "peaks.json", "a CPU", "float32", lambda: PEAKS) == PEAKS


def test_a_cpu_has_peaks_and_none_for_products_that_it_cannot_make():
    found = measured(torch.device("cpu"), "float32", 1 << 20)
    assert 1e8 < found.bandwidth < 1e13
    assert found.flops is not None
    assert 1e8 < found.flops < 1e15
    assert measured(torch.device("cpu"), "bool", 1 << 20).flops is None


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_gpus_peaks_lie_below_its_datasheet(dtype):
    device = torch.device("cuda")
    stated = datasheet(torch.cuda.get_device_name(device), dtype)
    if stated is None:
        pytest.skip("its datasheet is not known here")
    found = measured(device, dtype, torch.cuda.get_device_properties(device).L2_cache_size)
    assert 0.5 < found.bandwidth / stated.bandwidth < 1.02
    assert 0.4 < found.flops / stated.flops < 1.02


def timing(candidate: float, baseline: float, light: float | None) -> Timing:
    seconds = {"baseline": baseline, "candidate": candidate}
    return Timing(
        "eager", "perf_counter_ns", "faster", baseline / candidate, 1.0, 9.0, seconds, {}, None, 8, 1, 20, 0, 0.0, None,
        1.0, light=light, roof="memory", bytes=4_000_000,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("candidate", "score"), [(1e-5, 0.5), (2e-6, 1.0), (1e-6, 1.0), (6e-6, 2 / 3), (1.0, pytest.approx(0.0, abs=1e-4))]
)
def test_the_score_is_a_half_at_the_baseline_and_one_at_the_limit(candidate, score):
    assert timing(candidate, 1e-5, 2e-6).score == pytest.approx(score)


def test_a_baseline_at_the_limit_leaves_no_room():
    assert timing(3e-6, 2e-6, 2e-6).score == 0.0
    assert timing(2e-6, 2e-6, 2e-6).score == 1.0


def test_the_message_says_how_far_the_limit_is_and_which():
    assert timing(4e-6, 8e-6, 2e-6).told.endswith("1 TB/s, 50% of light (memory)")
    assert timing(1e-6, 8e-6, 2e-6).told.endswith("4 TB/s, 200% of light (memory; caches help)")
    assert "light" not in timing(4e-6, 8e-6, None).told


SLOW = """
from pytest_kbench import Task, Tensor


def sine(x):
    for _ in range(40):
        y = x.sin()
    return y


task = Task(sine, args=[Tensor("x", "n")], shapes=dict(large=dict(n=50_000)))
"""


def test_faster_than_light_is_accused_only_where_the_baseline_is_not(tmp_path, monkeypatch):
    (tmp_path / "sine.py").write_text(SLOW)
    (tmp_path / "mine.py").write_text("def sine(x):\n    return x.sin()\n")
    limit = 0.0
    monkeypatch.setattr(Timekeeper, "quickest", lambda *_: limit)
    with Grader(Settings(seed=0, budget=0.05, baselines=("eager",))) as grader:
        graded = [tmp_path / "sine.py", tmp_path / "mine.py"]
        (first,) = grader.grade(*graded, checks=["speed"]).records
        seconds = first.timings[0].seconds
        limit = (seconds["baseline"] * seconds["candidate"]) ** 0.5
        (between,) = grader.grade(*graded, checks=["speed"]).records
        limit = 2 * seconds["baseline"]  # then it is the count of bytes that is wrong
        (above,) = grader.grade(*graded, checks=["speed"]).records
    assert between.reason is Reason.IMPOSSIBLE, between.message
    assert above.status == "passed", above.message
