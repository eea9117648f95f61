"""pytest-benchmark: its table, its options and its command, over the times of speed items."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pytest_kbench.record import Reason, Record, Timing
from pytest_kbench.run import Run

SAMPLES = {  # of baseline and candidate, in seconds
    "right.py": ((4e-6, 2.1e-6), (4.1e-6, 2e-6), (4.2e-6, 2.3e-6)),
    "dense.py": ((4e-6, 8.1e-6), (4.1e-6, 8e-6), (4.2e-6, 8.3e-6)),
    "broken.py": (),
}
RIGHT, DENSE, WRONG = (f"tasks/twice.py::speed[{name}.py:odd:f32]" for name in ("right", "dense", "wrong"))
GROUP = "twice:odd:f32 on cpu"
FEW = ("--kbench-checks=build,speed",)
UNUSED = "error::pytest_benchmark.logger.PytestBenchmarkWarning"  # where its fixture is asked for in vain


def measured(run: Run, planned) -> Record:
    """In place of measuring: all but `wrong.py` passes, and what is timed has the samples above."""
    name = planned.candidate.name
    if planned.check != "speed":
        return Record("twice", name, planned.check, "passed")
    if name == "wrong.py":
        return Record("twice", name, "speed", "failed", Reason.CLOCK, "clock: it took longer than it says")
    timing = Timing(
        "eager", "perf_counter_ns", "faster", 2.0, 1.9, 2.1, {"baseline": 4.1e-6, "candidate": 2.1e-6}, {}, None,
        1, 1, 3, 0, 0.0, None, 1.0, samples=SAMPLES[name],
    )  # fmt: skip
    return Record("twice", name, "speed", "passed", timings=(timing,))


@pytest.fixture
def timed(project, monkeypatch):
    """A project whose candidates are timed at once, in one process."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # these tests may run in one, where nothing is shown
    monkeypatch.setattr(Run, "grade", measured)
    project.candidates("right.py", "dense.py")
    return project


def read(project, name: str) -> dict:
    return json.loads((project.path / name).read_text())


def test_speed_items_are_in_its_table_by_task_and_call(timed):
    result = timed.grade(*FEW, "--benchmark-columns=min,max,rounds")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            f"*benchmark '{GROUP}': 2 tests*",
            "Name (time in us) *",
            "speed[[]right.py:odd:f32] *2.0000 (1.0) *2.3000 (1.0) *3",
            "speed[[]dense.py:odd:f32] *8.0000 (4.00)*8.3000 (3.61)*3",
            "task *candidate *build *speed *verdict",
        ]
    )


def test_what_failed_or_has_no_samples_adds_no_row_and_no_warning(timed):
    timed.candidates("wrong.py", "broken.py")
    result = timed.grade(*FEW, "--benchmark-json=theirs.json", "-W", UNUSED)
    result.assert_outcomes(passed=7, failed=1)
    assert [each["fullname"] for each in read(timed, "theirs.json")["benchmarks"]] == [DENSE, RIGHT]


def test_its_json_and_ours_say_the_same_of_times_machine_and_commit(timed):
    timed.grade(*FEW, "--benchmark-json=theirs.json", "--kbench-report=ours.benchmark.json")
    theirs, ours = read(timed, "theirs.json"), read(timed, "ours.benchmark.json")
    assert theirs.keys() == ours.keys()
    assert [theirs[each] for each in ("machine_info", "commit_info", "version")] == [
        ours[each] for each in ("machine_info", "commit_info", "version")
    ]
    for one, other in zip(theirs["benchmarks"], ours["benchmarks"], strict=True):
        assert one.pop("options")["timer"] == other.pop("options")["timer"] == "perf_counter_ns"
        assert one == other
    right = ours["benchmarks"][1]
    assert right["stats"]["data"] == [2.1e-6, 2e-6, 2.3e-6]
    assert right["extra_info"]["speedup"] == 2.0
    assert right["extra_info"]["baseline_seconds"] == 4.1e-6
    assert "UNSERIALIZABLE" not in (timed.path / "theirs.json").read_text()


def test_its_hooks_say_what_our_document_says_of_the_machine(timed):
    timed.write(
        "conftest.py", "def pytest_benchmark_update_machine_info(machine_info):\n    machine_info['rack'] = 7\n"
    )
    timed.grade(*FEW, "--kbench-report=ours.benchmark.json")
    assert read(timed, "ours.benchmark.json")["machine_info"]["rack"] == 7


def test_a_saved_run_is_compared_and_a_slower_one_fails(timed, monkeypatch):
    assert timed.grade(*FEW, "--benchmark-save=first").ret == 0
    monkeypatch.setitem(SAMPLES, "right.py", tuple((base, 1.5 * own) for base, own in SAMPLES["right.py"]))
    compared = ("--benchmark-compare=0001", "--benchmark-columns=min", "--kbench-report=results.json")
    result = timed.grade(*FEW, *compared, "--benchmark-compare-fail=min:60%")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"*benchmark '{GROUP}': 4 tests*", "speed[[]right.py:odd:f32] (NOW) *3.0000*"])
    result = timed.grade(*FEW, *compared, "--benchmark-compare-fail=min:40%")
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*Performance has regressed:*", "*speed[[]right.py:odd:f32] (0001_first) - *'min'*"])
    result.stdout.fnmatch_lines(["twice *right.py *2.00x *passed", "kbench: wrote *results.json"])
    assert read(timed, "results.json")["complete"]


def test_benchmark_only_runs_the_speed_items_and_skips_the_rest(timed):
    result = timed.grade("--kbench-checks=build,contract,speed", "--benchmark-only", "-rsp")
    lines = result.stdout.lines
    assert [line for line in lines if line.startswith("PASSED")] == [f"PASSED {DENSE}", f"PASSED {RIGHT}"]
    skipped = [line for line in lines if line.startswith("SKIPPED")]
    assert skipped
    assert all("Skipping non-benchmark" in line for line in skipped)
    result.stdout.fnmatch_lines([f"*benchmark '{GROUP}': 2 tests*"])


@pytest.mark.parametrize("worker", [None, "gw0"])
def test_benchmark_skip_skips_the_speed_items_alone(timed, monkeypatch, worker):
    if worker:
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
    result = timed.grade(*FEW, "--benchmark-skip", "-rs")
    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED*Skipping benchmark (--benchmark-skip active).*"])
    assert "benchmark 'twice" not in result.stdout.str()


def test_benchmark_disable_leaves_the_check_and_shows_no_row(timed):
    result = timed.grade(*FEW, "--benchmark-disable")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["twice *right.py *2.00x *passed"])
    assert "benchmark 'twice" not in result.stdout.str()


def test_where_it_disables_itself_for_xdist_nothing_is_said_or_shown(timed, monkeypatch):
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    result = timed.grade(*FEW)
    result.assert_outcomes(passed=4)
    assert "automatically disabled" not in result.stdout.str() + result.stderr.str()
    assert "benchmark 'twice" not in result.stdout.str()


def test_a_task_file_may_name_the_group_itself(timed):
    task = timed.path / "tasks" / "twice.py"
    task.write_text(f"import pytest\n\npytestmark = pytest.mark.benchmark(group='mine')\n{task.read_text()}")
    timed.grade(*FEW, "--benchmark-columns=min").stdout.fnmatch_lines(
        ["*benchmark 'mine': 2 tests*", "speed[[]right.py:odd:f32] *2.0000*"]
    )


def test_without_its_plugin_nothing_else_changes_and_the_document_is_written(timed):
    result = timed.grade(*FEW, "-p", "no:benchmark", "--kbench-report=ours.benchmark.json")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["twice *right.py *2.00x *passed", "kbench: wrote *ours.benchmark.json"])
    written = read(timed, "ours.benchmark.json")
    assert [each["fullname"] for each in written["benchmarks"]] == [DENSE, RIGHT]
    assert written["machine_info"]["node"]
    assert written["commit_info"]["id"]


def test_its_command_compares_a_serial_run_with_one_of_workers(project, monkeypatch):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    project.candidates("right.py")
    few = ("--kbench-checks=speed", "--kbench-budget=0.05", "--kbench-baselines=eager")
    project.grade(*few, "--benchmark-json=serial.json").assert_outcomes(passed=1)
    saved = ".benchmarks/0001_spread.benchmark.json"
    project.grade(*few, "-n1", f"--kbench-report={saved}").assert_outcomes(passed=1)
    for name in ("serial.json", saved):
        (only,) = read(project, name)["benchmarks"]
        assert only["fullname"] == RIGHT
        assert only["stats"]["rounds"] == len(only["stats"]["data"]) > 0

    def command(*args: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "pytest_benchmark", *args], cwd=project.path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    table = command("compare", "serial.json", saved, "--columns=min,rounds", "--sort=name")
    assert f"benchmark '{GROUP}': 2 tests" in table
    assert table.count("speed[right.py:odd:f32] (") == 2
    assert "0001_spread" in command("list")
    assert "speed[right.py:odd:f32]" in command("compare", "0001", "--group-by=param:candidate")
