"""The gate: what may be asked for, what intervals say of it, and what a record says afterwards."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import pytest_kbench.grader
from pytest_kbench import Grader, Reason, Record, Settings, Task, TaskError, Tensor
from pytest_kbench.candidate import Candidate
from pytest_kbench.case import Case, NamedCase
from pytest_kbench.gate import Required, asked, decided, gated, nowhere, required, wrong
from pytest_kbench.grader import Patience, not_timed
from pytest_kbench.oracle.message import explain_failure
from pytest_kbench.record import BEST, EAGER, Timing

TASK = """
from pytest_kbench import Task, Tensor


def twice(x):
    return x * 2


task = Task(
    twice, args=[Tensor("x", "n")], shapes={{"a": dict(n=3), "b": dict(n=4)}}, time=dict(cpu=["a", "b"]){}
)
"""


def timing(low, high, *, baseline=EAGER, unseen=0.01, speed="faster", rejected=0) -> Timing:
    known = low is not None
    return Timing(
        baseline, "perf_counter_ns", speed, (low + high) / 2 if known else None, low, high,
        {"baseline": 2e-6, "candidate": 1e-6}, {}, None, 32, 1, 20, rejected, 0.01, unseen, 1.0,
    )  # fmt: skip


def record(*timings: Timing, **changes) -> Record:
    fields = {"status": "passed", "message": "; ".join(each.told for each in timings), "timings": timings}
    return Record("twice", "mine.py", "speed", case="dims(n=3)", **{**fields, **changes})


def twice(x):
    return x * 2


def task(**changes) -> Task:
    return Task(twice, args=[Tensor("x", "n")], shapes={"a": {"n": 3}, "b": {"n": 4}}, **changes)


# What may be asked for.


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("1.05", Required(1.05, BEST)),
        ("1.05@eager", Required(1.05, EAGER)),
        ("1.05@best", Required(1.05, BEST)),
        (".5@max-autotune", Required(0.5, "max-autotune")),
        ("2.", Required(2.0, BEST)),
        (1.2, Required(1.2, BEST)),
        (2, Required(2.0, BEST)),
        (1e-05, Required(1e-05, BEST)),
        (0, Required(0.0, BEST)),
        (None, None),
    ],
)
def test_a_number_asks_against_the_best_baseline_and_a_text_may_name_another(given, expected):
    assert required(given) == expected


@pytest.mark.parametrize(
    "given",
    ["", "fast", "1.05@", "@eager", "-1", -1, "nan", float("nan"), "inf", float("inf"), "1e999", "1,05", "1.05x",
     "1.05@two words", "1.05@eager@best", True, [1.05]],
)  # fmt: skip
def test_what_is_no_speedup_is_refused_with_what_there_is_to_write(given):
    with pytest.raises(ValueError, match=r"it takes a speedup, and the baseline if it is not the best one: 1\.05, 1\."):
        required(given)


@pytest.mark.parametrize("text", ["1.05", "1.05@eager", "2", "0", "1.0000001@compile", "1e-05"])
def test_a_requirement_prints_as_the_text_that_asks_for_it(text):
    assert str(required(text)) == text
    assert required(str(required(text))) == required(text)


def test_settings_take_what_the_option_takes_and_give_the_flags_back():
    settings = Settings(min_speedup="1.05@eager", strict=True)
    assert settings.min_speedup == Required(1.05, EAGER)
    assert settings.flags() == "--kbench-min-speedup=1.05@eager --kbench-strict"
    assert Settings(min_speedup=1.5).flags() == "--kbench-min-speedup=1.5"
    assert Settings().flags() == ""
    with pytest.raises(ValueError, match=r"Settings\.min_speedup='fast': it takes a speedup"):
        Settings(min_speedup="fast")
    with pytest.raises(ValueError, match=r"Settings\.strict=1: it takes True or False"):
        Settings(strict=1)


def test_a_task_declares_its_own():
    assert task(min_speedup="1.2@eager").min_speedup == Required(1.2, EAGER)
    assert repr(task(min_speedup="1.2@eager")).endswith("min_speedup='1.2@eager')")
    assert task(min_speedup="1.2@mine", baselines={"mine": twice}).min_speedup == Required(1.2, "mine")


@pytest.mark.parametrize(
    ("given", "problem", "fix"),
    [
        ("fast", "'fast' is no speedup", '"1.2@eager"'),
        (-1, "-1 is no speedup", "0 asks for nothing"),
        ("1.2@nonsense", "'nonsense' is no baseline", "Choose from: best, eager"),
    ],
)
def test_a_wrong_requirement_of_a_task_names_the_field_and_the_fix(given, problem, fix):
    with pytest.raises(TaskError) as caught:
        task(min_speedup=given)
    assert caught.value.field == "min_speedup"
    assert problem in str(caught.value)
    assert fix in str(caught.value)


@pytest.mark.parametrize(
    ("own", "of_the_run", "expected"),
    [
        (None, None, None),
        (None, "1.05@eager", Required(1.05, EAGER)),
        (1.2, "1.05@eager", Required(1.2, BEST)),
        (0.5, "1.05@eager", Required(0.5, BEST)),
        (1.2, None, Required(1.2, BEST)),
        (1.2, 0, Required(1.2, BEST)),
        (0, "1.05@eager", None),
        (None, 0, None),
    ],
)
def test_what_a_task_says_wins_over_the_run_and_zero_asks_for_nothing(own, of_the_run, expected):
    assert asked(task(min_speedup=own), Settings(min_speedup=of_the_run)) == expected


def test_a_baseline_that_nothing_is_compared_with_is_noticed_before_the_run():
    tasks = [task(), task(baselines={"mine": twice})]
    assert nowhere(Settings(min_speedup="1.05@mine"), tasks) is None
    assert nowhere(Settings(min_speedup="1.05"), tasks) is None
    assert nowhere(Settings(min_speedup="1.05@nonsense"), []) is None
    problem = nowhere(Settings(min_speedup="1.05@nonsense"), tasks)
    assert problem.startswith("1.05@nonsense: nothing has a baseline nonsense; choose from best, eager, ")
    assert problem.endswith(", mine")


def test_what_the_gate_asks_for_is_compared_with():
    assert Settings(device="cpu", baselines=("eager",)).compared_with == (EAGER,)
    asking = Settings(device="cpu", baselines=("eager",), min_speedup="1.05@compile")
    assert asking.compared_with == (EAGER, "compile")
    assert Settings(device="cpu", baselines=("compile",), min_speedup="1.05").compared_with == (EAGER, "compile")


# What intervals say.


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.05, 1.10, "passed"),
        (1.06, 1.10, "passed"),
        (1.04, 1.10, "ambiguous"),
        (1.00, 1.05, "ambiguous"),
        (0.90, 1.049, "failed"),
        (None, None, "ambiguous"),
    ],
)
def test_the_low_end_must_be_there_and_a_high_end_below_fails(low, high, expected):
    assert decided(1.05, timing(low, high)) == expected


@pytest.mark.parametrize(
    ("unseen", "expected"), [(0.0, "passed"), (0.02, "passed"), (0.03, "ambiguous"), (None, "ambiguous")]
)
def test_nothing_passes_that_hidden_time_would_undo(unseen, expected):
    assert decided(1.05, timing(1.06, 1.08, unseen=unseen)) == expected
    assert decided(1.05, timing(0.9, 1.0, unseen=unseen)) == "failed"


def test_what_is_much_faster_passes_whatever_it_could_have_hidden():
    assert decided(1.05, timing(2.0, 2.1, unseen=0.5)) == "passed"


def test_nothing_is_decided_where_something_else_was_busy():
    assert decided(1.05, timing(0.5, 0.6, speed="ambiguous", rejected=15)) == "ambiguous"
    assert decided(1.05, timing(0.5, 0.6, speed="slower", rejected=15)) == "failed"


# What a record says.


def test_what_is_fast_enough_passes_and_says_what_was_asked():
    found = gated(record(timing(1.2, 1.3)), Required(1.05, EAGER))
    assert (found.status, found.reason) == ("passed", None)
    assert found.facts == {"gate": "passed", "required": "1.05@eager"}
    assert found.message == record(timing(1.2, 1.3)).message


def test_what_is_too_slow_fails_and_says_by_how_much():
    found = gated(record(timing(0.91, 0.95, speed="slower")), Required(1.05))
    assert (found.status, found.reason) == ("failed", Reason.SLOW)
    first, second = found.message.splitlines()
    assert first == "too slow: 0.93x (0.91 to 0.95) against eager, 1.05 is required"
    assert second == "  0.93x, slower (0.91 to 0.95)"
    assert first == explain_failure(Reason.SLOW, first)
    assert wrong(record(status="failed"))
    assert not wrong(found)  # it is right all the same
    assert Record.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_what_cannot_be_told_is_said_and_fails_only_where_that_is_strict():
    doubtful = record(timing(1.0, 1.1, speed="ambiguous"))
    lenient, strict = (gated(doubtful, Required(1.05), strict=each) for each in (False, True))
    said = "not shown to be fast enough: 1.05x (1 to 1.1) against eager, 1.05 is required"
    assert (lenient.status, lenient.reason, lenient.facts["gate"]) == ("passed", None, "ambiguous")
    assert lenient.message.splitlines()[1] == said
    assert (strict.status, strict.reason, strict.facts["gate"]) == ("failed", Reason.SLOW, "ambiguous")
    assert strict.message.splitlines()[0] == said


@pytest.mark.parametrize(
    ("doubtful", "said"),
    [
        (timing(None, None, speed="ambiguous"), "20 blocks are too few; 1.05x against eager is required"),
        (
            timing(0.5, 0.6, speed="ambiguous", rejected=15),
            "something else was busy in 15 blocks; 1.05x against eager is required",
        ),
        (
            timing(1.06, 1.08, unseen=0.09),
            "1.07x (1.06 to 1.08) against eager, 1.05 is required, and 9% of its time could be hidden",
        ),
    ],
)
def test_why_it_cannot_be_told_is_said(doubtful, said):
    found = gated(record(doubtful), Required(1.05), strict=True)
    assert found.message.splitlines()[0] == f"not shown to be fast enough: {said}"


def test_digits_are_as_many_as_show_on_which_side_an_end_lies():
    found = gated(record(timing(1.04, 1.0499)), Required(1.05))
    assert "(1.04 to 1.0499) against eager, 1.05 is required" in found.message
    found = gated(record(timing(1.04, 1.04999999)), Required(1.05))
    assert "(1.04 to 1.05) against eager" in found.message  # seven digits are enough


def test_against_the_best_baseline_means_against_every_one():
    fine, close, bad = timing(1.2, 1.3), timing(1.19, 1.21, baseline="compile"), timing(0.8, 0.9, baseline="mine")
    unknown = timing(None, None, baseline="mine", speed="ambiguous")
    assert gated(record(fine, close), Required(1.05)).facts["gate"] == "passed"
    assert gated(record(fine, unknown), Required(1.05)).facts["gate"] == "ambiguous"
    found = gated(record(fine, unknown, bad), Required(1.05))
    assert found.message.startswith("too slow: 0.85x (0.8 to 0.9) against mine, 1.05 is required\n")
    assert gated(record(fine, bad), Required(1.05, EAGER)).facts["gate"] == "passed"


def test_a_gate_that_was_never_looked_at_fails():
    found = gated(record(timing(1.2, 1.3), message="not against compile: it raised"), Required(1.05, "compile"))
    assert (found.status, found.reason) == ("failed", Reason.NOT_TIMED)
    assert found.message.splitlines() == [
        "not timed: there is no comparison with compile, and 1.05x against compile is required",
        "  not against compile: it raised",
    ]
    assert not wrong(found)


def test_what_failed_or_was_skipped_stays_as_it_is():
    for each in (
        record(status="failed", reason=Reason.WRONG, message="wrong"),
        record(status="skipped", reason=Reason.UNSUPPORTED, message="no gradients"),
        record(status="skipped", reason=Reason.DEVICE, message="no device"),
    ):
        assert gated(each, Required(1.05), strict=True) is each
        assert gated(each, None) is each


def test_a_strict_gate_takes_no_for_an_answer_where_nothing_could_be_timed():
    each = record(status="skipped", reason=Reason.MEMORY, message="memory: too large")
    assert gated(each, Required(1.05)) is each
    found = gated(each, Required(1.05), strict=True)
    assert (found.status, found.reason) == ("failed", Reason.MEMORY)
    assert (
        found.message.splitlines()[1] == "  1.05x against the best baseline is required, and what cannot be told fails"
    )


# In the grader.


@pytest.fixture
def grade(monkeypatch, tmp_path):
    """Grade a candidate whose times are given, not measured."""
    (tmp_path / "mine.py").write_text("def twice(x):\n    return x * 2\n")

    def graded(given: Timing, task: str | None = None, check=lambda bench, named: None, **settings):
        own = "" if task is None else f", min_speedup={task!r}"
        (tmp_path / "twice.py").write_text(TASK.format(own))
        monkeypatch.setattr(pytest_kbench.grader.speed, "check", lambda *args: check(*args) or record(given))
        with Grader(Settings(device="cpu", baselines=("eager",), **settings)) as grader:
            return grader.grade(tmp_path / "twice.py", tmp_path / "mine.py", checks=["build", "speed"])

    return graded


def test_grade_fails_what_is_too_slow_in_every_shape(grade):
    verdict = grade(timing(0.91, 0.95), min_speedup="1.05@eager")
    assert (verdict.outcome, verdict.reason) == ("failed", Reason.SLOW)
    assert [each.reason for each in verdict.records] == [None, Reason.SLOW, Reason.SLOW]


def test_grade_asks_what_the_task_asks_and_has_it_compared(grade):
    asked = []

    def check(bench, named):
        asked.append(bench.settings.compared_with)
        return record(timing(0.91, 0.95), timing(1.6, 1.7, baseline="max-autotune"))

    assert grade(timing(0.91, 0.95), min_speedup=1.05, task="1.5@max-autotune", check=check).outcome == "passed"
    assert asked == [("eager", "max-autotune")] * 2
    assert grade(timing(0.91, 0.95), task="1.5").outcome == "failed"
    assert grade(timing(0.91, 0.95), min_speedup=1.05, task="0").outcome == "passed"


def test_grade_passes_what_is_fast_enough_and_what_is_not_asked(grade):
    assert grade(timing(1.2, 1.3), min_speedup=1.05, strict=True).outcome == "passed"
    assert grade(timing(0.91, 0.95)).outcome == "passed"
    assert grade(timing(1.0, 1.1), min_speedup=1.05).outcome == "passed"
    assert grade(timing(1.0, 1.1), min_speedup=1.05, strict=True).outcome == "failed"


@pytest.mark.parametrize(("clock", "floor"), [("perf_counter_ns", 0.031), ("CUDA events around a graph", 0.011)])
def test_where_identical_programs_differ_too_much_nothing_is_decided(clock, floor):
    for ends in ((1.5, 1.6), (0.5, 0.6)):
        known = timing(*ends)
        assert decided(1.05, known) != "ambiguous"
        assert decided(1.05, replace(known, clock=clock, floor=floor)) == "ambiguous"


def test_the_best_baseline_may_be_one_that_is_missing():
    known = record(timing(1.5, 1.6), facts={"missing": "compile"})
    found = gated(known, Required(1.05))
    assert (found.status, found.facts["gate"]) == ("passed", "ambiguous")
    assert "there is no comparison with compile" in gated(known, Required(1.05), strict=True).message
    assert gated(known, Required(1.05, EAGER)).facts["gate"] == "passed"
    assert gated(record(timing(0.5, 0.6), facts={"missing": "compile"}), Required(1.05)).status == "failed"


def test_being_too_slow_gives_nobody_up():
    slow = gated(record(timing(0.5, 0.6)), Required(1.05))
    assert slow.status == "failed"
    assert not Patience(max_failures=1).lost(slow)
    assert Patience(max_failures=1).lost(replace(slow, reason=Reason.WRONG, facts={}))


def test_a_size_of_a_sweep_that_is_not_timed_is_told_as_one(tmp_path):
    (tmp_path / "mine.py").write_text("")
    named = NamedCase("n=2:f32", Case.parse("dims(n=2) dtype(float32) seed(1)"))
    failed = record(status="failed", reason=Reason.WRONG)
    assert not_timed(task(), Candidate.at(tmp_path / "mine.py"), named, failed).facts == {"swept": "n=2"}
