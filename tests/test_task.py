"""A task says hard things without contortion, is checked once, and travels as text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import pytest_kbench.argument
import pytest_kbench.task
import pytest_kbench.values
from pytest_kbench import Dim, Optional, Param, Scalar, Task, TaskError, Tensor, integers, masks, normal
from pytest_kbench.case import Call, Case
from pytest_kbench.formats import native
from pytest_kbench.oracle.coverage import fixed_cases
from pytest_kbench.oracle.golden import Golden, eager, golden
from pytest_kbench.oracle.inputs import Placed, draw

HERE = Path(__file__).parent
HARD = sorted((HERE / "tasks").glob("*.py"))
SHIPPED = sorted((HERE.parent / "tasks").glob("*.py"))
NAMES = vars(pytest_kbench.argument) | vars(pytest_kbench.task) | vars(pytest_kbench.values)


@pytest.fixture(params=[*HARD, *SHIPPED], ids=lambda path: path.stem)
def task(request: pytest.FixtureRequest) -> Task:
    return native.load(request.param)[0]


def op(x, weight, eps):
    return x * weight + eps


def args(x=Tensor("x", "r c"), weight=Param("weight", "c"), eps=Scalar("eps", 1.0)):  # noqa: B008 - frozen data
    return {"args": [x, weight, eps]}


def declared(**changes) -> Task:
    fields = {
        "args": [Tensor("x", "rows columns"), Param("weight", "columns"), Scalar("eps", 1e-6, 1e-3)],
        "shapes": {"odd": {"rows": 3, "columns": 65}},
    }
    return Task(op, **{**fields, **changes})


def truth_of(task: Task, call: Call) -> Golden:
    arguments = draw(task, call)
    return golden(task, arguments, call.dtype, call.seed, eager(task, arguments))


def test_every_task_is_named_after_its_file(task):
    assert task.path is not None
    assert task.name == task.path.stem


def test_a_task_prints_as_the_code_that_declares_it(task):
    functions = {each.__name__: each for each in (task.function, task.golden, task.inputs) if each is not None}
    again = eval(repr(task), {**NAMES, **functions})
    assert repr(again) == repr(task)


def test_a_task_hashes_by_what_it_declares():
    assert hash(declared()) == hash(declared())
    assert declared().digest != declared(dtypes=["float16"]).digest


def test_cases_are_drawn_and_have_a_golden(task):
    for named in fixed_cases(task, "cpu", seed=1)[::7]:
        (call,) = named.case.calls
        truth = truth_of(task, call)
        assert all(each.dtype in (torch.float64, torch.int64, torch.bool) for each in truth.golden)
        assert [each.shape for each in truth.golden] == [each.shape for each in truth.eager]


def test_every_case_round_trips_through_its_text(task):
    for named in fixed_cases(task, "cpu", seed=1):
        assert Case.parse(str(named.case)) == named.case


def test_the_mean_over_nothing_is_nan_in_golden_as_in_eager():
    task = native.load(HERE / "tasks" / "cross_entropy.py")[0]
    call = next(named.case.calls[0] for named in fixed_cases(task, "cpu", 1) if named.id.startswith("empty"))
    truth = truth_of(task, call)
    assert truth.golden[0].isnan()
    assert truth.eager[0].isnan()


def test_an_ignored_class_occurs():
    task = native.load(HERE / "tasks" / "cross_entropy.py")[0]
    call = next(
        named.case.calls[0]
        for named in fixed_cases(task, "cpu", 1)
        if named.id.startswith("mnist") and "expanded" not in named.id
    )
    target = next(each.values for each in draw(task, call) if isinstance(each, Placed) and each.name == "target")
    assert (target == -100).any()
    assert target.max() < 10


def test_a_parameter_whose_condition_is_false_is_none():
    task = native.load(HERE / "tasks" / "resnet_block.py")[0]
    present = {}
    for named in fixed_cases(task, "cpu", 1):
        arguments = {each.name: each for each in draw(task, named.case.calls[0])}
        present[named.id.split(":")[0]] = isinstance(arguments["wd"], Placed)
    assert present == {"plain": False, "down": True}


def test_the_interior_of_a_shape_has_scalars_states_and_optional_arguments_in_its_ids():
    task = native.load(HERE / "tasks" / "attention.py")[0]
    ids = [named.id for named in fixed_cases(task, "cpu", 1)]
    assert any("no-mask" in each for each in ids)
    assert any("mask-empty-row" in each for each in ids)
    assert len(set(ids)) == len(ids)


def test_a_shape_listed_only_for_cuda_is_not_graded_on_a_cpu():
    task = declared(
        shapes={"a": {"rows": 3, "columns": 65}, "b": {"rows": 9, "columns": 9}, "c": {"rows": 1, "columns": 1}},
        time={"cpu": ["a"], "cuda": ["a", "b"]},
    )
    assert task.graded_shapes("cpu") == ("a", "c")
    assert task.graded_shapes("cuda") == ("a", "b", "c")


@pytest.mark.parametrize(
    ("changes", "field", "fix"),
    [
        ({"args": [Tensor("x", "rows columns")]}, "args", "one argument per parameter"),
        ({"args": [Param("weight", "c"), Tensor("x", "r c"), Scalar("eps", 1.0)]}, "args", "in the reference's order"),
        ({"args": "x"}, "args", "Tensor"),
        ({"shapes": {}}, "shapes", "shapes={"),
        ({"shapes": {"odd": {"rows": 3}}}, "shapes['odd']", "every dimension"),
        ({"shapes": {"odd": {"rows": 3, "columns": 65, "depth": 1}}}, "shapes['odd']", "Remove it"),
        ({"shapes": {"odd": {"rows": -3, "columns": 65}}}, "shapes['odd']", "rows=3"),
        ({"shapes": {"a b": {"rows": 3, "columns": 65}}}, "shapes", "letters, digits"),
        ({"fuzz": {"rows": "a..b"}}, "fuzz['rows']", "0..4096"),
        ({"fuzz": {"depth": "1..2"}}, "fuzz['depth']", "rows"),
        ({"where": "rows >"}, "where", "expressions"),
        ({"where": "__import__('os')"}, "where", "expressions"),
        ({"where": "rows > 5"}, "shapes['odd']", "condition"),
        ({"time": {"tpu": ["odd"]}}, "time['tpu']", "cpu and cuda"),
        ({"time": {"cpu": ["even"]}}, "time['cpu']", "odd"),
        ({"dtypes": ["int8"]}, "dtypes", "float32"),
        ({"dtypes": "float32"}, "dtypes", "dtypes=["),
        ({"dtypes": ["float32", "float32"]}, "dtypes", "float16"),
        ({"golden": "f"}, "golden", "Wrap it"),
        (args(x=Scalar("x", 1.0), weight=Scalar("weight", 1.0)), "args", "Tensor("),
        (args(x=Tensor("x", "r c", dtype="int64", values=integers(10, 3))), "Tensor('x').values", "excluded"),
        (args(x=Tensor("x", "r", dtype="bool", values=masks("causal"))), "Tensor('x').values", "b sq sk"),
        (args(x=Tensor("x", "r c", dtype="bool", values=masks("casual"))), "Tensor('x').values", "causal"),
        (args(eps=Scalar("eps", [2, 3])), "Scalar('eps')", "numbers"),
        (args(eps=Optional(Scalar("eps", 1.0))), "args", "Optional(Tensor"),
        ({"tolerance": {"fixed": 1.0, "ulps": 2.0}}, "tolerance", "alone"),
        ({"grad": ["eps"]}, "grad", "x, weight"),
        ({"grad": ["x", "x"]}, "grad", "'x' is there twice"),
        ({"grad": 5}, "grad", "5 is not a list of names"),
        ({"nan": "maybe"}, "nan", "propagate"),
        ({"require": ["diagonal"]}, "require", "transposed"),
        ({"tolerance": -1}, "tolerance", "positive"),
        ({"tolerance": {"loose": 1}}, "tolerance", "elementwise"),
        (args(Tensor("x", "r c", dtype="int64")), "Tensor('x').values", "integers"),
        (args(Tensor("x", "r c", values=integers(0, 3))), "Tensor('x').values", "int64"),
        (args(weight=Param("weight", "c", init={})), "Param('weight').init", "init={"),
        ({"args": [Tensor("x", "r c"), Param("weight", "c"), Scalar("eps")]}, "Scalar('eps')", "1e-6"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_names_the_field_and_the_fix(changes, field, fix):
    with pytest.raises(TaskError) as caught:
        declared(**changes)
    assert caught.value.field == field
    assert fix in str(caught.value)


def test_a_builtin_cannot_be_a_reference():
    with pytest.raises(TaskError, match="Wrap it"):
        Task(torch.relu, args=[Tensor("x", "n")], shapes={"a": {"n": 3}})


def test_a_dimension_may_be_an_argument_and_an_expression():
    def grouped(x, groups):
        return x.view(groups, -1)

    task = Task(grouped, args=[Tensor("x", "2*half"), Dim("groups", "half // 2")], shapes={"a": {"half": 8}})
    call = fixed_cases(task, "cpu", 1)[0].case.calls[0]
    assert draw(task, call)[1].value == 4


def test_an_optional_parameter_is_graded_with_and_without():
    def scaled(x, bias):
        return x if bias is None else x + bias

    task = Task(
        scaled, args=[Tensor("x", "n"), Optional(Param("bias", "n", {"a": normal(1.0, 1.0)}))], shapes={"a": {"n": 3}}
    )
    absent = {named.case.calls[0].absent for named in fixed_cases(task, "cpu", 1)}
    assert absent == {(), ("bias",)}
