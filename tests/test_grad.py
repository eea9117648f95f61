"""Gradients: what a case says of them, what is due from whom, and what is found wrong with them."""

from __future__ import annotations

import random
import re
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from pytest_kbench import (
    Grader,
    Optional,
    Param,
    Reason,
    Scalar,
    Settings,
    Task,
    TaskError,
    Tensor,
    constant,
    integers,
    normal,
)
from pytest_kbench.case import Call, Case, CaseError
from pytest_kbench.checks import grad
from pytest_kbench.oracle.coverage import another, gradients
from pytest_kbench.oracle.inputs import cotangents, draw
from pytest_kbench.oracle.modes import Double
from pytest_kbench.oracle.ties import Contested
from pytest_kbench.oracle.tolerance import Tolerance
from pytest_kbench.oracle.truth import answer, ask

CASE = "dims(rows=3,columns=5) dtype(float32) grad(x,weight) seed(7)"


def scaled(x, weight, shift):
    y = x * weight
    return y if shift is None else y + shift


def labelled(x, labels):
    return x * 2


def task(**changes) -> Task:
    fields = {
        "args": [Tensor("x", "rows columns"), Param("weight", "columns"), Optional(Tensor("shift", "rows columns"))],
        "shapes": {"odd": {"rows": 3, "columns": 5}},
        "fuzz": {"rows": "0..64", "columns": "1..64"},
        "grad": ["x", "weight"],
    }
    return Task(scaled, **{**fields, **changes})


@pytest.fixture(scope="module")
def grader():
    with Grader(Settings(examples=30)) as grader:
        yield grader


@pytest.fixture
def graded(grader, tmp_path):
    def grade(source: str, *, declared: Task | None = None, case: str | None = CASE, **changes):
        file = tmp_path / "mine.py"
        file.write_text("import torch\n" + textwrap.dedent(source))
        cases = None if case is None else [case]
        settings = Settings(**{"seed": 0, "examples": 30, **changes})
        return grader.grade(declared or task(), file, checks=["grad"], cases=cases, settings=settings)

    return grade


FUNCTION = """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        {before}
        of_x, of_weight = gradient * weight, (gradient * x).sum(0)
        {after}
        return of_x, of_weight


def scaled(x, weight, shift):
    y = Scaled.apply(x, weight)
    return y if shift is None else y + shift
"""


def function(*, before: str = "", after: str = "") -> str:
    return FUNCTION.format(before=before, after=after)


# The text of a case.


def test_a_case_says_whose_gradients_are_asked_for_and_how():
    text = "dims(n=3) dtype(float32) layout(cotangent=summed) values(cotangent=spike) grad(x) backward(twice) seed(1f)"
    call = Call.parse(text)
    assert (call.grad, call.backward) == (("x",), "twice")
    assert str(call) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dims(n=3) grad(x) backward(thrice)", "choose from twice, changed, nested"),
        ("dims(n=3) backward(twice)", "say nothing without grad"),
        ("dims(n=3) layout(cotangent=dense)", "say nothing without grad"),
        ("dims(n=3) grad() backward(twice)", "grad() is empty: leave it out"),
        ("dims(n=3) grad(x) backward( )", "backward() is empty"),
        ("dims(n=3) grad(x) layout(x=summed)", "layout(x=summed)"),
        ("dims(n=3) grad(x) layout(cotangent=odd)", "summed"),
    ],
)
def test_a_case_that_says_nonsense_of_gradients_is_refused(text, said):
    with pytest.raises(CaseError, match=re.escape(said)):
        Call.parse(text)


def test_a_second_derivative_is_said_to_be_out_of_scope():
    with pytest.raises(CaseError, match="second derivatives are not graded"):
        Call.parse("dims(rows=3,columns=5) grad(x,x)")


def test_a_reference_may_compare_with_its_own_maximum_where_ties_are_free():
    def masked(x):
        return torch.where(x.amax(1, keepdim=True) == x, x, 0.0)

    declared = Task(
        masked, args=[Tensor("x", "rows columns")], shapes={"a": {"rows": 3, "columns": 5}}, grad=["x"], ties="mask"
    )
    call = Call.parse("dims(rows=3,columns=5) grad(x) seed(7)")
    truth = answer(declared, call, ask(declared, call), Tolerance())
    assert truth.golden[1].count_nonzero() == 3


def test_gradients_are_asked_for_together_alone_and_all_but_one():
    asked = {named.case.calls[0].grad for named in gradients(task(grad=["x", "weight", "shift"]), "cpu", 1)}
    pairs = {("x", "weight"), ("x", "shift"), ("weight", "shift")}
    assert asked == {("x", "weight", "shift"), ("x",), ("weight",), ("shift",), *pairs}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dims(rows=3,columns=5) grad(shift)", "declares grad=(x, weight)"),
        ("dims(rows=3,columns=5) grad(x) values(cotangent=odd)", "values(cotangent=odd)"),
        ("dims(rows=3,columns=5) only(rows=1) grad(x)", "one index alone"),
    ],
)
def test_a_case_that_asks_for_other_gradients_than_the_task_declares_is_refused(text, said):
    with pytest.raises(CaseError) as error:
        draw(task(), Call.parse(text))
    assert said in str(error.value)


def test_a_task_may_not_write_what_it_differentiates():
    def writes(x):
        x.mul_(2)

    with pytest.raises(TaskError, match="write in_place"):
        Task(writes, args=[Tensor("x", "n")], shapes={"a": {"n": 3}}, grad=["x"], in_place=["x"])


def test_no_argument_is_called_as_the_start_of_a_backward():
    def named(cotangent):
        return cotangent * 2

    with pytest.raises(TaskError, match="cotangent"):
        Task(named, args=[Tensor("cotangent", "n")], shapes={"a": {"n": 3}}, grad=["cotangent"])


# What a backward starts from, and the truth about it.


@pytest.mark.parametrize("layout", ["dense", "transposed", "sliced", "offset", "expanded", "summed"])
def test_cotangents_have_every_layout(layout):
    call = Call.parse(f"dims(n=3) grad(x) layout(cotangent={layout}) seed(3)")
    (made,) = cotangents(call, [torch.zeros(3, 5)])
    assert made.values.shape == (3, 5)
    if layout == "summed":
        assert made.strides == (0, 0)
        assert made.storage == 1
        assert (made.values == made.values[0, 0]).all()
    elif layout == "expanded":
        assert made.strides[0] == 0
        assert (made.values == made.values[:1]).all()


def test_outputs_of_integers_have_no_cotangent():
    made = cotangents(Call.parse("dims(n=3) grad(x)"), [torch.zeros(3), torch.zeros(3, dtype=torch.int64)])
    assert [each.name for each in made] == ["cotangent 0"]


def test_the_truth_of_a_gradient_is_the_product_in_float64():
    call = Call.parse(CASE)
    question = ask(task(), call)
    truth = answer(task(), call, question, Tolerance())
    x, weight = (each.values.double() for each in question.arguments[:2])
    (start,) = (each.values.double() for each in question.backward.cotangents)
    assert torch.allclose(truth.golden[1], start * weight, rtol=1e-15)
    assert torch.allclose(truth.golden[2], (start * x).sum(0), rtol=1e-14)


def test_an_argument_on_which_nothing_depends_has_a_zero_gradient():
    def unused(x, weight):
        return x + 0

    declared = Task(
        unused,
        args=[Tensor("x", "rows columns"), Param("weight", "columns")],
        shapes={"odd": {"rows": 3, "columns": 5}},
        grad=["x", "weight"],
    )
    question = ask(declared, Call.parse(CASE))
    assert (question.eager.outputs[2] == 0).all()


def test_fixed_cases_differentiate_by_all_arguments_and_by_each_alone():
    calls = [named.case.calls[0] for named in gradients(task(), "cpu", 1)]
    assert {call.grad for call in calls} == {("x", "weight"), ("x",), ("weight",)}
    assert {call.backward for call in calls} == {None, "twice", "changed", "nested"}
    assert not any(plan in ("nan", "inf", "huge") for call in calls for _, plan in call.plans)


def test_what_comes_between_forward_and_backward_differs_in_all_that_it_can():
    declared = task(
        args=[
            Tensor("x", "rows columns"),
            Param("weight", "columns", init={"a": normal(), "b": constant(1.0)}),
            Scalar("shift", 1e-3, 0.5),
        ],
        shapes={
            "empty": {"rows": 0, "columns": 5},
            "odd": {"rows": 3, "columns": 5},
            "tall": {"rows": 9, "columns": 7},
        },
    )
    asked = Call.parse("dims(rows=3,columns=5) dtype(float16) state(a) scalars(shift=0.001) grad(x) seed(1)")
    found = another(declared, asked)
    assert (dict(found.dims), found.dtype, found.state) == ({"rows": 9, "columns": 7}, "float16", "b")
    assert (found.scalars, found.grad, found.backward) == ((("shift", 0.5),), ("x", "weight"), None)
    assert dict(another(declared, replace(asked, dims=(("rows", 4), ("columns", 4)))).dims) == {"rows": 3, "columns": 5}
    assert another(task(), Call.parse(CASE)).seed != Call.parse(CASE).seed


def test_a_task_without_gradients_has_no_case_of_them():
    assert grad.cases(task(grad=()), Settings()) == ()


def test_a_candidate_that_dies_between_forward_and_backward_is_told_where(graded):
    source = """
    import os

    def scaled(x, weight, shift):
        if len(x) == 9:
            os._exit(3)
        return x * weight
    """
    shapes = {"odd": {"rows": 3, "columns": 5}, "tall": {"rows": 9, "columns": 5}}
    case = "dims(rows=3,columns=5) grad(x,weight) backward(nested) absent(shift) seed(7)"
    verdict = graded(source, declared=task(shapes=shapes), case=case)
    assert verdict.reason is Reason.EXITED
    assert "in a small call between forward and backward: " in verdict.message


# What is up to rounding.


def contested(function, x: torch.Tensor, dtype=torch.float32) -> torch.Tensor:
    """Which elements of a gradient move."""
    leaf, plain = (x.double().clone().requires_grad_() for _ in range(2))
    function(plain).sum().backward()
    with Contested(dtype, random.Random(0), maxima=True):
        function(leaf).sum().backward()
    return leaf.grad != plain.grad


def test_equal_maxima_of_a_window_share_their_gradient_and_others_do_not():
    x = torch.tensor([[[[1.0, 1.0, 5.0, 2.0], [0.0, 1.0, 3.0, 4.0]]]])
    moved = contested(lambda each: F.max_pool2d(each, 2), x)
    assert moved.tolist() == [[[[True, True, False, False], [False, True, False, False]]]]


def test_values_that_were_never_rounded_are_contested_only_where_they_are_equal():
    near = torch.tensor([[[[1.0, 1.0 + 2**-23], [0.0, -1.0]]]])
    assert not contested(lambda each: F.max_pool2d(each, 2), near).any()
    assert contested(lambda each: F.max_pool2d(each * 0.1, 2), near)[0, 0, 0].all()


@pytest.mark.parametrize(
    "window", [dict(kernel_size=3, stride=2), dict(kernel_size=2, padding=1), dict(kernel_size=2, dilation=2)]
)
def test_windows_that_overlap_or_reach_beyond_the_image_are_known(window):
    x = torch.randn(2, 3, 9, 11, generator=torch.Generator().manual_seed(1))
    assert not contested(lambda each: F.max_pool2d(each, **window), x).any()
    assert contested(lambda each: F.max_pool2d(each, **window), torch.ones(2, 3, 9, 11)).any()


def test_windows_of_an_image_that_they_do_not_divide_are_known():
    x = torch.randn(1, 2, 7, 5, generator=torch.Generator().manual_seed(1))
    assert not contested(lambda each: F.max_pool2d(each, 2, ceil_mode=True), x).any()
    assert contested(lambda each: F.max_pool2d(each, 2, ceil_mode=True), torch.zeros(1, 2, 7, 5)).any()


def test_zero_has_no_sign_and_other_exact_numbers_do():
    moved = contested(torch.relu, torch.tensor([-1.0, -1e-30, 0.0, 1e-30, 1.0]))
    assert moved.tolist() == [False, False, True, False, False]


def test_a_leaky_relu_has_no_slope_at_zero_either():
    moved = contested(lambda each: F.leaky_relu(each, 0.1), torch.tensor([-1.0, 0.0, 1.0]))
    assert moved.tolist() == [False, True, False]


def test_equal_maxima_of_a_row_share_their_gradient():
    x = torch.tensor([[3.0, 1.0, 3.0], [1.0, 2.0, 3.0]])
    assert contested(lambda each: each.amax(1), x).tolist() == [[True, False, True], [False, False, False]]


def test_any_of_many_equal_maxima_may_have_all_of_the_gradient():
    x = torch.ones(1, 40, dtype=torch.float64, requires_grad=True)
    with Contested(torch.float32, random.Random(0), maxima=True):
        x.amax(1).sum().backward()
    assert bool(((x.grad - 1 / 40).abs() > 0.5).all())


@pytest.mark.parametrize("down", [(1.0, 1.0), (1.0, -1.0), (1.0, 2.0), (-1.0, 3.0)])
@pytest.mark.parametrize("choose", [lambda x: F.max_pool2d(x.view(1, 1, 1, 2), (1, 2)), lambda x: x.amax()])
def test_of_two_runs_one_moves_as_far_as_another_choice_would(down, choose):
    """Both places are fed by one leaf, by factors that may be opposite: what moves must not cancel in both runs."""

    def gradient(mode: Contested) -> torch.Tensor:
        leaf = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        with mode:
            choose(torch.cat([leaf * down[0], leaf * down[1]])).sum().backward()
        return leaf.grad

    for seed in range(100):
        chance = random.Random(seed)
        runs = [Contested(torch.float32, chance, maxima=True, signs=seed, sign=sign) for sign in (1.0, -1.0)]
        moved = max(float((gradient(each) - down[0]).abs()) for each in runs)
        assert moved >= 0.5 * abs(down[1] - down[0]) - 1e-9


def test_what_a_relu_gets_may_be_off_by_rounding_where_it_was_computed():
    moved = contested(lambda each: torch.relu(each * 0.1 + 1e-9), torch.tensor([0.0, 1.0, -1.0]))
    assert moved.tolist() == [True, False, False]


@pytest.mark.parametrize(
    "product",
    [
        lambda x, w: x @ w,
        lambda x, w: torch.addmm(torch.zeros(1, dtype=torch.float64), x, w),
        lambda x, w: F.linear(x, w.T) + 0.0,
        lambda x, w: F.conv1d(x[..., None], w.T[..., None]),
        lambda x, w: F.conv_transpose1d(x[..., None], w[..., None]),
    ],
)
def test_terms_that_cancel_leave_the_roundings_of_what_they_were(product):
    weight = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    x = torch.tensor([[10_000.0, 9_999.999], [1.0, 0.999]], dtype=torch.float64)
    moved = contested(lambda each: torch.relu(product(each, weight)), x[:1])
    assert moved.tolist() == [[True, True]]
    assert not contested(lambda each: torch.relu(product(each, weight)), x[1:]).any()


def test_without_maxima_a_tie_is_decided_as_the_reference_decides_it():
    x = torch.ones(1, 1, 2, 2, dtype=torch.float64, requires_grad=True)
    with Contested(torch.float32, random.Random(0), maxima=False):
        F.max_pool2d(x, 2).sum().backward()
    with Double():
        plain = torch.ones(1, 1, 2, 2, dtype=torch.float64, requires_grad=True)
        F.max_pool2d(plain, 2).sum().backward()
    assert torch.equal(x.grad, plain.grad)


def test_a_reference_is_differentiated_by_all_that_has_a_gradient_whatever_is_asked_for():
    """torch's group norm ends the process where its weight alone is asked for, and its input is channels_last."""
    asked = []

    class Seen(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            asked.append(ctx.needs_input_grad)
            ctx.save_for_backward(x, weight)
            return x * weight

        @staticmethod
        def backward(ctx, cotangent):
            x, weight = ctx.saved_tensors
            return cotangent * weight, (cotangent * x).sum(0)

    def seen(x, weight, shift):
        return Seen.apply(x, weight)

    declared = Task(seen, args=task().args, shapes=task().shapes, grad=["x", "weight"])
    question = ask(declared, Call.parse("dims(rows=3,columns=5) grad(weight) seed(7)"))
    assert len(question.eager.outputs) == 2
    assert asked[-1] == (True, True)


# Verdicts.


def test_a_right_gradient_passes_however_it_is_given(graded):
    plain = """
        def scaled(x, weight, shift):
            y = x * weight
            return y if shift is None else y + shift
    """
    own = """
        def scaled(x, weight, shift):
            y = x.mul(weight)
            return y if shift is None else y.add_(shift)

        def backward(cotangent, x, weight, shift, output):
            return cotangent * weight, (cotangent * x).sum(0)
    """
    for source in (plain, function(), own):
        assert graded(source, case=None).outcome == "passed", graded(source, case=None).message


@pytest.mark.parametrize(
    ("source", "reason", "said"),
    [
        (function(after="of_weight = of_weight * 2"), Reason.WRONG, "gradient of weight"),
        (function(after="of_weight = None"), Reason.NO_GRADIENT, "the gradient of weight is missing"),
        (function(before="gradient.mul_(2)"), Reason.INPUTS_CHANGED, "cotangent was written"),
        (function(before="x.mul_(2)"), Reason.INPUTS_CHANGED, "x was written"),
        (function(after="of_weight = of_weight[:-1]"), Reason.RAISED, "in the backward: RuntimeError"),
    ],
)
def test_a_wrong_gradient_is_told_apart(graded, source, reason, said):
    verdict = graded(source)
    assert verdict.reason is reason, verdict.message
    assert said in verdict.message


OWN = """
def scaled(x, weight, shift):
    y = x * weight
    return y if shift is None else y + shift

def backward(cotangent, x, weight, shift, output):
    {}
    return {}
"""


@pytest.mark.parametrize(
    ("before", "given", "reason", "said"),
    [
        ("", "cotangent * weight, (cotangent * x).sum(0, keepdim=True)", Reason.STRUCTURE, "weight has shape (1, 5)"),
        ("", "(cotangent * weight).double(), (cotangent * x).sum(0)", Reason.STRUCTURE, "gradient of x is float64"),
        ("", "cotangent * weight, (cotangent * x).sum(0), cotangent", Reason.STRUCTURE, "1 gradients more"),
        ("", "cotangent * weight", Reason.NO_GRADIENT, "gradient of weight is missing"),
        ("", "cotangent * weight, 3", Reason.STRUCTURE, "gradient of weight is a int"),
        (
            "output.zero_()",
            "cotangent * weight, (cotangent * x).sum(0)",
            Reason.OUTPUTS_CHANGED,
            "the backward changed",
        ),
        ("raise ValueError('no')", "cotangent, weight", Reason.RAISED, "ValueError: no"),
    ],
)
def test_a_backward_of_its_own_keeps_the_contract(graded, before, given, reason, said):
    verdict = graded(OWN.format(before, given))
    assert verdict.reason is reason, verdict.message
    assert said in verdict.message


@pytest.mark.parametrize(
    "state",
    ["x.flatten()[0].sign()", "x.square().mean()", "(labels * torch.arange(len(labels))).sum()"],
    ids=["sign", "even in all inputs", "integers"],
)
def test_what_the_last_forward_left_is_told_from_what_this_one_did(graded, state):
    source = f"""
    left = []

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, labels):
            left[:] = [1.0 + {state}, x, labels]
            ctx.factor = left[0]
            return x * 2

        @staticmethod
        def backward(ctx, cotangent):
            return (cotangent * 2 * (1.0 + (left[0] - ctx.factor))).to(cotangent.dtype), None

    def labelled(x, labels):
        return Scaled.apply(x, labels)
    """
    args = [Tensor("x", "rows columns"), Tensor("labels", "rows", dtype="int64", values=integers(0, "columns"))]
    declared = Task(labelled, args=args, shapes={"odd": {"rows": 8, "columns": 5}}, grad=["x"])
    case = "dims(rows=8,columns=5) dtype(float32) values(x=constant) grad(x) backward(twice) seed(9)"
    assert graded(source, declared=declared, case=case).outcome == "failed"
    right = source.replace("left[0] - ctx.factor", "ctx.factor - ctx.factor")
    assert graded(right, declared=declared, case=case).outcome == "passed"


def test_gradients_that_accumulate_into_one_buffer_are_wrong_the_second_time(graded):
    source = "kept = {}\n" + function(after="of_x = kept.setdefault(x.shape, torch.empty_like(x)).copy_(of_x)")
    assert graded(source).outcome == "passed"
    assert graded(source, case=CASE.replace(" seed", " backward(twice) seed")).outcome == "failed"
    same = graded(source.replace(".copy_(of_x)", ".add_(of_x)"), case=CASE.replace(" seed", " backward(twice) seed"))
    assert same.outcome == "failed"


def test_inputs_that_change_before_the_backward_are_noticed_or_do_not_matter(graded):
    case = CASE.replace(" seed", " backward(changed) seed")
    assert graded(function(), case=case).outcome == "passed"
    copied = function().replace("ctx.save_for_backward(x, weight)", "ctx.kept = x.clone(), weight.clone()")
    assert graded(copied.replace("ctx.saved_tensors", "ctx.kept"), case=case).outcome == "passed"
    unseen = function().replace("ctx.save_for_backward(x, weight)", "ctx.kept = x, weight")
    assert graded(unseen.replace("ctx.saved_tensors", "ctx.kept"), case=case).reason is Reason.WRONG


def test_a_graph_that_is_lost_for_some_shapes_is_a_missing_gradient(graded):
    source = """
        def scaled(x, weight, shift):
            y = x * weight
            y = y.detach() if x.shape[0] > 3 else y
            return y if shift is None else y + shift
    """
    verdict = graded(source, case="dims(rows=4,columns=5) dtype(float32) grad(x,weight) absent(shift) seed(7)")
    assert verdict.reason is Reason.NO_GRADIENT
    assert "the gradient of x is missing" in verdict.message


FORWARD = """
def scaled(x, weight, shift):
    y = x.detach() * weight.detach()
    return y if shift is None else y + shift
"""


def test_a_forward_alone_is_skipped_unless_gradients_are_required(graded):
    verdict = graded(FORWARD)
    assert (verdict.outcome, verdict.reason) == ("skipped", Reason.UNSUPPORTED)
    assert "a forward alone" in verdict.message
    required = graded(FORWARD, declared=task(require=["gradients"]))
    assert (required.outcome, required.reason) == ("failed", Reason.NO_GRADIENT)
    assert "gradients are required by the task" in required.message


def test_a_wrong_forward_is_found_with_gradients_on(graded):
    source = """
        def scaled(x, weight, shift):
            y = x * weight * (2 if x.requires_grad else 1)
            return y if shift is None else y + shift
    """
    verdict = graded(source)
    assert verdict.reason is Reason.WRONG
    assert "the output" in verdict.message


def test_the_search_finds_what_no_named_shape_shows(graded):
    source = function(after="of_weight = of_weight if len(x) < 7 else of_weight * 2")
    verdict = graded(source, case=None)
    assert verdict.reason is Reason.WRONG
    found = Case.parse(verdict.records[-1].case)
    assert found.calls[-1].grad
    assert graded(source, case=verdict.records[-1].case).reason is Reason.WRONG


def test_an_absent_argument_has_no_gradient_to_be_missed(graded):
    source = """
        own = torch.ones((), requires_grad=True)

        def scaled(x, weight, shift):
            y = x * weight * own
            return y if shift is None else y + shift
    """
    case = "dims(rows=3,columns=5) dtype(float32) absent(shift) grad(shift) seed(7)"
    assert graded(source, declared=task(grad=["x", "shift"]), case=case).outcome == "passed"


def test_a_case_without_gradients_is_graded_with_all_of_them(graded):
    verdict = graded(function(after="of_x = of_x * 2"), case="dims(rows=3,columns=5) dtype(float32) seed(7)")
    assert verdict.reason is Reason.WRONG
    assert "gradient of x" in verdict.message


def test_gradients_of_a_task_that_declares_none_are_refused_in_words(graded):
    verdict = graded(FORWARD, declared=task(grad=()))
    assert (verdict.outcome, verdict.reason) == ("failed", Reason.CASE)
    assert "declares no grad" in verdict.message


def test_a_shipped_kernel_fills_its_gradients(grader):
    root = Path(__file__).parent.parent
    verdict = grader.grade(root / "tasks/softmax.py", root / "candidates/softmax/naive.cpp", checks=["grad"])
    assert verdict.outcome == "passed", verdict.message
    assert all(record.status == "passed" for record in verdict.records)
