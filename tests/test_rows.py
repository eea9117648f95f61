"""Records as rows of pytest-benchmark's, and as the document that it reads."""

from __future__ import annotations

import importlib.metadata
import statistics
from dataclasses import replace

import pytest

from pytest_kbench.options import _report
from pytest_kbench.record import Reason, Record, Timing
from pytest_kbench.report.benchmark import ITEM, document, row_of

SAMPLES = ((4e-6, 2e-6), (4.5e-6, 2.25e-6), (4.25e-6, 2.5e-6))
TIMING = Timing(
    baseline="eager",
    clock="perf_counter_ns",
    speed="faster",
    speedup=2.0,
    low=1.9,
    high=2.1,
    seconds={"baseline": 4.25e-6, "candidate": 2.25e-6},
    wall={},
    warm=None,
    calls=1,
    threads=1,
    blocks=3,
    rejected=0,
    floor=0.0,
    unseen=None,
    spent=1.0,
    samples=SAMPLES,
)
ID = "tasks/softmax.py::speed[naive.cpp:laptop:f32]"
TIMED = Record("softmax", "naive.cpp", "speed", "passed", facts={ITEM: ID}, timings=(TIMING,))


def test_a_row_has_the_candidates_samples_under_the_id_of_its_test():
    row = row_of(TIMED)
    assert (row.fullname, row.name, row.param) == (ID, "speed[naive.cpp:laptop:f32]", "naive.cpp:laptop:f32")
    assert row.samples == (2e-6, 2.25e-6, 2.5e-6)
    assert row.params == {"task": "softmax", "candidate": "naive.cpp", "case": "laptop:f32"}


def test_candidates_are_compared_where_task_call_and_device_are_the_same():
    other = replace(TIMED, candidate="b%3A.py", facts={ITEM: "tasks/softmax.py::speed[b%3A.py:laptop:f32]"})
    backward = replace(TIMED, facts={ITEM: "tasks/softmax.py::speed[naive.cpp:laptop:f32:backward]"})
    on_gpu = replace(TIMED, timings=(replace(TIMING, clock="CUDA events around a graph"),))
    groups = [row_of(each).group for each in (TIMED, other, backward, on_gpu)]
    assert groups == [
        "softmax:laptop:f32 on cpu",
        "softmax:laptop:f32 on cpu",
        "softmax:laptop:f32:backward on cpu",
        "softmax:laptop:f32 on cuda",
    ]


def test_a_row_says_what_it_was_compared_with_and_how_that_came_out():
    compiled = replace(TIMING, baseline="compile", speed="ambiguous", speedup=None, low=None, high=None)
    told = row_of(replace(TIMED, timings=(TIMING, compiled))).extra_info
    assert (told["device"], told["clock"], told["threads"]) == ("cpu", "perf_counter_ns", 1)
    assert (told["baseline"], told["baseline_seconds"]) == ("eager", 4.25e-6)
    assert (told["speedup"], told["low"], told["high"], told["speed"]) == (2.0, 1.9, 2.1, "faster")
    assert list(told["baselines"]) == ["eager", "compile"]
    assert (told["baselines"]["compile"]["speed"], told["baselines"]["compile"]["speedup"]) == ("ambiguous", None)


@pytest.mark.parametrize(
    "record",
    [
        replace(TIMED, status="failed", reason=Reason.CLOCK),
        replace(TIMED, status="skipped", reason=Reason.NOT_TIMED, timings=()),
        replace(TIMED, timings=(replace(TIMING, blocks=0, samples=()),)),
        Record("softmax", "naive.cpp", "correct", "passed"),
    ],
    ids=["failed", "skipped", "no block came about", "another check"],
)
def test_what_has_no_times_that_count_has_no_row(record):
    assert row_of(record) is None
    assert document([record], "2026-01-01", {}, {})["benchmarks"] == []


def test_the_document_holds_every_row_in_the_order_of_ids_with_all_samples():
    first = replace(TIMED, facts={ITEM: "tasks/gelu.py::speed[a.py:odd:f32]"})
    written = document([TIMED, first], "2026-01-01", {"node": "here"}, {"id": "abc"})
    assert (written["machine_info"], written["commit_info"]) == ({"node": "here"}, {"id": "abc"})
    assert [each["fullname"] for each in written["benchmarks"]] == [first.facts[ITEM], ID]
    stats = written["benchmarks"][1]["stats"]
    assert stats["data"] == [2e-6, 2.25e-6, 2.5e-6]
    assert (stats["min"], stats["median"], stats["max"], stats["rounds"]) == (2e-6, 2.25e-6, 2.5e-6, 3)
    assert stats["mean"] == statistics.mean(stats["data"])


def test_a_document_for_pytest_benchmark_is_refused_where_it_is_not_installed(monkeypatch):
    def missing(package):
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr("importlib.metadata.version", missing)
    assert _report("times.json").name == "times.json"
    with pytest.raises(ValueError, match=r"\.benchmark\.json needs pytest-benchmark"):
        _report("times.benchmark.json")
