"""New values for every timed call."""

from __future__ import annotations

import random
from dataclasses import replace

import torch

from pytest_kbench import Optional, Param, Scalar, Task, Tensor, integers, masks, normal, uniform
from pytest_kbench.case import Call
from pytest_kbench.oracle.inputs import Placed, draw
from pytest_kbench.timing.fresh import Fresh


def op(x, labels, mask, weight, positive, eps):
    return x * weight


TASK = Task(
    op,
    args=[
        Tensor("x", "rows columns"),
        Tensor("labels", "rows", dtype="int64", values=integers(0, "columns")),
        Optional(Tensor("mask", "rows columns", dtype="bool", values=masks("causal", "random"))),
        Param("weight", "columns", init={"spread": normal(1.0, 0.5)}),
        Tensor("positive", "columns", values=uniform(1.0, 2.0)),
        Scalar("eps", 1e-6),
    ],
    shapes={"one": dict(rows=16, columns=64)},
)
CALL = Call((("rows", 16), ("columns", 64)), "float32", state="spread", scalars=(("eps", 1e-6),))


def sets(count=3):
    return [draw(TASK, Call(CALL.dims, "float32", state="spread", scalars=CALL.scalars, seed=s)) for s in range(count)]


def fresh_of(task, given):
    call = CALL if task is TASK else Call((("n", given[0][0].values.numel()),), "float32")
    return Fresh(task, given, lambda seed: draw(task, replace(call, seed=seed)))


def blank(arguments):
    return [torch.empty_like(each.values) for each in arguments if isinstance(each, Placed)]


def written(fresh, drawn, arguments):
    into = blank(arguments)
    fresh.write(drawn, into)
    return into


def test_no_element_of_a_float_is_what_it_was_in_another_call():
    given = sets()
    fresh, chance = fresh_of(TASK, given), random.Random(0)
    first, second = (written(fresh, fresh.draw(chance), given[0]) for _ in range(2))
    assert float((first[0] == second[0]).double().mean()) < 0.01
    assert float((first[3] == second[3]).double().mean()) < 0.1


def test_values_stay_in_their_declared_range():
    given = sets()
    fresh, chance = fresh_of(TASK, given), random.Random(0)
    for _ in range(50):
        x, labels, mask, weight, positive = written(fresh, fresh.draw(chance), given[0])
        assert 0 <= int(labels.min()) <= int(labels.max()) < 64
        assert 1.0 <= float(positive.min()) <= float(positive.max()) < 2.0
        assert mask.dtype == torch.bool
        assert bool(x.isfinite().all())
        assert bool(weight.isfinite().all())


def test_a_mixture_spreads_as_its_sets_do():
    given = sets()
    fresh, chance = fresh_of(TASK, given), random.Random(0)
    drawn = torch.stack([written(fresh, fresh.draw(chance), given[0])[0] for _ in range(40)])
    assert 0.85 < float(drawn.std()) < 1.15


def test_what_has_a_structure_is_drawn_anew_for_every_call():
    given = sets()
    fresh, chance = fresh_of(TASK, given), random.Random(0)
    seen = [written(fresh, fresh.draw(chance), given[0])[0] for _ in range(6)]
    assert not any(torch.equal(a, b) for index, a in enumerate(seen) for b in seen[:index])


def test_the_same_draw_writes_the_same_values():
    given = sets()
    fresh = fresh_of(TASK, given)
    drawn = fresh.draw(random.Random(3))
    assert all(map(torch.equal, written(fresh, drawn, given[0]), written(fresh, drawn, given[0])))


def test_tensors_that_are_made_together_stay_together():
    def pair(x, y):
        return x + y

    def made(dims, generator):
        x = torch.rand(dims["n"], generator=generator)
        return {"x": x, "y": 1 - x}

    task = Task(pair, args=[Tensor("x", "n"), Tensor("y", "n")], shapes={"one": dict(n=40)}, inputs=made)
    given = [draw(task, Call((("n", 40),), "float32", seed=seed)) for seed in range(3)]
    fresh, chance = fresh_of(task, given), random.Random(0)
    for _ in range(20):
        x, y = written(fresh, fresh.draw(chance), given[0])
        assert torch.allclose(x + y, torch.ones(40))


def test_an_empty_tensor_is_written_too():
    def same(x):
        return x

    task = Task(same, args=[Tensor("x", "n")], shapes={"none": dict(n=0)})
    given = [draw(task, Call((("n", 0),), "float32"))]
    fresh = fresh_of(task, given)
    fresh.write(fresh.draw(random.Random(0)), [torch.empty(0)])


def test_many_calls_at_once_get_values_like_those_of_one_call():
    given = sets()
    fresh, chance = fresh_of(TASK, given), random.Random(0)
    into = [torch.zeros(6, each.numel(), dtype=each.dtype) for each in blank(given[0])]
    fresh.fill(5, chance, into)
    x, labels, mask, weight, positive = (each[:5] for each in into)
    assert all(not bool(each[5].any()) for each in into)  # nobody asked for a sixth
    assert len({tuple(row.tolist()) for row in x}) == 5
    assert len({round(float(row.double().sum()), 3) for row in x}) == 5  # nor is one a roll of another
    assert float((x[0] == x[1]).double().mean()) < 0.01
    assert 0 <= int(labels.min()) <= int(labels.max()) < 64
    assert 1.0 <= float(positive.min()) <= float(positive.max()) < 2.0
    assert 0.9 < float(x.std()) < 1.1
    assert mask.any()
    assert bool(weight.isfinite().all())
