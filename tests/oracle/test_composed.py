"""Operators taken apart give what they give whole, gradients too; what they round shows up where formulas round it."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F

from pytest_kbench import Task, Tensor
from pytest_kbench.case import Call
from pytest_kbench.oracle import inputs
from pytest_kbench.oracle.composed import Composed
from pytest_kbench.oracle.golden import _farthest, golden, rounded, vector_jacobian
from pytest_kbench.oracle.inputs import PLANNED
from pytest_kbench.oracle.modes import Double, Shaking
from pytest_kbench.oracle.tolerance import ANYTHING, FINITE, POSITIVE, Tolerance, bound
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


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_a_row_rounds_may_land_on_its_largest_element(function, dtype):
    """A row of equal cotangents has no gradient: what is left is what was rounded."""

    def normalised(x):
        return function(x, -1)

    task = Task(normalised, args=[Tensor("x", "n")], shapes={"a": dict(n=999)}, dtypes=[dtype], grad=["x"])
    call = Call(dims=(("n", 999),), dtype=dtype, grad=("x",), layouts=(("cotangent", "summed"),), seed=5)
    question = ask(task, call)
    x = question.arguments[0].values
    found = golden(task, question.arguments, dtype, call.seed, question.eager, question.backward)
    moved = [found.shaken[1]]
    if dtype == "bfloat16":
        moved.append(rounded(task, question.arguments, dtype, call.seed, question.backward, found.golden)[1])
    for each in moved:
        distance = (each - found.golden[1]).abs()
        first, second = distance.topk(2).values
        assert distance[x.argmax()] == first > 10 * second


def test_zeros_do_not_pass_for_the_gradient_of_a_long_row():
    def softmax(x):
        return torch.softmax(x, -1)

    task = Task(softmax, args=[Tensor("x", "n")], shapes={"long": dict(n=4096)}, grad=["x"])
    call = Call(dims=(("n", 4096),), dtype="float32", grad=("x",), seed=5)
    truth = answer(task, call, ask(task, call), Tolerance())
    assert (truth.golden[1].abs() > truth.bounds[1].elementwise).float().mean() > 0.5


@pytest.mark.parametrize(
    "layer",
    [
        lambda bias: F.linear(torch.ones(1, 3).double(), torch.full((2, 3), -1 / 3).double(), bias),
        lambda bias: F.conv2d(torch.ones(1, 3, 1, 1).double(), torch.full((2, 3, 1, 1), -1 / 3).double(), bias),
    ],
    ids=["linear", "convolution"],
)
def test_a_bias_that_cancels_a_product_leaves_what_the_product_rounds(layer):
    with Shaking(torch.float32, random.Random(0)):
        left = layer(torch.ones(2).double())
    assert float(left.abs().min()) > torch.finfo(torch.float32).eps / 4


def test_weights_do_not_come_from_a_logarithm_that_rounding_makes_useless():
    x = torch.randn(40, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for size in (1e4, 1e9):
        with Shaking(torch.float32, random.Random(0)), Composed():
            sums = (x + size).softmax(-1).sum(-1)
        assert float((sums - 1).abs().max()) < 0.05


def test_a_draw_that_overflows_hides_no_other():
    exact = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    draws = [exact + 0.5, torch.tensor([torch.nan, 2.0, torch.nan], dtype=torch.float64)]
    assert _farthest(exact, draws).tolist() == [1.5, 2.5, 3.5]
    assert _farthest(exact, draws[1:]).isnan().tolist() == [True, False, True]


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


def test_what_a_row_sum_loses_shows_where_a_draw_left_no_weight():
    """Equal scores, of which a unit decides: golden gives each its share, a draw one of them all."""
    gradient = torch.ops.aten._softmax_backward_data
    even, one = torch.tensor([[0.5, 0.5], [1.0, 0.0]], dtype=torch.float64).unsqueeze(1).unbind()
    arrived = torch.full((1, 2), 1e4, dtype=torch.float64)
    with Double() as double:
        assert not gradient(arrived, even, -1, torch.float64).any()
    for dtype in (torch.float32, torch.bfloat16):
        unit = torch.finfo(dtype).eps
        with Shaking(dtype, random.Random(0), unit=unit):
            alone = gradient(arrived, one, -1, torch.float64)
        with Shaking(dtype, random.Random(0), unit=unit, weights=double.weights):
            beside = gradient(arrived, one, -1, torch.float64)
        assert float(alone[0, 1]) == 0.0
        assert unit / 4 < abs(float(beside[0, 1])) / 1e4 < unit


def test_a_finite_answer_may_stand_for_an_infinite_one_that_is_within_the_bound():
    golden = torch.tensor([3.4e38, 1e39], dtype=torch.float64)
    eager = golden.to(torch.bfloat16)
    made = bound(golden, eager, golden, Tolerance())
    assert made.accepts.tolist() == [FINITE | POSITIVE, POSITIVE]


def test_parts_of_a_float16_gradient_may_overflow_where_they_cancel():
    golden, unit = torch.tensor([10.0], dtype=torch.float64), torch.finfo(torch.float32).eps
    eager = golden.half()
    parts = bound(golden, eager, golden + 1e5 * unit, Tolerance(), terms=300, start=1e4)
    assert parts.accepts.tolist() == [ANYTHING]
    assert bound(golden, eager, golden + 10 * unit, Tolerance(), terms=300, start=1e4).accepts is None


def test_wide_values_are_finite_in_float16(monkeypatch):
    monkeypatch.setattr(inputs, "_normal", lambda size, _: torch.full(size, 6.0))
    assert bool(PLANNED["wide"]((3,), torch.float16, torch.Generator()).half().isfinite().all())
