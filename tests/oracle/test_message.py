"""What a kernel engineer, or a language model, reads when a case fails."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_kbench.oracle.message import explain, explain_failure
from pytest_kbench.record import Comparison, Reason

TAIL = Comparison(
    output=0,
    elements=195,
    wrong=3,
    worst=(0, 64),
    actual=0.0,
    golden=0.0121,
    error=0.0121,
    allowed=2.95e-6,
    ratio=4101.7,
    norm_ratio=350.2,
    pattern="only the last column (the tail beyond a multiple of 64)",
)


def said(*comparisons: Comparison) -> str:
    return explain(comparisons, shapes=[(3, 65)] * len(comparisons), dtypes=["float32"] * len(comparisons))


def test_wrong_elements_are_explained_verdict_first():
    assert said(TAIL) == (
        "wrong: 3 of 195 elements beyond the bound, worst 0.0121 at [0, 64], 4.1e+03 times what is allowed\n"
        "  output     float32 [3, 65]\n"
        "  where      only the last column (the tail beyond a multiple of 64)\n"
        "  worst      [0, 64]\n"
        "  actual     0\n"
        "  golden     0.0121\n"
        "  error      0.0121, allowed 2.95e-06\n"
        "  norm       error's norm is 350 times what is allowed"
    )


def test_nan_is_told_apart_from_finite_errors():
    nan = Comparison(0, 195, nonfinite=2, worst=(1, 3), actual=math.nan, golden=1.5, norm_ratio=0.1, pattern="row 1")
    assert said(nan).splitlines()[0] == (
        "wrong NaN or infinity: 2 of 195 elements NaN, infinite or finite where golden is not: NaN for 1.5 at [1, 3]"
    )
    both = said(replace(TAIL, nonfinite=7))
    assert both.splitlines()[0].endswith("; 7 of 195 elements NaN, infinite or finite where golden is not")
    assert "  finite     3 wrong\n  non-finite 7 wrong\n" in both


def test_norm_alone_beyond_its_bound_is_said_plainly():
    text = said(replace(TAIL, wrong=0, ratio=0.9, norm_ratio=1.7, pattern=None))
    assert text.splitlines()[0] == (
        "wrong: no single element of 195 is beyond the bound, but the error's norm is 1.7 times what is allowed"
    )


def test_exact_outputs_have_no_multiple_of_nothing():
    text = said(Comparison(0, 4, wrong=1, worst=(2,), actual=3.0, golden=2.0, error=1.0, allowed=0.0, ratio=1.7e308))
    assert text.splitlines()[0] == "wrong: 1 of 4 elements beyond the bound, worst 1 at [2], where nothing is allowed"


def test_worst_output_leads_and_the_others_follow():
    lines = said(
        Comparison(0, 195, ratio=0.1), replace(TAIL, output=1, ratio=2.0), replace(TAIL, output=2)
    ).splitlines()
    assert lines[0].startswith("wrong: 3 of 195")
    assert lines[0].endswith("(output 2)")
    assert lines[-2].startswith("output 1: wrong: 3 of 195")
    assert lines[-1] == "within the bound: output 0"


@pytest.mark.parametrize("count", [2, 9, 300])
def test_explanation_is_bounded_whatever_the_number_of_outputs(count):
    text = said(*(replace(TAIL, output=each, nonfinite=1, pattern="p" * 9999) for each in range(count)))
    assert len(text.splitlines()) <= 12
    assert len(text) < 12 * 401


def test_nothing_wrong_says_nothing():
    assert said(Comparison(0, 195, ratio=0.2)) == ""
    assert explain([], shapes=[], dtypes=[]) == ""


def test_lists_of_different_length_are_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="1 comparisons, 0 shapes"):
        explain([TAIL], shapes=[], dtypes=["float32"])


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_verdict_line(reason):
    line = explain_failure(reason, "what\nhappened")
    assert line.endswith("what happened")
    assert "\n" not in line


def test_failure_shows_its_verdict_and_an_indented_detail():
    text = explain_failure(Reason.CRASHED, "killed by SIGSEGV in call 2 of 3", "stderr:\n  corrupted size\n")
    assert text == "crashed: killed by SIGSEGV in call 2 of 3\n    stderr:\n      corrupted size"


def test_failure_does_not_repeat_itself():
    assert explain_failure(Reason.TIMEOUT, "timed out after 10 s") == "timed out after 10 s"
    assert explain_failure(Reason.TIMEOUT, "") == "timed out"


def test_long_detail_keeps_its_head_and_tail():
    lines = explain_failure(Reason.COMPILE, "g++", "\n".join(f"line {each}" for each in range(500))).splitlines()
    assert len(lines) == 1 + 24 + 1 + 12
    assert lines[1] == "    line 0"
    assert lines[-1] == "    line 499"
    assert lines[25] == "    ... 464 lines left out ..."
    assert len(explain_failure(Reason.COMPILE, "m" * 9999, "x" * 9999)) < 900


def test_detail_cannot_steer_the_terminal():
    text = explain_failure(Reason.RAISED, "ValueError: \x1b[2Jno", "\x1b[31mred\rover\ttab\x07")
    assert "\x1b" not in text
    assert "\r" not in text
    assert "\x07" not in text
    assert "\\x1b[31mred\\x0dover" in text
