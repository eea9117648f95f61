"""The filters: each finds its fault, and none finds one where there is none."""

from __future__ import annotations

import pytest
import torch

from pytest_kbench import Param, Settings, Task, Tensor, constant, normal, uniform
from pytest_kbench.audit.sensitivity import faults
from pytest_kbench.oracle.tolerance import Tolerance

SHAPES = {"odd": dict(rows=3, columns=65), "small": dict(rows=2, columns=7)}
TWO = [Tensor("x", "rows columns"), Param("weight", "columns", {"a": normal(), "b": uniform(1.0, 2.0)})]


def tiny(x, weight):
    return x * weight * 1e-6


def same_for_all(x, weight):
    return torch.ones_like(x).cumsum(-1) + 0.0 * x * weight


def one_row(x, weight):
    return (x * weight).mean(0, keepdim=True).expand(x.shape).clone()


def without_weight(x, weight):
    return torch.sin(x)


def product(x, weight):
    return x * weight


def normalised(x, weight):
    return x * (weight / weight.abs().amax()).sign()


def found(function, args=TWO, **changes):
    task = Task(function, args=args, shapes=SHAPES, nan="never", **changes)
    return {(each.filter, each.what.split()[0]) for each in faults(task, Settings(seed=7), Tolerance())}


def test_nothing_is_wrong_with_a_plain_product():
    assert found(product) == set()


def test_outputs_that_are_nearly_nothing_are_found():
    assert {name for name, _ in found(tiny)} == {"range"}


def test_outputs_that_are_the_same_for_every_seed_are_found():
    assert {"seeds", "inputs"} <= {name for name, _ in found(same_for_all)}


def test_outputs_that_are_constant_along_an_axis_are_found():
    assert ("axes", "the") in found(one_row)


def test_an_argument_without_impact_is_named():
    assert ("inputs", "weight") in found(without_weight)
    assert ("inputs", "x") not in found(without_weight)


@pytest.mark.parametrize(("value", "is_neutral"), [(1.0, True), (0.0, True), (0.5, False)])
def test_a_parameter_that_is_neutral_in_all_states_is_named(value, is_neutral):
    args = [TWO[0], Param("weight", "columns", constant(value))]
    assert (("neutral", "weight") in found(product, args)) is is_neutral


def test_a_neutral_state_beside_one_that_matters_is_fine():
    args = [TWO[0], Param("weight", "columns", {"plain": constant(1.0), "spread": uniform(0.5, 2.0)})]
    assert found(product, args) == set()


def test_states_that_give_the_same_outputs_are_found():
    args = [TWO[0], Param("weight", "columns", {"a": uniform(1.0, 2.0), "b": uniform(3.0, 4.0)})]
    assert ("states", "the") in found(normalised, args)


def test_a_mask_that_is_drawn_alike_for_every_seed_has_impact():
    from pytest_kbench import masks

    def masked(x, mask):
        return x.masked_fill(~mask, 0.0)

    args = [Tensor("x", "rows columns"), Tensor("mask", "rows columns", dtype="bool", values=masks("causal", "full"))]
    assert found(masked, args) == set()
