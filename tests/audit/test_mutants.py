"""Wrong kernels of whole tasks: which are made, which are killed, which are right after all."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from pytest_kbench import Param, Scalar, Settings, Task, TaskError, Tensor, constant, integers, normal
from pytest_kbench.audit.audit import audit
from pytest_kbench.audit.result import Audit

SETTINGS = Settings(seed=0x5EED, examples=40)


def softmax(x):
    return torch.softmax(x, -1)


def scaled(x, weight, eps):
    return x * weight / (x.abs() + eps)


def looked_up(logits, target):
    return F.cross_entropy(logits, target)


def accumulated(x, y):
    y.add_(x, alpha=2.0)


def by_value(x):
    return x * 2.0 if bool(x.sum() > 0) else x * 3.0


SHAPES = {"odd": dict(rows=3, columns=65), "small": dict(rows=2, columns=7), "large": dict(rows=40, columns=1700)}
SOFTMAX = Task(softmax, args=[Tensor("x", "rows columns")], shapes=SHAPES, fuzz=dict(rows="1..40", columns="1..2000"))


def outcomes(found: Audit, outcome: str) -> set[str]:
    return {each.name for each in found.tried if each.outcome == outcome}


@pytest.fixture(scope="module")
def of_softmax():
    return audit(SOFTMAX, SETTINGS)


def test_a_reference_of_one_operator_has_many_mutants(of_softmax):
    assert of_softmax.count("killed", "mutant") > 25
    names = outcomes(of_softmax, "killed")
    assert {"amax#1 another axis", "exp#1 exp2 for exp", "sum#1 tail ignored", "div#1 mul for div"} <= names
    assert {"_softmax#1 another axis", "_softmax#1 rounded to bfloat16"} <= names
    assert {"strides of x read as dense", "offsets into x in 16 bits", "cached by shape", "cached by pointer"} <= names


def test_every_degenerate_is_killed_by_a_case_that_is_named(of_softmax):
    degenerate = [each for each in of_softmax.tried if each.kind == "degenerate"]
    assert {each.name for each in degenerate} == {
        *("zeros", "constant", "mean of each row", "another input", "previous output"),
        *("input x", "x ignored", "x averaged", "x perturbed"),
    }
    assert all(each.outcome == "killed" and each.case and each.case.startswith("dims(") for each in degenerate)


def test_a_right_copy_passes_and_the_score_counts_what_was_killed(of_softmax):
    assert of_softmax.copy is None
    assert of_softmax.faults == ()
    assert of_softmax.score == of_softmax.count("killed") / (of_softmax.count("killed") + len(of_softmax.survivors))
    assert of_softmax.problems(0.95) == ()


def test_a_shift_of_a_softmax_is_no_wrong_kernel(of_softmax):
    (dropped,) = (each for each in of_softmax.tried if each.name == "amax#1 NaN dropped")
    assert dropped.outcome == "equivalent"
    assert dropped.why.startswith("a softmax is the same whatever number is subtracted")


def test_a_mutant_of_the_graph_is_a_diff_of_two_lines(of_softmax):
    (tried,) = (each for each in of_softmax.tried if each.name == "exp#1 exp2 for exp")
    assert tried.what == "- exp = exp(sub)\n+ exp = exp2(sub)"


def test_what_rounds_as_a_half_type_does_is_no_mutant_of_one():
    coarse = {"rounded to bfloat16", "accumulated in float16", "outputs rounded to TF32"}
    for dtypes, names in ((["bfloat16"], set()), (["float32", "bfloat16"], coarse)):
        found = audit(replace(SOFTMAX, dtypes=dtypes), SETTINGS)
        assert {name for name in coarse if any(each.name.endswith(name) for each in found.tried)} == names
        assert found.problems(0.95) == ()


def test_a_tolerance_that_hides_half_of_all_digits_is_noticed():
    found = audit(replace(SOFTMAX, tolerance=1e-3), SETTINGS)
    (survivor,) = (each for each in found.survivors if each.name == "outputs rounded to TF32")
    assert survivor.fix.startswith("Keep tolerance= below 2**-12")


def test_the_same_seed_gives_the_same_audit(of_softmax):
    again = audit(SOFTMAX, SETTINGS)
    assert replace(again, seconds=0.0) == replace(of_softmax, seconds=0.0)


def test_an_audit_travels_as_json(of_softmax):
    assert Audit.from_json(of_softmax.to_json()) == of_softmax


def scaled_task(**changes):
    declared = dict(
        args=[
            Tensor("x", "rows columns"),
            Param("weight", "columns", {"trained": normal(1.0, 0.3), "spread": normal(0.0, 2.0)}),
            Scalar("eps", 1e-3, 0.5),
        ],
        shapes=SHAPES,
        fuzz=dict(rows="1..40", columns="1..2000"),
        nan="never",
    )
    return Task(scaled, **{**declared, **changes})


def test_parameters_and_scalars_of_the_first_call_are_noticed():
    found = audit(scaled_task(), SETTINGS)
    names = outcomes(found, "killed")
    assert {"weight of the first call", "eps of the first call", "weight neutral", "weight ignored"} <= names


def test_a_constant_that_never_matters_survives_with_reason_and_fix():
    task = scaled_task(
        args=[Tensor("x", "rows columns"), Param("weight", "columns", constant(1.0)), Scalar("eps", 1e-3)],
    )
    found = audit(task, SETTINGS)
    lived = {each.name: each for each in found.survivors}
    assert "the same bits as the reference" in lived["weight neutral"].why
    assert lived["weight neutral"].fix == "Give weight an initial state that is far from its neutral value"
    assert any("degenerate survives: weight neutral" in each for each in found.problems(0.0))


def test_a_survivor_that_the_task_explains_counts_all_the_same():
    task = scaled_task(
        args=[Tensor("x", "rows columns"), Param("weight", "columns", constant(1.0)), Scalar("eps", 1e-3)],
        survivors={"weight neutral": "there is only one state"},
    )
    found = audit(task, SETTINGS)
    (tried,) = (each for each in found.survivors if each.name == "weight neutral")
    assert tried.explained == "there is only one state"
    assert found.score is not None
    assert found.score < 1.0


def test_an_explanation_that_says_nothing_is_refused():
    with pytest.raises(TaskError, match=r"survivors\['x ignored'\]: '' explains nothing"):
        scaled_task(survivors={"x ignored": ""})


def test_what_an_index_excludes_makes_its_branch_no_mutant():
    args = [Tensor("logits", "rows columns"), Tensor("target", "rows", dtype="int64", values=integers(0, "columns"))]
    small = {"odd": SHAPES["odd"], "small": SHAPES["small"]}
    task = Task(looked_up, args=args, shapes=small, fuzz=dict(rows="1..40", columns="1..300"), nan="never")
    found = audit(task, SETTINGS)
    (tried,) = (each for each in found.tried if each.name == "where#1 always the first")
    assert tried.outcome == "equivalent"
    assert {"gather#1 index off by one", "gather#1 index in 8 bits"} <= outcomes(found, "killed")


def test_an_operator_in_place_is_mutated_too():
    task = Task(
        accumulated,
        args=[Tensor("x", "rows columns"), Tensor("y", "rows columns")],
        shapes=SHAPES,
        fuzz=dict(rows="1..40", columns="1..2000"),
        in_place=["y"],
        nan="never",
    )
    found = audit(task, SETTINGS)
    assert {"add#1 sub for add", "add#1 y alone", "cached by shape"} <= outcomes(found, "killed")
    assert found.score == 1.0


def test_a_reference_that_looks_at_values_has_no_graph_and_the_rest_goes_on():
    task = Task(by_value, args=[Tensor("x", "rows columns")], shapes=SHAPES, nan="never")
    found = audit(task, SETTINGS)
    assert any("cannot be traced" in note for note in found.notes)
    assert {"zeros", "cached by shape"} <= outcomes(found, "killed")


def weighted(x, weight):
    return x * weight + weight


GRADIENTS = Task(
    weighted,
    args=[
        Tensor("x", "rows columns"),
        Param("weight", "columns", {"trained": normal(1.0, 0.3), "spread": normal(0.0, 2.0)}),
    ],
    shapes=SHAPES,
    fuzz=dict(rows="1..40", columns="1..1700"),
    grad=["x", "weight"],
    nan="never",
)


def test_gradients_are_tried_too_and_a_reduction_that_is_dropped_is_noticed():
    found = audit(GRADIENTS, SETTINGS)
    names = outcomes(found, "killed")
    assert {
        *("gradient of x zero", "gradient of weight zero", "gradient of x the cotangent"),
        *("cotangent ignored", "gradients doubled", "previous gradients", "strides of the cotangent read as dense"),
        *("backward sum#1 reduction dropped", "backward sum#1 accumulated in float16"),
    } <= names
    assert any("grad(" in (each.case or "") for each in found.tried if each.name.startswith("backward"))
    assert found.problems(0.95) == ()


def test_a_task_without_gradients_tries_none(of_softmax):
    assert not any("gradient" in each.name or "backward" in each.name for each in of_softmax.tried)
