"""Sums in float16 whose parts may leave its range although they do not."""

from __future__ import annotations

import math

import pytest
import torch

from pytest_kbench.oracle.compare import compare
from pytest_kbench.oracle.tolerance import Tolerance, bound


def accepted(actual: float, golden: float, dtype=torch.float16, terms: int = 64) -> bool:
    truth = torch.full((64,), golden, dtype=torch.float64)
    made = bound(truth, truth.to(dtype), truth, Tolerance(), terms=terms)
    answer = truth.to(dtype)
    answer[7] = actual
    return compare(answer, truth, made, output=0).ok


@pytest.mark.parametrize("actual", [math.nan, math.inf, -math.inf])
def test_a_part_of_a_float16_sum_may_overflow_where_the_sum_comes_near_the_range(actual):
    assert accepted(actual, 3e4)


@pytest.mark.parametrize("actual", [math.nan, math.inf, 0.0, -3e4])
def test_nothing_overflows_far_from_the_range_in_a_wider_dtype_or_without_a_sum(actual):
    assert not accepted(actual, 1e3)
    assert not accepted(actual, 3e4, torch.bfloat16)
    assert not accepted(actual, 3e4, terms=1)


@pytest.mark.parametrize(("vast", "row"), [(True, 0), (True, 1), (False, 0)])
def test_where_inputs_are_huge_anything_may_stand_in_a_row_that_eager_lost_and_nowhere_else(vast, row):
    truth = torch.ones(2, 64, dtype=torch.float64)
    eager = truth.float()
    eager[0] = 0.0  # 1 / inf
    made = bound(truth, eager, truth, Tolerance(), terms=64, vast=vast)
    answer = truth.float()
    answer[row, 3] = math.nan
    assert compare(answer, truth, made, output=0).ok == (vast and row == 0)


def test_a_finite_value_near_the_range_is_judged():
    assert not accepted(2e4, 3e4)
    assert accepted(3e4, 3e4)
