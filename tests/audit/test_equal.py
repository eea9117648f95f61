"""Algebra on a graph: what is recognised, and what only looks like it."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from pytest_kbench import Task, Tensor
from pytest_kbench.audit.decompose import table
from pytest_kbench.audit.equal import equal, never_negative, shifts_a_softmax

X = torch.randn(3, 5)


def nodes(function):
    graph = make_fx(function, decomposition_table=dict(table()))(X).graph
    return {each.name: each for each in graph.nodes if each.op == "call_function"}


def plain(x):
    return x


TASK = Task(plain, args=[Tensor("x", "rows columns")], shapes={"odd": dict(rows=3, columns=5)})


@pytest.mark.parametrize("function", [lambda x: torch.softmax(x, -1), lambda x: torch.log_softmax(x, -1)])
def test_the_maximum_of_a_softmax_is_a_shift(function):
    assert shifts_a_softmax(nodes(function)["amax"])


def test_a_maximum_that_is_used_otherwise_too_is_no_shift():
    def other(x):
        m = x.amax(-1, keepdim=True)
        e = (x - m).exp()
        return e / e.sum(-1, keepdim=True) + m

    def unnormalised(x):
        return (x - x.amax(-1, keepdim=True)).exp()

    assert not shifts_a_softmax(nodes(other)["amax"])
    assert not shifts_a_softmax(nodes(unnormalised)["amax"])


def test_a_shift_along_another_axis_is_a_mutant_all_the_same():
    node = nodes(lambda x: torch.softmax(x, -1))["amax"]
    assert equal(TASK, node, "tail ignored") is not None
    assert equal(TASK, node, "another axis") is None


@pytest.mark.parametrize(
    ("function", "name"), [(lambda x: x * 1.0, "mul"), (lambda x: x + 0, "add"), (lambda x: x / 1, "div")]
)
def test_a_neutral_constant_is_no_mutant_when_it_is_dropped(function, name):
    node = nodes(function)[name]
    assert "changes nothing" in (equal(TASK, node, "dropped") or "")
    assert equal(TASK, node, "constant doubled") is None


def test_a_constant_that_is_not_neutral_is_a_mutant():
    assert equal(TASK, nodes(lambda x: x * 2.0)["mul"], "dropped") is None


def test_a_relu_of_what_is_never_negative_is_no_mutant_when_it_is_dropped():
    found = nodes(lambda x: x.exp().sum(-1).relu())
    assert never_negative(found["relu"].args[0])
    assert equal(TASK, found["relu"], "dropped") == "what relu gets is never negative"
    assert equal(TASK, nodes(lambda x: x.sum(-1).relu())["relu"], "dropped") is None
