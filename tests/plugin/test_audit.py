"""`--kbench-audit`: one item per task, the table, the minimum score, the document, and the exit code."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch._inductor.test_operators  # noqa: F401 - tracing imports it, which a process can do once

AUDIT = ("--kbench-audit", "-k", "audit", "--kbench-seed=5eed")
UNUSED = '''
"""An input that is never used."""
from pytest_kbench import Task, Tensor


def unused(x, y):
    return x * 2


task = Task(
    unused,
    args=[Tensor("x", "rows columns"), Tensor("y", "rows columns")],
    shapes={"odd": dict(rows=3, columns=65), "one": dict(rows=1, columns=1)},
    survivors={"y ignored": "it is there for the test"},
)
'''


def test_a_task_has_one_audit_and_a_row_in_the_table(project):
    result = project.grade(*AUDIT)
    result.assert_outcomes(passed=1, skipped=0)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*kbench audit*",
            "task   degenerate  mutants  killed  equivalent  survivors  score  verdict",
            "twice  9           *  1.000  passed",
        ]
    )


def test_audits_come_beside_the_candidates_cases(project):
    project.candidates("right.py")
    result = project.grade("--kbench-audit", "-k", "audit or build", "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*tasks/twice.py::audit[[]twice[]] PASSED*", "*build[[]right.py[]] PASSED*"])


def test_without_the_option_there_is_none_and_nothing_of_it_is_imported(project):
    project.candidates("right.py")
    code = "import sys, pytest; pytest.main(sys.argv[1:]); print([m for m in sys.modules if 'kbench.audit' in m])"
    command = [sys.executable, "-c", code, "tasks", "--kbench", "-q", "-k", "build"]
    done = subprocess.run(command, cwd=project.path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "audit" not in project.grade("-k", "audit").stdout.str().replace("-k audit", "")


def test_a_fault_fails_and_every_survivor_is_told_with_its_fix(project):
    project.write("tasks/unused.py", UNUSED)
    result = project.grade(*AUDIT)
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "audit: unused: inputs: y has no impact:*",
            "  degenerate survives: y ignored:*",
            "degenerate: y ignored",
            "  y is taken to be zero",
            "  survives   it gives the same bits as the reference in all of * calls*",
            "  explained  it is there for the test",
            "  change     Let the reference, and the values of its inputs, depend on y by more than the bound",
            "pytest tasks/unused.py --kbench --kbench-audit -k audit --kbench-seed=5eed --kbench-examples=10",
            "unused * FAILED: inputs, degenerate survives, score",
            "unused: y ignored survives: it is there for the test",
            "FAILED tasks/unused.py::audit[[]unused[]] - audit: unused: inputs: y has no impact*",
        ]
    )


def test_a_task_that_cannot_be_loaded_fails_its_audit(project):
    project.write("tasks/unknown.py", UNUSED.replace("survivors=", 'grad=["z"], survivors='))
    result = project.grade(*AUDIT)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["FAILED tasks/unknown.py::audit[[]unknown[]] - task: unknown.py: grad: 'z'*"])


def test_the_audit_of_a_task_whose_outputs_have_no_gradient_says_so(project):
    whole = UNUSED.replace("x * 2", "(x * 2).int()")
    project.write("tasks/whole.py", whole.replace("survivors=", 'grad=["x"], survivors='))
    result = project.grade(*AUDIT)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*autograd sees no output of unused depend on any of grad=*"])


def test_a_score_below_the_least_one_fails(project):
    task = project.path / "tasks" / "twice.py"
    wide = 'dtypes=["float32"], fuzz=dict(rows="1..3000", columns="1..3000")'  # which ten examples do not fill
    task.write_text(task.read_text().replace('dtypes=["float32"]', wide))
    result = project.grade(*AUDIT, "--kbench-min-mutation-score=0.97")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["audit: twice: mutation score 0.962 is below 0.97: 1 of 26 survive", "mutant: offsets into x in 16 bits"]
    )
    assert project.grade(*AUDIT).ret == 0
    options = "kbench_examples = 10\nkbench_audit = true\nkbench_min_mutation_score = 0.97\n"
    project.pytester.makeini(f"[pytest]\n{options}")
    assert project.grade("-k", "audit", "--kbench-seed=5eed").ret == 1
    assert project.grade("-k", "audit", "--kbench-seed=5eed", "--kbench-min-mutation-score=9.5e-1").ret == 0


@pytest.mark.parametrize("value", ["2", "-1", "half", "nan", "1e1", ""])
def test_a_score_that_is_none_is_wrong_usage(project, value):
    result = project.grade("--kbench-audit", f"--kbench-min-mutation-score={value}")
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*--kbench-min-mutation-score={value}: a number from 0 to 1 is needed"])


def test_the_switch_needs_kbench_and_takes_true_or_false_in_the_file(project):
    assert project.run("tasks", "--kbench-audit").ret == 4
    project.pytester.makeini("[pytest]\nkbench_audit = perhaps\n")
    result = project.grade()
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*kbench_audit = perhaps: choose true or false"])


def test_a_single_case_is_of_candidates_and_brings_no_audit(project):
    project.candidates("right.py")
    result = project.grade("--kbench-audit", "--kbench-case=dims(rows=1,columns=1) dtype(float32) seed(1)")
    assert "kbench audit" not in result.stdout.str()


def test_workers_send_their_audits_to_the_document(project):
    project.write("tasks/unused.py", UNUSED)
    result = project.grade(*AUDIT, "-n2", "--kbench-report=results.json")
    assert result.ret == 1
    data = json.loads((project.path / "results.json").read_text())
    found = {each["task"]: each for each in data["audits"]}
    assert set(found) == {"twice", "unused"}
    assert found["twice"]["score"] == 1.0
    assert any(each["filter"] == "inputs" for each in found["unused"]["faults"])
    assert data["exit_code"] == 1


def test_a_document_without_audits_says_nothing_of_them(project):
    project.candidates("right.py")
    project.grade("-k", "build", "--kbench-report=results.json")
    assert "audits" not in json.loads((project.path / "results.json").read_text())


def test_a_failed_audit_is_run_again_by_lf(project):
    project.write("tasks/unused.py", UNUSED)
    project.grade(*AUDIT)
    project.grade(*AUDIT, "--lf").assert_outcomes(failed=1)


def test_an_audit_alone_counts_as_graded(project):
    assert project.grade(*AUDIT).ret == 0
