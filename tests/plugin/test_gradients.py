"""Gradients as people run them: which items there are, what the table says, and what a failure ends in."""

from __future__ import annotations

import re
import shlex

import pytest

GRAD = "--kbench-checks=build,grad"
WRONG = """
import torch


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 if gradient.shape[1] % 8 != 5 else gradient


def twice(x):
    return Twice.apply(x)
"""


@pytest.fixture
def differentiable(project):
    text = (project.path / "tasks/twice.py").read_text()
    project.write(
        "tasks/twice.py",
        text.replace('dtypes=["float32"],', 'fuzz=dict(rows="0..64", columns="1..128"), grad=["x"],').replace(
            "rows=1, columns=1", "rows=1, columns=2"
        ),
    )
    return project


def test_cases_and_the_search_are_items_of_one_check(differentiable):
    differentiable.candidates("right.py")
    result = differentiable.grade(GRAD, "-v")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*::grad[[]right.py:odd:f32:s0[]] PASSED*", "*::grad[[]right.py:fuzz[]] PASSED*", "task *build *grad *verdict"]
    )
    result.stdout.re_match_lines([r"twice +right.py +ok +(\d+)/\1 +passed"])


def test_a_candidate_that_cannot_be_called_is_no_forward_alone(differentiable):
    differentiable.write("candidates/twice/two.py", "def twice(x, y):\n    return x * y\n")
    result = differentiable.grade(GRAD)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["raised: TypeError: twice() missing 1 required positional argument: 'y'"])


def test_a_backward_that_never_works_refuses_nothing(differentiable):
    source = "def twice(x):\n    return x * 2\n\n\ndef backward(x, output):\n    return output\n"
    differentiable.write("candidates/twice/two.py", source)
    result = differentiable.grade(GRAD)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "raised: in the backward: TypeError: backward() takes 2 positional arguments but 3 were given",
            "    a function of its own is called as backward(cotangent, x, output); *",
            "twice *FAILED: raised, given up",
        ]
    )


def test_a_wrong_gradient_is_named_and_its_line_fails_again(differentiable):
    differentiable.write("candidates/twice/mine.py", WRONG)
    result = differentiable.grade(GRAD, "--kbench-examples=100")
    assert result.ret == 1
    text = result.stdout.str()
    assert re.search(r"^wrong: \d+ of \d+ elements beyond the bound.*\(gradient of x\)$", text, re.M)
    assert re.search(r"^  gradient of x +float32 \[", text, re.M)
    assert re.search(r"^cotangent: \(\d+, \d+\) float32", text, re.M)
    command = next(line for line in result.outlines if line.startswith("pytest ") and "grad(x)" in line)
    again = differentiable.run(*shlex.split(command)[1:])
    again.assert_outcomes(failed=1)


def test_a_forward_alone_passes_and_the_table_says_so(differentiable):
    differentiable.write("candidates/twice/forward.py", "def twice(x):\n    return x.detach() * 2\n")
    result = differentiable.grade(GRAD)
    assert result.ret == 0
    result.stdout.re_match_lines([r"twice +forward.py +ok +- +passed, no gradients"])


def test_required_gradients_are_missed(differentiable):
    text = (differentiable.path / "tasks/twice.py").read_text()
    differentiable.write("tasks/twice.py", text.replace('grad=["x"],', 'grad=["x"], require=["gradients"],'))
    differentiable.write("candidates/twice/forward.py", "def twice(x):\n    return x.detach() * 2\n")
    result = differentiable.grade(GRAD)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["no gradient: gradients are required by the task*"])


def test_what_a_search_for_gradients_found_is_tried_first_the_next_time(differentiable):
    differentiable.write("candidates/twice/mine.py", WRONG)
    differentiable.grade("--kbench-checks=grad", "--kbench-examples=100", "-k", "fuzz")
    differentiable.grade("--kbench-checks=grad", "-k", "odd")  # other cases of the check pass, and say nothing of it
    result = differentiable.grade("--kbench-checks=grad", "--kbench-examples=1", "-k", "fuzz")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["it failed in an earlier run too"])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("(x * 2).detach()", "autograd sees no output of twice depend on any of grad=['x']"),
        ("__import__('torch').from_numpy(x.numpy() * 2)", "twice raised RuntimeError"),
        ("(x * 2).int()", "autograd sees no output of twice depend on any of grad=['x']"),
    ],
)
def test_a_reference_without_gradients_is_the_tasks_fault(differentiable, body, said):
    task = differentiable.path / "tasks/twice.py"
    task.write_text(task.read_text().replace("return x * 2", f"return {body}"))
    differentiable.candidates("right.py")
    result = differentiable.grade(GRAD)
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"task: twice cannot be graded on this case: {said.replace('[', '[[]')}*"])
    result.stdout.no_fnmatch_line("*no gradients*")
