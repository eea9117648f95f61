"""Operators taken apart give what they give whole, gradients too; what they round shows up where formulas round it."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F

from pytest_kbench import Task, Tensor
from pytest_kbench.case import Call
from pytest_kbench.oracle.composed import Composed
from pytest_kbench.oracle.golden import vector_jacobian
from pytest_kbench.oracle.inputs import PLANNED
from pytest_kbench.oracle.modes import Double, Shaking
from pytest_kbench.oracle.tolerance import FINITE, POSITIVE, Tolerance, bound
from pytest_kbench.oracle.truth import answer, ask

LABELS = torch.tensor([4, 0, 4])
FORMS = {
    "torch.softmax": lambda x, w: torch.softmax(x, -1),
    "F.softmax": lambda x, w: F.softmax(x, dim=0),
    "Tensor.softmax": lambda x, w: x.softmax(1),
    "torch.softmax by names": lambda x, w: torch.softmax(input=x, dim=0),
    "softmax to a dtype": lambda x, w: F.softmax(x, dim=1, dtype=torch.float64),
    "log_softmax": lambda x, w: torch.log_softmax(x, dim=1),
    "cross_entropy": lambda x, w: F.cross_entropy(x, LABELS, reduction="sum"),
    "cross_entropy, weighted": lambda x, w: F.cross_entropy(x, LABELS, w.detach().abs(), ignore_index=0),
    "nn.LayerNorm": lambda x, w: torch.nn.LayerNorm(5, dtype=torch.float64)(x * w),
    "layer_norm": lambda x, w: F.layer_norm(x, (5,), w, w, 1e-3),
    "rms_norm": lambda x, w: F.rms_norm(x, (5,), w, 1e-3),
    "gelu": lambda x, w: F.gelu(x),
    "silu": lambda x, w: F.silu(x),
}
LEFT_WHOLE = {
    "softmax into a buffer": lambda x, w: torch.softmax(
        x.detach() + 0 * w.sum().detach(), 1, out=torch.empty(3, 5).double()
    ),
    "softmax of nothing": lambda x, w: torch.softmax(x[:0], -1),
    "smoothed labels": lambda x, w: F.cross_entropy(x, LABELS, label_smoothing=0.1),
    "labels that are weights": lambda x, w: F.cross_entropy(x, torch.full_like(x, 0.2)),
    "gelu by tanh": lambda x, w: F.gelu(x, approximate="tanh"),
    "rms_norm without an eps": lambda x, w: F.rms_norm(x, (5,), w),
    "an operator without a formula": lambda x, w: F.softplus(x),
}


def made(function, under=None):
    """Result and gradients, of fixed values."""
    generator = torch.Generator().manual_seed(1)
    x, w = (torch.randn(size, generator=generator, dtype=torch.float64).requires_grad_() for size in ((3, 5), (5,)))
    with under or nullcontext():
        y = function(x, w)
        gradients = vector_jacobian([y], [x, w], [torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view(y.shape)])
    return y.detach(), *gradients


@pytest.mark.parametrize("function", [*FORMS.values(), *LEFT_WHOLE.values()], ids=[*FORMS, *LEFT_WHOLE])
def test_a_formula_gives_what_the_operator_gives(function):
    for whole, apart in zip(made(function), made(function, Composed()), strict=True):
        torch.testing.assert_close(apart, whole, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("name", "function"), [*FORMS.items(), *LEFT_WHOLE.items()])
def test_it_is_another_computation_only_where_there_is_a_formula(name, function):
    seen = []

    class Seeing(Double):
        def run(self, func, *args, **kwargs):
            seen.append(func)
            return super().run(func, *args, **kwargs)

    with Seeing():
        made(function)
        whole = len(seen)
        made(function, Composed())
    assert (seen[:whole] != seen[whole:]) == (name in FORMS)


def test_what_a_long_row_rounds_may_land_on_its_largest_element():
    def softmax(x):
        return torch.softmax(x, -1)

    task = Task(softmax, args=[Tensor("x", "n")], shapes={"long": dict(n=4096)}, grad=["x"])
    call = Call(dims=(("n", 4096),), dtype="float32", grad=("x",), seed=5)
    question = ask(task, call)
    (arguments,) = question.arguments
    x = arguments.values.clone().requires_grad_()
    powers = torch.exp(x - x.amax())
    (found,) = torch.autograd.grad(powers / powers.sum(), x, question.backward.cotangents[0].values)
    truth = answer(task, call, question, Tolerance())
    assert bool(((found.double() - truth.golden[1]).abs() <= truth.bounds[1].elementwise).all())
    zeros = truth.golden[1].abs() > truth.bounds[1].elementwise
    assert zeros.float().mean() > 0.5, "zeros would pass"


def test_a_row_sum_from_elsewhere_differs_by_what_the_gradient_lost():
    """One weight is 1: p (g - sum p g) is zero however g moves, and is not where the sum was made of another g."""
    y = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    exact, moved = torch.tensor([[1.0, 2.0]], dtype=torch.float64), torch.tensor([[1.5, 2.0]], dtype=torch.float64)
    gradient = torch.ops.aten._softmax_backward_data
    with Double() as double:
        gradient(exact, y, -1, torch.float64)
    with Shaking(torch.float32, random.Random(0)):
        alone = gradient(moved, y, -1, torch.float64)
    with Shaking(torch.float32, random.Random(0), arrived=double.arrived):
        beside = gradient(moved, y, -1, torch.float64)
    assert float(alone.abs().max()) < 1e-5
    assert float(beside.abs().max()) > 0.4


def test_a_finite_answer_may_stand_for_an_infinite_one_that_is_within_the_bound():
    golden = torch.tensor([3.4e38, 1e39], dtype=torch.float64)
    eager = golden.to(torch.bfloat16)
    made = bound(golden, eager, golden, Tolerance())
    assert made.accepts.tolist() == [FINITE | POSITIVE, POSITIVE]


@pytest.mark.parametrize("plan", ["wide", "shifted", "scaled", "levels"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_plan_of_finite_values_is_finite(plan, dtype):
    generator = torch.Generator().manual_seed(3)
    assert bool(PLANNED[plan]((1 << 20,), dtype, generator).to(dtype).isfinite().all())
