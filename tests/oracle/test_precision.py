"""Coarser precisions: how they are imitated, and what a task's allowance does to the bound."""

from __future__ import annotations

import pytest
import torch

from pytest_kbench import Param, Task, Tensor
from pytest_kbench.case import Case
from pytest_kbench.oracle.compare import compare
from pytest_kbench.oracle.golden import coarser
from pytest_kbench.oracle.modes import Double
from pytest_kbench.oracle.precision import APPROXIMATE, Products, Throughout, allowed, relative_error, rounded
from pytest_kbench.oracle.tolerance import Tolerance
from pytest_kbench.oracle.truth import answer, ask

CALL = Case.parse("dims(m=32,k=512,n=64) dtype(float32) seed(5)").calls[0]


def linear(x, w):
    return torch.tanh(x @ w.T)


def task(**changes) -> Task:
    args = [Tensor("x", "m k"), Param("w", "n k")]
    return Task(linear, args=args, shapes={"a": dict(m=32, k=512, n=64)}, **changes)


def ratio(made, **changes) -> float:
    """How near an answer comes to the bound of a task, 1 being at it; `made` is a function of float64 arguments."""
    question = ask(task(**changes), CALL)
    truth = answer(task(**changes), CALL, question, Tolerance())
    actual = made(*(each.values.double() for each in question.arguments)).float()
    return compare(actual, truth.golden[0], truth.bounds[0], output=0).ratio


def in_tf32(x, w):
    return torch.tanh(rounded(x, 10) @ rounded(w, 10).T)


def in_bfloat16(x, w):
    return torch.tanh(rounded(x, 7) @ rounded(w, 7).T)


def approximated(x, w):
    return torch.tanh(x @ w.T) * (1 + 0.9 * APPROXIMATE)


def test_rounding_to_bfloat16s_mantissa_is_bfloat16():
    values = torch.randn(1000, dtype=torch.float64)
    assert torch.equal(rounded(values, 7), values.bfloat16().double())
    assert torch.equal(rounded(values, 52), values)


def test_strict_float32_forbids_coarser_products_and_approximate_functions():
    assert ratio(linear) <= 1.0
    assert ratio(in_tf32) > 10.0
    assert ratio(in_bfloat16) > ratio(in_tf32)
    assert ratio(approximated) > 10.0


def test_a_task_that_allows_tf32_allows_no_bfloat16_and_stays_strict_about_functions():
    assert ratio(in_tf32, precision="tf32") <= 1.0
    assert ratio(in_bfloat16, precision="tf32") > 1.0


def test_a_task_that_allows_fast_math_allows_no_coarser_products():
    assert ratio(approximated, fast_math=True) <= 1.0
    assert ratio(in_tf32, fast_math=True) > 1.0
    assert ratio(lambda *args: approximated(*args) + in_tf32(*args) - linear(*args), fast_math=True) > 1.0
    both = dict(fast_math=True, precision="tf32")
    assert ratio(lambda *args: approximated(*args) + in_tf32(*args) - linear(*args), **both) <= 1.0


@pytest.mark.parametrize(
    ("mode", "least", "most"),
    [
        (Double, 0.0, 1e-15),
        (lambda: Products(10), 5e-5, 1e-3),
        (lambda: Products(7), 5e-4, 1e-2),
        (lambda: Throughout(torch.bfloat16), 1e-3, 1e-2),
    ],
)
def test_a_mode_errs_as_much_as_its_precision(mode, least, most):
    question = ask(task(), CALL)
    golden = answer(task(), CALL, question, Tolerance()).golden
    assert least <= relative_error(coarser(task(), question.arguments, mode()), golden) <= most


def test_nothing_is_allowed_where_the_task_allows_nothing():
    assert allowed(task(), 1) is None


def test_an_error_is_measured_where_both_sides_are_finite():
    golden = torch.tensor([1.0, 2.0, float("inf"), 4.0], dtype=torch.float64)
    actual = torch.tensor([1.0, 2.0, 3.0, float("nan")])
    assert relative_error([actual], [golden]) == 0.0
    assert relative_error([actual + 1.0], [golden]) > 0.1
