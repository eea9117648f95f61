"""What a run says of speed as a whole: the counts, fast_p, the mean with its interval, and who is right and slower."""

from __future__ import annotations

import json
import math
import random

import pytest

from pytest_kbench.gate import Required, gated
from pytest_kbench.record import BEST, EAGER, Reason, Record, Timing
from pytest_kbench.report import terminal
from pytest_kbench.report.json import document
from pytest_kbench.report.summary import mean, summary


def timing(speedup, *, width=0.02, baseline=EAGER, speed=None, unseen=0.01) -> Timing:
    word = speed or ("faster" if speedup > 1.01 else "slower" if speedup < 0.99 else "same")
    low, high = (None, None) if speedup is None else (speedup * math.exp(-width / 2), speedup * math.exp(width / 2))
    return Timing(
        baseline, "perf_counter_ns", word, speedup, low, high, {"baseline": 2e-6, "candidate": 1e-6}, {}, None,
        32, 1, 20, 0, 0.01, unseen, 1.0,
    )  # fmt: skip


def timed(candidate: str, *timings: Timing, task: str = "softmax", case: str = "dims(rows=3) dtype(float32)") -> Record:
    return Record(task, candidate, "speed", "passed", case=case, timings=timings)


def built(candidate: str, status: str = "passed", reason: Reason | None = None, task: str = "softmax") -> Record:
    return Record(task, candidate, "build", status, reason)


def skipped(candidate: str, reason: Reason) -> Record:
    return Record("softmax", candidate, "speed", "skipped", reason)


def row(records: list[Record], baseline: str):
    return next(each for each in summary(records).against if each.baseline == baseline)


def test_without_a_time_there_is_no_summary():
    assert summary([]) is None
    assert summary([built("a.py"), skipped("a.py", Reason.MEMORY)]) is None


def test_fast_p_counts_cases_whose_whole_interval_lies_above_p():
    speedups = {"a.py": 2.5, "b.py": 1.2, "c.py": 1.005, "d.py": 0.5}
    records = [timed(name, timing(speedup)) for name, speedup in speedups.items()]
    assert row(records, EAGER).fast == {"1": 0.5, "1.5": 0.25, "2": 0.25}
    close = [timed("sharp.py", timing(2.02, width=0.01)), timed("blurred.py", timing(2.02, width=0.1))]
    assert row(close, EAGER).fast["2"] == 0.5


def test_what_could_be_hidden_is_no_speedup():
    records = [timed("a.py", timing(1.2, unseen=0.3)), timed("b.py", timing(2.5, unseen=0.3))]
    assert row(records, EAGER).fast == {"1": 0.5, "1.5": 0.5, "2": 0.0}


def test_failures_and_what_could_not_be_timed_count_among_all_cases():
    records = [
        *(built("fast.py"), timed("fast.py", timing(3.0)), timed("fast.py", timing(3.0))),
        *(built("wrong.py"), Record("softmax", "wrong.py", "correct", "failed", Reason.WRONG)),
        *(skipped("wrong.py", Reason.NOT_TIMED), skipped("wrong.py", Reason.NOT_TIMED)),
        *(built("broken.cpp", "failed", Reason.COMPILE), skipped("broken.cpp", Reason.GIVEN_UP)),
        *(built("liar.py"), Record("softmax", "liar.py", "speed", "failed", Reason.CLOCK)),
        *(built("large.py"), skipped("large.py", Reason.MEMORY)),
    ]
    found = summary(records)
    assert (found.candidates, found.right, found.timed, found.cases) == (5, 2, 1, 7)
    assert row(records, EAGER).timed == 2
    assert row(records, EAGER).fast["1"] == pytest.approx(2 / 7)


def test_who_is_not_graded_here_counts_nowhere_nor_does_a_backward_that_is_not_there():
    records = [
        *(built("fast.py"), timed("fast.py", timing(3.0)), skipped("fast.py", Reason.UNSUPPORTED)),
        *(built("fast.cu", "skipped", Reason.DEVICE), skipped("fast.cu", Reason.GIVEN_UP)),
    ]
    found = summary(records)
    assert (found.candidates, found.cases) == (1, 1)
    assert row(records, EAGER).fast["2"] == 1.0


def test_a_candidate_that_is_wrong_elsewhere_is_not_fast_where_it_was_timed():
    records = [
        timed("mine.py", timing(3.0)),
        Record("softmax", "mine.py", "speed", "failed", Reason.WRONG),
        timed("other.py", timing(2.5)),
    ]
    assert row(records, EAGER).timed == 1
    assert row(records, EAGER).fast == {"1": 1 / 3, "1.5": 1 / 3, "2": 1 / 3}


def test_a_candidate_that_fails_by_the_gate_alone_is_right():
    slow = gated(timed("slow.py", timing(0.5)), Required(1.05))
    quick = gated(timed("quick.py", timing(1.5)), Required(1.05))
    found = summary([slow, quick])
    assert (found.right, found.timed) == (2, 2)
    assert found.gate == {"failed": 1, "ambiguous": 0, "passed": 1}
    assert summary([timed("quick.py", timing(1.5))]).gate == {}


def test_every_baseline_has_its_row_and_the_best_takes_the_least_speedup_of_each_case():
    records = [
        timed("a.py", timing(2.0), timing(0.5, baseline="compile")),
        timed("b.py", timing(1.2), timing(1.6, baseline="compile")),
    ]
    eager, compiled, best = (row(records, name) for name in (EAGER, "compile", BEST))
    assert [each.baseline for each in summary(records).against] == [EAGER, "compile", BEST]
    assert (eager.faster, eager.slower) == (2, 0)
    assert (compiled.faster, compiled.slower) == (1, 1)
    assert best.mean.speedup == pytest.approx(math.sqrt(0.5 * 1.2))
    assert best.fast == {"1": 0.5, "1.5": 0.0, "2": 0.0}


def test_the_four_words_are_counted_and_what_has_no_interval_is_in_no_mean():
    records = [
        timed("a.py", timing(2.0)),
        timed("b.py", timing(1.0)),
        timed("c.py", timing(0.5)),
        timed("d.py", timing(None, speed="ambiguous")),
    ]
    found = row(records, EAGER)
    assert (found.faster, found.same, found.slower, found.ambiguous, found.timed) == (1, 1, 1, 1, 4)
    assert found.mean.speedup == pytest.approx(1.0)
    assert mean([timing(None, speed="ambiguous")]) is None


def test_the_mean_of_one_is_that_one_and_of_many_alike_is_sharper():
    one = mean([timing(1.5, width=0.1)])
    assert (one.speedup, one.low, one.high) == pytest.approx((1.5, 1.5 * math.exp(-0.05), 1.5 * math.exp(0.05)))
    many = mean([timing(1.5, width=0.1)] * 25)
    assert math.log(many.high / many.low) == pytest.approx(0.1 / 5)


def test_the_interval_of_the_mean_covers_it_as_often_as_it_says():
    chance, z, missed = random.Random(7), 2.576, 0
    for _ in range(2000):
        true = [chance.uniform(-1, 1) for _ in range(6)]
        errors = [chance.uniform(0.01, 0.1) for _ in true]
        found = mean([timing(math.exp(chance.gauss(m, e)), width=2 * z * e) for m, e in zip(true, errors, strict=True)])
        missed += not found.low <= math.exp(sum(true) / len(true)) <= found.high
    assert 2 <= missed <= 45  # 20 are expected


def test_who_is_right_and_slower_is_listed_by_its_worst_case_the_slowest_first():
    records = [
        timed("a.py", timing(0.9), case="dims(rows=3)"),
        timed("a.py", timing(0.8), case="dims(rows=300)"),
        timed("b.py", timing(2.0), timing(0.5, baseline="compile")),
        timed("c.py", timing(2.0)),
        timed("d.py", timing(0.98, speed="ambiguous")),
        *(timed("e.py", timing(0.3)), Record("softmax", "e.py", "contract", "failed", Reason.WRONG)),
    ]
    found = summary(records).slower
    assert [(each.candidate, each.baseline, each.speedup) for each in found] == [
        ("b.py", "compile", 0.5),
        ("a.py", EAGER, 0.8),
    ]
    assert found[1].case == "dims(rows=300)"


def test_the_document_holds_the_summary_where_something_was_timed():
    records = [built("a.py"), timed("a.py", timing(2.0))]
    data = json.loads(json.dumps(document({}, records, [], complete=True, exit_code=0), allow_nan=False))
    assert data["summary"]["candidates"] == 1
    assert [each["baseline"] for each in data["summary"]["against"]] == [EAGER, BEST]
    assert data["summary"]["against"][0]["fast"] == {"1": 1.0, "1.5": 1.0, "2": 0.0}
    assert data["summary"]["against"][0]["mean"]["speedup"] == pytest.approx(2.0)
    assert data["summary"]["slower"] == []
    assert "summary" not in document({}, [built("a.py")], [], complete=True, exit_code=0)


# The text.


def test_the_text_has_a_row_per_baseline_and_the_kernels_that_lose():
    records = [
        timed("naive.cpp", timing(2.0), timing(0.5, baseline="compile"), case="dims(rows=3,columns=65) dtype(float32)"),
        timed("own.py", timing(1.5), timing(1.5, baseline="compile"), case="dims(rows=3,columns=65) grad(x)"),
        *(built("wrong.py"), Record("softmax", "wrong.py", "correct", "failed", Reason.WRONG)),
        skipped("wrong.py", Reason.NOT_TIMED),
    ]
    assert terminal.speeds(summary(records)) == [
        "speed: 2 of 3 candidates right, 2 timed",
        "baseline  timed   faster  same  slower  ?  mean                    fast_1  fast_1.5  fast_2",
        "eager     2 of 3  2       0     0       0  1.73x (1.72 to 1.74)    0.67    0.33      0.00",
        "compile   2 of 3  1       0     1       0  0.866x (0.86 to 0.872)  0.33    0.00      0.00",
        "best      2 of 3  1       0     1       0  0.866x (0.86 to 0.872)  0.33    0.00      0.00",
        "right, and slower than the best baseline:",
        "  softmax  naive.cpp  0.5x (0.495 to 0.505)  compile  rows=3,columns=65",
    ]


def test_with_one_baseline_the_best_has_no_row_of_its_own_and_the_gate_has_a_line():
    lines = terminal.speeds(summary([gated(timed("own.py", timing(1.5)), Required(1.05))]))
    assert [line.split()[0] for line in lines] == ["speed:", "baseline", "eager", "gate:"]
    assert lines[-1] == "gate: 1 passed, 0 ambiguous, 0 failed"


def test_at_most_ten_kernels_that_lose_are_listed():
    lines = terminal.speeds(summary([timed(f"{n}.py", timing(0.5 + n / 100)) for n in range(13)]))
    assert lines[3:5] == [
        "right, and slower than the best baseline:",
        "  softmax  0.py  0.5x (0.495 to 0.505)   eager  rows=3",
    ]
    assert len(lines) == 15
    assert lines[-1] == "  ... and 3 more"


def test_a_backward_among_the_losing_is_called_so():
    lines = terminal.speeds(summary([timed("a.py", timing(0.5), case="dims(rows=3) dtype(float32) grad(x) seed(1)")]))
    assert lines[-1].endswith("eager  rows=3 backward")


def test_the_tables_speed_is_that_against_the_best_baseline_also_where_it_is_too_slow():
    several = timed("mine.py", timing(2.0), timing(1.3, baseline="compile"))
    assert terminal.table([several])[1].split() == ["softmax", "mine.py", "1.30x", "passed"]
    slow = gated(timed("mine.py", timing(0.5)), Required(1.05))
    assert terminal.table([slow])[1].split() == ["softmax", "mine.py", "0.50x", "FAILED:", "slow"]
    doubtful = gated(timed("mine.py", timing(1.05, width=0.1)), Required(1.05))
    assert terminal.table([doubtful])[1].endswith("1.05x  passed, not shown to be fast enough")


def test_the_line_on_times_names_all_baselines_and_counts_what_the_table_does_not_tell():
    unclear = timing(1.1, baseline="compile", speed="ambiguous")
    line = terminal.timed([timed("a.py", timing(2.0), unclear), timed("b.py", timing(2.0), timing(3.0))])
    assert line.startswith("times: against eager, compile, one thread")
    assert "1 of 2 are ambiguous (?)" in line
