"""The JSON document of a run."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from pytest_kbench.record import Record

FEW = ("-k", "build or (one and s0)")


def document(project, name: str = "results.json") -> dict:
    return json.loads((project.path / name).read_text())


def test_the_document_holds_environment_verdicts_and_every_record(project):
    project.candidates("right.py", "wrong.py", "broken.py")
    result = project.grade("--kbench-report=results.json", "--kbench-seed=5eed", *FEW)
    data = document(project)
    assert (data["schema"], data["complete"], data["exit_code"]) == (1, True, 1)
    environment = data["environment"]
    assert environment["seed"] == "5eed"
    assert environment["command"].startswith("pytest tasks --kbench --kbench-report=results.json")
    assert environment["cpu"]["usable"] == len(os.sched_getaffinity(0))
    assert environment["packages"]["torch"]
    assert environment["sandbox"]["active"]
    assert {each["candidate"]: (each["outcome"], each["reason"]) for each in data["verdicts"]} == {
        "broken.py": ("failed", "load"),
        "right.py": ("passed", None),
        "wrong.py": ("failed", "wrong"),
    }
    assert len(data["records"]) == sum(result.parseoutcomes()[each] for each in ("passed", "failed", "skipped"))
    assert json.loads(json.dumps([Record.from_json(each).to_json() for each in data["records"]])) == data["records"]
    result.stdout.fnmatch_lines(["kbench: wrote *results.json"])


def test_a_report_may_be_repeated_and_set_in_the_configuration_file(project):
    project.candidates("right.py")
    project.grade("--kbench-report=a.json", "--kbench-report=b.json", *FEW)
    assert document(project, "a.json") == document(project, "b.json")
    project.pytester.makeini("[pytest]\nkbench_report =\n    c.json\n    d.json\n")
    project.grade(*FEW)
    assert document(project, "c.json") == document(project, "d.json")


def test_what_cannot_be_graded_is_in_the_document_too(project):
    project.candidates("right.py")
    project.write("tasks/broken.py", "task = Task(")
    project.grade("--kbench-report=results.json", "-k", "build or broken")
    (problem,) = document(project)["problems"]
    assert problem["item"] == "tasks/broken.py::task"
    assert "SyntaxError" in problem["message"]


def test_workers_and_one_process_write_the_same_records_for_one_seed(project):
    project.candidates("right.py", "wrong.py")
    project.grade("--kbench-report=workers.json", "-n2", *FEW)
    seed = document(project, "workers.json")["environment"]["seed"]
    project.grade("--kbench-report=serial.json", f"--kbench-seed={seed}", *FEW)
    shown = ("candidate", "check", "case", "status", "reason")
    texts = [
        sorted([record.get(key) or "" for key in shown] for record in document(project, name)["records"])
        for name in ("workers.json", "serial.json")
    ]
    assert texts[0] == texts[1] != []


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_or_killed_run_leaves_what_it_found(project, signum):
    project.candidates("right.py")
    project.write("candidates/twice/slow.py", "import time\n\n\ndef twice(x):\n    time.sleep(1)\n    return x * 2\n")
    command = [sys.executable, "-m", "pytest", "tasks", "--kbench", "--kbench-report=results.json", "-q"]
    # Whoever is started in the background by a shell may have been told to ignore the first of these signals.
    heeded = functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, cwd=project.path, stdout=subprocess.PIPE, text=True, preexec_fn=heeded) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if (project.path / "results.json").exists() and len(document(project)["records"]) > 5:
                break
            time.sleep(0.2)
        process.send_signal(signum)
        out = process.communicate(timeout=60)[0]
    data = document(project)
    assert data["complete"] is False
    assert len(data["records"]) > 5
    if signum == signal.SIGINT:
        assert process.returncode == 2
        assert "= kbench =" in out


def test_a_run_that_stops_at_its_first_failure_is_not_complete(project):
    project.candidates("wrong.py")
    project.grade("--kbench-report=results.json", "-x", *FEW)
    assert document(project)["complete"] is False


def test_collecting_alone_writes_no_report_and_claims_none(project):
    project.candidates("right.py")
    result = project.grade("--kbench-report=results.json", "--co", "-q")
    assert "wrote" not in result.stdout.str()
    assert not (project.path / "results.json").exists()


def test_a_disk_that_fills_up_is_told_at_the_end_and_changes_no_verdict(project, monkeypatch):
    project.candidates("right.py")
    calls = []

    def full(path, data):
        calls.append(path)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("pytest_kbench.report.json.write", full)
    result = project.grade("--kbench-report=results.json", *FEW)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["kbench: *results.json could not be written (No space left on device)"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("results.txt", "--kbench-report=results.txt: the suffix chooses the format; it may be .json, .benchmark.json"),
        ("nowhere/results.json", "--kbench-report=*nowhere/results.json: it cannot be written (No such file*)"),
    ],
)
def test_a_report_that_cannot_be_written_is_an_error_before_anything_is_graded(project, text, message):
    project.candidates("right.py")
    result = project.grade(f"--kbench-report={text}", *FEW)
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: {message}"])
    assert "passed" not in result.stdout.str()
