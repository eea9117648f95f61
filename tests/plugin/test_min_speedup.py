"""The gate in a run: what fails, what is only told, what reproduces it, and what people get wrong."""

from __future__ import annotations

import json

import pytest

from pytest_kbench.checks import speed
from pytest_kbench.gate import decided
from pytest_kbench.record import Reason, Record, Timing

SPEED = ("--kbench-checks=build,speed", "--kbench-baselines=eager")


@pytest.fixture
def times(monkeypatch):
    """Give candidates these times instead of measuring: the ends of an interval against eager, by name."""

    def given(**ends):
        def check(bench, named):
            low, high = ends[bench.candidate.name.removesuffix(".py")]
            word = "faster" if low > 1 else "slower" if high < 1 else "ambiguous"
            facts = {"swept": named.id.partition(":")[0]} if "=" in named.id else {}
            timing = Timing(
                "eager", "perf_counter_ns", word, (low + high) / 2, low, high, {"baseline": 2e-6, "candidate": 1e-6},
                {}, None, 32, 1, 20, 0, 0.01, 0.01, 1.0,
            )  # fmt: skip
            names = bench.task.name, bench.candidate.name
            return Record(
                *names, "speed", "passed", case=str(named.case), timings=(timing,), message=timing.told, facts=facts
            )

        monkeypatch.setattr(speed, "check", check)

    return given


def test_what_is_too_slow_is_a_failed_item_that_says_so_and_how_to_run_it_again(project, times):
    project.candidates("right.py", "dense.py")
    times(right=(1.2, 1.3), dense=(0.91, 0.95))
    result = project.grade(*SPEED, "--kbench-min-speedup=1.05@eager", "--kbench-report=results.json")
    assert result.ret == 1
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            "kbench: gate 1.05x against eager",
            "too slow: 0.93x (0.91 to 0.95) against eager, 1.05 is required",
            "pytest tasks/twice.py *--kbench-candidate=dense.py *--kbench-min-speedup=1.05@eager",
            "twice *dense.py *ok *0.93x *FAILED: slow",
            "twice *right.py *ok *1.25x *passed",
            "times: against eager, *",
            "speed: 2 of 2 candidates right, 2 timed",
            "baseline *timed *faster *same *slower *? *mean *fast_1 *fast_1.5 *fast_2",
            "eager *2 of 2 *1 *0 *1 *0 *0.50 *0.00 *0.00",
            "right, and slower than the best baseline:",
            "  twice  dense.py  0.93x (0.91 to 0.95) *rows=3,columns=65",
            "gate: 1 passed, 0 ambiguous, 1 failed",
            "FAILED tasks/twice.py::speed[[]dense.py:odd:f32[]] - too slow: 0.93x *",
        ]
    )
    data = json.loads((project.path / "results.json").read_text())
    assert {each["candidate"]: each["reason"] for each in data["verdicts"]} == {"dense.py": "slow", "right.py": None}
    assert data["summary"]["gate"] == {"failed": 1, "ambiguous": 0, "passed": 1}
    (slow,) = (each for each in data["records"] if each["status"] == "failed")
    assert slow["facts"]["required"] == "1.05@eager"


def test_what_cannot_be_told_passes_and_is_told_unless_that_is_strict(project, times):
    project.candidates("right.py")
    times(right=(0.95, 1.15))
    lenient = project.grade(*SPEED, "--kbench-min-speedup=1.05")
    assert lenient.ret == 0
    lenient.stdout.fnmatch_lines(
        ["twice *right.py *passed, not shown to be fast enough", "gate: 0 passed, 1 ambiguous, 0 failed"]
    )
    strict = project.grade(*SPEED, "--kbench-min-speedup=1.05", "--kbench-strict")
    assert strict.ret == 1
    strict.stdout.fnmatch_lines(
        [
            "kbench: gate 1.05x against the best baseline, strict",
            "not shown to be fast enough: 1.05x (0.95 to 1.15) against eager, 1.05 is required",
            "pytest tasks/twice.py *--kbench-min-speedup=1.05 --kbench-strict",
        ]
    )


def test_the_configuration_file_has_a_gate_and_the_command_line_lifts_it(project, times):
    project.candidates("right.py")
    times(right=(0.91, 0.95))
    project.pytester.makeini("[pytest]\nkbench_min_speedup = 1.05@eager\nkbench_strict = true\n")
    assert project.grade(*SPEED).ret == 1
    lifted = project.grade(*SPEED, "--kbench-min-speedup=0")
    assert lifted.ret == 0
    assert "gate 1" not in lifted.stdout.str()
    assert "gate:" not in lifted.stdout.str()


def test_what_a_task_asks_wins_over_the_command_line(project, times):
    project.candidates("right.py")
    times(right=(0.91, 0.95))
    file = project.path / "tasks/twice.py"
    text = file.read_text()
    file.write_text(text.replace("dtypes=", 'min_speedup="0.9@eager", dtypes='))
    assert project.grade(*SPEED, "--kbench-min-speedup=1.05").ret == 0
    file.write_text(text.replace("dtypes=", "min_speedup=1.5, dtypes="))
    asked = project.grade(*SPEED, "--kbench-min-speedup=0.5")
    asked.stdout.fnmatch_lines(["too slow: 0.93x (0.91 to 0.95) against eager, 1.5 is required"])
    file.write_text(text.replace("dtypes=", "min_speedup=0, dtypes="))
    assert project.grade(*SPEED, "--kbench-min-speedup=1.05").ret == 0
    file.write_text(text.replace("dtypes=", "min_speedup='1.5@nonsense', dtypes="))
    wrong = project.grade(*SPEED)
    assert wrong.ret == 1
    wrong.stdout.fnmatch_lines(["task: twice.py: min_speedup: 'nonsense' is no baseline. Choose from: best, eager*"])


@pytest.mark.parametrize("text", ["fast", "1.05@", "-1", "nan", "1.05@a b", ""])
def test_a_gate_that_is_none_is_a_usage_error_that_says_what_it_takes(project, text):
    project.candidates("right.py")
    result = project.grade(f"--kbench-min-speedup={text}")
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        [f"ERROR: --kbench-min-speedup={text}: it takes a speedup, and the baseline if it is not the best one: 1.05, *"]
    )


def test_a_gate_against_a_baseline_of_no_task_is_a_usage_error_that_names_those_there_are(project):
    project.candidates("right.py")
    result = project.grade(*SPEED, "--kbench-min-speedup=1.05@nonsense")
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ["ERROR: --kbench-min-speedup=1.05@nonsense: nothing has a baseline nonsense; choose from best, eager*"]
    )
    assert "passed" not in result.stdout.str()


def test_times_that_were_measured_go_through_the_gate(project):
    project.candidates("right.py")
    project.write("candidates/twice/slow.py", "def twice(x):\n    return [x * 2 for _ in range(300)][-1]\n")
    project.grade(*SPEED, "--kbench-budget=0.2", "--kbench-min-speedup=0.5@eager", "--kbench-report=results.json")
    found = json.loads((project.path / "results.json").read_text())["records"]
    timed = [Record.from_json(each) for each in found if each["check"] == "speed"]
    assert len(timed) == 2
    for each in timed:  # either may be ambiguous, where something else is busy
        decision = decided(0.5, each.against("eager"))
        assert each.facts["gate"] == decision
        assert (each.status, each.reason) == (("failed", Reason.SLOW) if decision == "failed" else ("passed", None))
    assert [each.candidate for each in timed if each.facts["gate"] == "failed"] in ([], ["slow.py"])


SWEPT = """
from pytest_kbench import Task, Tensor


def twice(x):
    return x * 2


task = Task(twice, args=[Tensor("x", "rows columns")], shapes={"odd": dict(rows=3, columns=65)},
            fuzz=dict(columns="1..99"))
"""


def test_a_shape_that_is_too_slow_does_not_keep_others_from_being_timed(project, times):
    project.write("tasks/twice.py", SWEPT)
    project.candidates("right.py")
    times(right=(0.91, 0.95))
    result = project.grade(*SPEED, "--kbench-min-speedup=1.05", "--kbench-shapes=columns=1..4:log")
    result.assert_outcomes(passed=1, failed=4)


def test_a_sweep_says_where_a_candidate_wins_and_counts_in_no_summary(project, times):
    project.write("tasks/twice.py", SWEPT)
    project.candidates("right.py")
    times(right=(1.2, 1.3))
    result = project.grade(*SPEED, "--kbench-shapes=columns=1..4:log", "-v")
    result.stdout.fnmatch_lines(
        [
            "*::speed[[]right.py:columns=2:f32[]] PASSED*",
            "twice *right.py *ok *1.25x *passed",
            "eager *1 of 1 *",
            "twice right.py over columns: wins everywhere",
            "  1: 1.25x  2: 1.25x  4: 1.25x",
        ]
    )


def test_a_sweep_over_a_dimension_that_no_task_has_is_a_usage_error(project):
    project.write("tasks/twice.py", SWEPT)
    project.candidates("right.py")
    result = project.grade("--kbench-shapes=tokens=1..8")
    assert result.ret == 4
    said = "ERROR: --kbench-shapes=tokens=1..8:log: no task draws tokens in fuzz=; choose from columns"
    result.stderr.fnmatch_lines([said])
    assert project.grade("--kbench-shapes=tokens").ret == 4


@pytest.mark.parametrize("option", ["--kbench-shapes=tokens=1..8", "--kbench-min-speedup=1.05@nonsense"])
def test_workers_find_out_what_means_no_task_too(project, option):
    project.write("tasks/twice.py", SWEPT)
    project.candidates("right.py")
    result = project.grade("--kbench-checks=build", option, "-n", "1")
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"*usage: {option}*"])
