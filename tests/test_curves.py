"""Curves over the sizes of a sweep: where a candidate wins, and where it stops."""

from __future__ import annotations

import pytest

from pytest_kbench.record import Reason, Record, Timing
from pytest_kbench.report.curves import curves, lines


def timing(speedup: float | None, speed: str) -> Timing:
    seconds = {"baseline": 1e-6 * (speedup or 1.0), "candidate": 1e-6}
    return Timing(
        "eager", "perf_counter_ns", speed, speedup, speedup, speedup, seconds, {}, None, 8, 1, 20, 0, 0.0, None, 1.0
    )


def swept(size: int, speedup: float | None, speed: str, name: str = "a.cpp") -> Record:
    return Record(
        "softmax", name, "speed", "passed", timings=(timing(speedup, speed),), facts={"swept": f"columns={size}"}
    )


def test_a_curve_says_from_where_to_where_a_candidate_wins():
    given = [swept(64, 2.0, "faster"), swept(1, 0.5, "slower"), swept(8, 1.5, "faster"), swept(512, 1.0, "same")]
    assert lines(curves(given)) == [
        "softmax a.cpp over columns: wins from 8 to 64",
        "  1: 0.50x  8: 1.50x  64: 2.00x  512: same",
    ]


@pytest.mark.parametrize(
    ("speeds", "said"),
    [
        (["faster", "faster"], "wins everywhere"),
        (["slower", "ambiguous"], "wins nowhere"),
        (["faster", "slower", "faster"], "wins at 1, at 3"),
    ],
)
def test_it_wins_where_the_interval_says_so(speeds, said):
    given = [swept(size, 1.2, speed) for size, speed in enumerate(speeds, start=1)]
    assert lines(curves(given))[0].endswith(said)


def test_a_size_that_could_not_be_timed_is_no_win():
    skipped = Record("softmax", "a.cpp", "speed", "skipped", Reason.NOT_TIMED, facts={"swept": "columns=2"})
    assert lines(curves([swept(1, 2.0, "faster"), skipped]))[1] == "  1: 2.00x  2: -"


def test_candidates_have_curves_of_their_own_and_named_shapes_none():
    named = Record("softmax", "b.cpp", "speed", "passed", timings=(timing(2.0, "faster"),))
    given = [swept(1, 2.0, "faster", "b.cpp"), swept(1, 2.0, "faster"), named]
    assert [(each.candidate, len(each.points)) for each in curves(given)] == [("a.cpp", 1), ("b.cpp", 1)]
