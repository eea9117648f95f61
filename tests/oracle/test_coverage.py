"""The fixed cases cover every pair of what a task declares, and depend on the seed only inside."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kbench import Scalar, Task, Tensor
from pytest_kbench.formats import native
from pytest_kbench.oracle.coverage import factors, fixed_cases, pairwise, sequences

HERE = Path(__file__).parent.parent
TASKS = sorted([*(HERE / "tasks").glob("*.py"), *(HERE.parent / "tasks").glob("*.py")])

sizes = st.lists(st.integers(1, 5), min_size=2, max_size=7)


def add(x, y):
    return x + y


def two_inputs(**changes) -> Task:
    fields = {
        "args": [Tensor("x", "n m"), Tensor("y", "n m")],
        "shapes": {"a": {"n": 3, "m": 5}, "b": {"n": 8, "m": 9}},
    }
    return Task(add, **{**fields, **changes})


@given(sizes)
def test_every_pair_of_values_of_any_two_factors_is_in_a_row(sizes):
    named = [(("factor", str(index)), tuple(range(size))) for index, size in enumerate(sizes)]
    rows = pairwise(named)
    for (a, values_a), (b, values_b) in combinations(named, 2):
        assert {(row[a], row[b]) for row in rows} == {(i, j) for i in values_a for j in values_b}


@given(sizes)
def test_there_are_far_fewer_rows_than_combinations(sizes):
    named = [(("factor", str(index)), tuple(range(size))) for index, size in enumerate(sizes)]
    largest, second = sorted(sizes)[-1], sorted(sizes)[-2]
    assert largest * second <= len(pairwise(named)) <= 3 * largest * second + 3


def test_a_factor_without_values_leaves_no_case():
    assert pairwise([(("shape", ""), ()), (("dtype", ""), ("float32",))]) == []


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_a_tasks_cases_cover_all_pairs_and_have_ids_of_their_own(path):
    task = native.load(path)[0]
    ids = [named.id for named in fixed_cases(task, "cpu", 1)]
    assert len(set(ids)) == len(ids)
    assert [named.id for named in fixed_cases(task, "cpu", 2)] == ids
    assert len(ids) == 3 * len(pairwise(factors(task, "cpu")))


def test_layouts_and_plans_vary_from_argument_to_argument():
    calls = [named.case.calls[0] for named in fixed_cases(two_inputs(), "cpu", 1)]
    layouts = {(dict(call.layouts).get("x", "dense"), dict(call.layouts).get("y", "dense")) for call in calls}
    assert len(layouts) == 25
    assert any(dict(call.plans).get("x") != dict(call.plans).get("y") for call in calls)


def test_seeds_differ_from_case_to_case_and_from_run_to_run():
    seeds = [[named.case.calls[0].seed for named in fixed_cases(two_inputs(), "cpu", run)] for run in (1, 2)]
    assert len({*seeds[0], *seeds[1]}) == 2 * len(seeds[0])


def test_a_scalar_may_have_any_name():
    def op(x, layout):
        return x

    task = Task(op, args=[Tensor("x", "n"), Scalar("layout", "nchw", "nhwc")], shapes={"a": {"n": 3}})
    assert {named.case.calls[0].scalars for named in fixed_cases(task, "cpu", 1)} == {
        (("layout", "nchw"),),
        (("layout", "nhwc"),),
    }


def test_a_task_whose_shapes_are_all_for_another_device_has_no_cases():
    task = two_inputs(time={"cuda": ["a", "b"]})
    assert fixed_cases(task, "cpu", 1) == ()
    assert sequences(task, "cpu", 1) == ()


def test_sequences_replay_resize_change_states_and_mix():
    task = native.load(HERE.parent / "tasks" / "llama_rmsnorm.py")[0]
    plans = {named.id.split(":")[0]: named.case for named in sequences(task, "cpu", 1)}
    assert set(plans) == {"replay", "sizes", "states", "mixed"}
    assert len({call.dims for call in plans["replay"].calls}) == 1
    assert len({call.seed for call in plans["replay"].calls}) == 3
    first, second, third = plans["sizes"].calls
    assert first.dims == third.dims != second.dims
    assert len({call.state for call in plans["states"].calls}) == 2


def test_a_task_of_one_shape_has_no_sizes_to_change():
    task = two_inputs(shapes={"a": {"n": 3, "m": 5}})
    assert "sizes" not in {named.id.split(":")[0] for named in sequences(task, "cpu", 1)}
