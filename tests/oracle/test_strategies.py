"""What fuzzing draws: inside the declaration, within a budget, of every kind, and small when shrunk."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import hypothesis
import pytest
import torch
from hypothesis import HealthCheck, Phase, find, given

from pytest_kbench import Dim, Optional, Param, Scalar, Task, Tensor, integers, masks, normal
from pytest_kbench.case import PLANS, Call, Case
from pytest_kbench.expression import shape
from pytest_kbench.formats import native
from pytest_kbench.oracle import strategies
from pytest_kbench.oracle.inputs import Placed, draw
from pytest_kbench.oracle.strategies import cases

HERE = Path(__file__).parent.parent
TASKS = sorted([*(HERE / "tasks").glob("*.py"), *(HERE.parent / "tasks").glob("*.py")])
QUIET = hypothesis.settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))


def drawn(task: Task, count: int, seed: int = 1) -> list[Case]:
    found: list[Case] = []
    settings = hypothesis.settings(QUIET, max_examples=count, phases=[Phase.generate], derandomize=False)
    hypothesis.seed(seed)(settings(given(cases(task, "cpu"))(lambda case: found.append(case))))()
    return found


def elements(task: Task, dims) -> int:
    return sum(math.prod(extent(dict(dims)) for extent in shape(each.shape)) for each in task.tensors)


def attention(q, k, mask, target, stride, scale):
    return q


HARD = Task(
    attention,
    args=[
        Tensor("q", "b kv*group s d"),
        Param("k", "b kv s d", init={"one": normal(), "other": normal(2.0)}),
        Optional(Tensor("mask", "b 1 s s", dtype="bool", values=masks("causal", "empty-row"))),
        Tensor("target", "b", dtype="int64", values=integers(0, "d")),
        Dim("stride"),
        Scalar("scale", 0.5, 2.0),
    ],
    shapes={"odd": dict(b=1, kv=2, group=2, s=3, d=5, stride=1)},
    fuzz=dict(b="0..8", kv="1|2|4", group="1..4", s="1..512", d="1..128"),
    where="s % stride == 0",
    dtypes=["float32", "float16", "bfloat16"],
)


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_what_is_drawn_can_be_graded(path):
    task, _ = native.load(path)
    for case in drawn(task, 25):
        assert Case.parse(str(case)) == case
        for call in case.calls:
            if elements(task, call.dims) <= 1 << 16:
                draw(task, call)  # raises CaseError for what does not fit the task


def test_all_that_is_declared_occurs():
    calls = [call for case in drawn(HARD, 600) for call in case.calls]
    seen = {name: {dict(call.dims)[name] for call in calls} for name in HARD.dimensions}
    assert seen["kv"] == {1, 2, 4}
    assert seen["stride"] == {1}  # not in fuzz: what the named shapes have
    assert {0, 1} <= seen["b"] <= set(range(9))
    assert len(seen["s"]) > 20
    assert {call.dtype for call in calls} == set(HARD.dtypes)
    assert {call.state for call in calls} == {"one", "other"}
    assert {call.absent for call in calls} == {(), ("mask",)}
    assert {dict(call.scalars)["scale"] for call in calls} == {0.5, 2.0}
    layouts = {pair for call in calls for pair in call.layouts}
    assert {("q", "channels_last"), ("k", "transposed"), ("mask", "sliced"), ("target", "offset")} <= layouts
    plans = {pair for call in calls for pair in call.plans}
    assert {("mask", "causal"), ("mask", "empty-row"), ("target", "edges"), ("q", "nan"), ("q", "levels")} <= plans


def test_nothing_is_drawn_twice_and_no_kind_of_size_is_left_out():
    task, _ = native.load(HERE.parent / "tasks" / "softmax.py")
    found = drawn(task, 400)
    assert len(set(map(str, found))) > 0.97 * len(found)
    columns = {dict(call.dims)["columns"] for case in found for call in case.calls}
    assert {1, 2, 3} <= columns
    assert any(size & (size - 1) == 0 and size >= 64 for size in columns)
    assert any(size & (size - 2) == 1 and size >= 65 for size in columns)  # a power of two, and one
    assert any(size % 32 not in (0, 1, 31) and size > 64 for size in columns)


def test_a_call_stays_within_the_largest_budget_and_most_are_small():
    task, _ = native.load(HERE.parent / "tasks" / "llama_ffw.py")
    sizes = sorted(elements(task, call.dims) for case in drawn(task, 400) for call in case.calls)
    assert sizes[-1] <= max(strategies.BUDGETS)
    assert sizes[len(sizes) // 2] < 1 << 14
    assert sizes[int(0.97 * len(sizes))] > 1 << 16


def test_one_case_in_three_has_several_calls_and_none_repeats_the_values_of_the_one_before():
    found = drawn(HARD, 400)
    several = [case for case in found if len(case.calls) > 1]
    assert 0.2 < len(several) / len(found) < 0.55
    pairs = [pair for case in several for pair in zip(case.calls, case.calls[1:], strict=False)]
    assert all(a.seed != b.seed for a, b in pairs)
    changes = Counter((a.dims != b.dims, a.dtype != b.dtype, a.state != b.state) for a, b in pairs)
    assert {(False, False, False), (True, False, False), (False, True, False), (False, False, True)} <= set(changes)


def test_choices_in_any_order_are_drawn_and_nothing_grows_beside_a_choice_of_zero():
    def op(x):
        return x

    ranges = dict(n="4|0|2", m="1..2000000")
    task = Task(op, args=[Tensor("x", "n m")], shapes={"a": dict(n=2, m=3)}, fuzz=ranges)
    calls = [call for case in drawn(task, 300) for call in case.calls]
    assert {dict(call.dims)["n"] for call in calls} == {0, 2, 4}
    assert max(elements(task, call.dims) for call in calls) <= max(strategies.BUDGETS)


@pytest.mark.parametrize("high", ["99999999999999999999", "4000000000"])
def test_a_range_without_end_costs_no_more_than_the_largest_budget(high):
    def op(x):
        return x

    ranges = dict(n=f"1..{high}", m="1..10")
    task = Task(op, args=[Tensor("x", "n m")], shapes={"a": dict(n=2, m=3)}, fuzz=ranges)
    calls = [call for case in drawn(task, 100) for call in case.calls]
    assert 1 << 16 < max(elements(task, call.dims) for call in calls) <= max(strategies.BUDGETS)


def test_where_even_the_least_size_is_too_large_the_smallest_named_shape_is_drawn():
    def op(x):
        return x

    shapes = {"a": dict(n=100_000_000, m=1), "b": dict(n=100_000_001, m=1)}
    task = Task(op, args=[Tensor("x", "n m")], shapes=shapes, fuzz=dict(n="100000000..200000000", m="1..10"))
    assert {call.dims for case in drawn(task, 20) for call in case.calls} == {tuple(shapes["a"].items())}


def test_an_empty_dimension_makes_nothing_free_of_cost():
    def matmul(x, y):
        return x @ y

    ranges = dict(m="0..60000", k="0..64", n="0..60000")
    args = [Tensor("x", "m k"), Tensor("y", "k n")]
    task = Task(matmul, args=args, shapes={"a": dict(m=2, k=3, n=4)}, fuzz=ranges)
    calls = [dict(call.dims) for case in drawn(task, 600) for call in case.calls]
    assert any(dims["k"] == 0 for dims in calls)
    assert max(dims["m"] * dims["n"] for dims in calls) <= strategies.WORK * max(strategies.BUDGETS)


def test_declared_flops_bound_a_call_where_the_product_of_dimensions_does_not():
    def op(x):
        return x

    fields = dict(args=[Tensor("x", "n m")], shapes={"a": dict(n=2, m=3)}, fuzz=dict(n="1..4096", m="1..4096"))
    task = Task(op, flops="2 * n * n * n * m", **fields)
    work = [dict(call.dims)["n"] ** 3 * dict(call.dims)["m"] for case in drawn(task, 300) for call in case.calls]
    assert 1 << 16 < max(work) <= strategies.WORK * max(strategies.BUDGETS)


def test_any_size_may_be_drawn_not_only_those_that_are_worth_trying():
    task, _ = native.load(HERE.parent / "tasks" / "softmax.py")
    listed = set(strategies.sizes(task, "columns"))
    columns = {dict(call.dims)["columns"] for case in drawn(task, 600) for call in case.calls}
    assert len(columns - listed) > 60
    assert columns & set(range(18, 31))


def test_a_condition_or_a_shape_that_divides_by_zero_does_not_fit():
    def op(x):
        return x

    shapes = {"a": dict(a=2, b=4)}
    ranges = dict(a="0..40", b="0..40")
    for shape_text, where in (("a b", "b % a == 0"), ("a//b a", None)):
        task = Task(op, args=[Tensor("x", shape_text)], shapes=shapes, fuzz=ranges, where=where)
        for case in drawn(task, 100):
            for call in case.calls:
                draw(task, call)


def test_without_ranges_whole_named_shapes_are_drawn():
    def op(x, y):
        return x

    shapes = {"a": dict(n=3, m=4), "b": dict(n=7, m=8)}
    task = Task(op, args=[Tensor("x", "n"), Tensor("y", "m")], shapes=shapes)
    dims = {call.dims for case in drawn(task, 60) for call in case.calls}
    assert dims == {tuple(each.items()) for each in shapes.values()}


@pytest.mark.parametrize("never", ["nan", "inf", "huge", "extreme"])
def test_unbounded_values_are_not_drawn_where_the_contract_excludes_them(never):
    def op(x):
        return x

    task = Task(op, args=[Tensor("x", "n")], shapes={"a": dict(n=3)}, fuzz=dict(n="1..64"), nan="never")
    plans = {plan for case in drawn(task, 300) for call in case.calls for _, plan in call.plans}
    assert never not in plans
    assert {"sorted", "subnormal", "zeros", "tiny"} <= plans


def test_a_failure_shrinks_to_the_smallest_dense_call_that_shows_it():
    task, _ = native.load(HERE.parent / "tasks" / "softmax.py")
    settings = hypothesis.settings(QUIET, max_examples=500, derandomize=True)

    def shows(case: Case) -> bool:
        return any(dict(call.dims)["columns"] > 64 and dict(call.layouts).get("x") == "sliced" for call in case.calls)

    smallest = find(cases(task, "cpu"), shows, settings=settings)
    assert str(smallest) == "dims(rows=1,columns=65) dtype(float32) layout(x=sliced) seed(0)"


def test_edges_are_the_lowest_and_the_highest_of_declared_integers():
    case = Case.parse("dims(n=64,classes=10) dtype(float32) values(target=edges) seed(1)")

    def pick(x, target):
        return x

    args = [Tensor("x", "n classes"), Tensor("target", "n", dtype="int64", values=integers(0, "classes"))]
    task = Task(pick, args=args, shapes={"a": dict(n=3, classes=5)})
    target = draw(task, case.calls[0])[1]
    assert isinstance(target, Placed)
    assert set(target.values.tolist()) == {0, 9}


def test_where_no_drawn_shape_keeps_the_condition_named_shapes_are_drawn():
    def op(x):
        return x

    shapes = {"a": dict(n=1234, m=1231), "b": dict(n=8, m=5)}
    task = Task(op, args=[Tensor("x", "n m")], shapes=shapes, fuzz=dict(n="1..2000", m="1..2000"), where="n == m + 3")
    dims = {call.dims for case in drawn(task, 60) for call in case.calls}
    assert {tuple(each.items()) for each in shapes.values()} <= dims
    assert all(dict(each)["n"] == dict(each)["m"] + 3 for each in dims)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_every_value_plan_is_drawn_in_every_dtype(dtype):
    def same(x):
        return x

    task = Task(same, args=[Tensor("x", "n")], shapes={"one": dict(n=64)}, dtypes=[dtype])
    for plan in PLANS:
        (x,) = draw(task, Call((("n", 64),), dtype, plans=(("x", plan),), seed=1))
        assert x.values.dtype == getattr(torch, dtype)
        assert plan in ("nan", "inf", "extreme") or bool(x.values.isfinite().all())
