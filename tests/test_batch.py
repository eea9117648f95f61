"""One index of a batch alone: said in the text of a case, drawn, and bit by bit the same where a task asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pytest_kbench import Dim, Grader, Optional, Param, Reason, Scalar, Task, TaskError, Tensor, masks
from pytest_kbench.case import Call, Case, CaseError
from pytest_kbench.checks.determinism import cases
from pytest_kbench.checks.repeats import part_of
from pytest_kbench.options import Settings
from pytest_kbench.oracle.inputs import Placed, draw

HERE = Path(__file__).parent
ROW_MATMUL = HERE / "tasks" / "row_matmul.py"
HONEST = HERE / "honest" / "row_matmul" / "row_by_row.py"
TEXT = "dims(rows=5,inner=7,columns=3) only(rows=2) dtype(float32) seed(1f)"

TILED = """
def row_matmul(x, weight):
    tile = 64 if len(x) > 1 else 16
    starts = range(0, x.shape[1], tile)
    return sum(x[:, i : i + tile].float() @ weight[i : i + tile].float() for i in starts).to(x.dtype)
"""


@pytest.fixture(scope="module")
def grader():
    with Grader() as grader:
        yield grader


def row_matmul(x, weight):
    return x @ weight


def task(**changes) -> Task:
    fields = {
        "args": [Tensor("x", "rows inner"), Param("weight", "inner columns")],
        "shapes": {"odd": {"rows": 5, "inner": 7, "columns": 3}},
        "batch_invariant": "rows",
    }
    return Task(row_matmul, **{**fields, **changes})


def drawn(task: Task, text: str) -> dict[str, torch.Tensor]:
    return {each.name: each.values for each in draw(task, Call.parse(text)) if isinstance(each, Placed)}


# The text of a case.


def test_an_index_alone_is_said_beside_the_dimensions():
    call = Call.parse(TEXT)
    assert call.only == (("rows", 2),)
    assert str(call) == TEXT
    assert "only" not in str(Call(dims=(("rows", 5),), dtype="float32"))


@pytest.mark.parametrize(
    ("only", "problem"),
    [
        ("columns=0", "only(columns=0): choose from rows"),
        ("rows=5", "only(rows=5): rows has 5 indices, counted from 0"),
        ("rows=-1", "only(rows=-1): an index is a whole number"),
        ("rows=", "only(rows=): an index is a whole number"),
        ("2", "'2': write name=value, separated by commas"),
    ],
)
def test_an_index_that_is_not_there_is_no_case(only, problem):
    with pytest.raises(CaseError) as raised:
        Case.parse(f"dims(rows=5) only({only}) dtype(float32)")
    assert str(raised.value) == problem


# What is drawn.


def test_an_index_alone_has_the_values_that_it_has_in_the_batch():
    batch, alone = (drawn(task(), text) for text in (TEXT.replace("only(rows=2) ", ""), TEXT))
    assert torch.equal(alone["x"], batch["x"][2:3])
    assert torch.equal(alone["weight"], batch["weight"])


def test_the_layout_is_made_for_what_is_left():
    x, _ = draw(task(), Call.parse(f"{TEXT} layout(x=transposed)"))
    assert (tuple(x.values.shape), x.strides, x.storage) == ((1, 7), (1, 1), 7)


def test_a_dimension_that_is_an_argument_is_one_for_an_index_alone():
    def op(x, y, rows, width):
        return x + y

    args = [Tensor("x", "rows width"), Optional(Tensor("y", "width rows")), Dim("rows"), Dim("width", "2*width")]
    x, y, rows, width = draw(
        Task(op, args=args, shapes={"odd": {"rows": 5, "width": 7}}),
        Call.parse("dims(rows=5,width=7) only(rows=4) dtype(float32)"),
    )
    assert (tuple(x.values.shape), tuple(y.values.shape), rows.value, width.value) == ((1, 7), (7, 1), 1, 14)


def test_an_index_alone_keeps_its_row_of_a_mask():
    def op(mask):
        return mask

    of_masks = Task(
        op, args=[Tensor("mask", "b q k", dtype="bool", values=masks("causal"))], shapes={"a": {"b": 1, "q": 3, "k": 3}}
    )
    mask = drawn(of_masks, "dims(b=1,q=3,k=3) only(q=1) dtype(float32)")["mask"]
    assert mask.tolist() == [[[True, True, False]]]


def test_what_is_no_part_of_its_own_is_no_index_alone():
    with pytest.raises(CaseError, match=r"only\(inner\): the parameter 'weight' has 'inner' in its shape"):
        draw(task(), Call.parse(TEXT.replace("only(rows=2)", "only(inner=2)")))


# The declaration.


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"batch_invariant": "tokens"}, "'tokens' is no dimension; choose from rows, inner, columns"),
        ({"batch_invariant": "inner"}, "the parameter 'weight' has 'inner' in its shape"),
        ({"args": [Tensor("x", "2*rows inner"), Tensor("weight", "inner columns")]}, "not one part of its own"),
        ({"args": [Tensor("x", "rows rows"), Tensor("weight", "inner columns")]}, "not one part of its own"),
        ({"args": [Tensor("x", "inner"), Dim("weight", "rows+columns")]}, "no tensor has 'rows' in its shape"),
        ({"where": "rows >= 2"}, "where= or fuzz= leaves out rows=1"),
        ({"fuzz": {"rows": "2..9"}}, "where= or fuzz= leaves out rows=1"),
    ],
)
def test_a_batch_that_cannot_be_taken_apart_is_a_mistake_in_the_task(changes, problem):
    with pytest.raises(TaskError, match="batch_invariant") as raised:
        task(**changes)
    assert problem in str(raised.value)


def test_a_batch_may_be_any_dimension_of_any_input():
    assert task(
        args=[
            Tensor("x", "inner rows"),
            Scalar("weight", 1.0),
        ],
        shapes={"odd": {"rows": 5, "inner": 7}},
    )


# What is asked.


def test_a_batch_is_asked_with_its_first_its_middle_its_last_and_two_drawn_indices():
    plain = [each.id for each in cases(task(batch_invariant=None), Settings())]
    ours = task(dtypes=["float32", "float16"], shapes={"odd": {"rows": 500, "inner": 7, "columns": 3}})
    found = {each.id: each.case.calls for each in cases(ours, Settings(seed=7))}
    assert plain == ["f32"]
    assert list(found) == ["f32", "f16", "batch:f32", "batch:f16"]
    batch, *alone = found["batch:f16"]
    assert not batch.only
    assert len({call.seed for call in found["batch:f16"]}) == 1
    indices = [dict(call.only)["rows"] for call in alone]
    assert indices[:3] == [0, 250, 499]
    assert 3 <= len(set(indices)) == len(indices) <= 5


def test_a_batch_of_one_is_not_asked():
    shapes = {"row": {"rows": 1, "inner": 70, "columns": 30}, "odd": {"rows": 2, "inner": 7, "columns": 3}}
    (found,) = [each for each in cases(task(shapes=shapes), Settings()) if each.id.startswith("batch")]
    assert dict(found.case.calls[0].dims)["rows"] == 2
    assert len(found.case.calls) == 3
    assert [each.id for each in cases(task(shapes={"row": shapes["row"]}), Settings())] == ["f32"]


# What is found.


def test_rows_of_their_own_pass(grader):
    verdict = grader.grade(ROW_MATMUL, HONEST, checks=["determinism"])
    assert verdict.outcome == "passed", verdict.message
    assert len(verdict.records) == 4


def test_a_batch_of_one_that_is_asked_for_is_its_only_row(grader):
    case = "dims(rows=1,inner=7,columns=3) dtype(float32); dims(rows=1,inner=7,columns=3) only(rows=0) dtype(float32)"
    assert grader.grade(ROW_MATMUL, HONEST, checks=["determinism"], cases=[case]).outcome == "passed"


def test_a_tile_that_depends_on_the_number_of_rows_depends_on_the_batch(grader, tmp_path):
    path = tmp_path / "tiled.py"
    path.write_text(TILED)
    verdict = grader.grade(ROW_MATMUL, path, checks=["correct", "determinism"])
    failed = [record for record in verdict.records if record.status == "failed"]
    assert {record.reason for record in failed} == {Reason.BATCH}
    assert "depends on the batch: rows=0 alone differs from rows=0 in the batch of 97 in " in failed[0].message
    assert " of 33 elements, by at most " in failed[0].message
    (again,) = grader.grade(ROW_MATMUL, path, checks=["determinism"], cases=[failed[0].case]).records
    assert (again.reason, again.message) == (failed[0].reason, failed[0].message)


def test_an_index_alone_is_graded_in_any_check(grader, tmp_path):
    path = tmp_path / "wrong_alone.py"
    path.write_text("def row_matmul(x, weight):\n    return x @ weight * (1 if len(x) > 1 else 0.5)\n")
    assert grader.grade(ROW_MATMUL, HONEST, checks=["correct"], cases=[TEXT]).outcome == "passed"
    assert grader.grade(ROW_MATMUL, path, checks=["correct"], cases=[TEXT]).reason == Reason.WRONG


def test_a_reference_whose_outputs_have_no_such_dimension_is_a_mistake_in_the_task(grader, tmp_path):
    def total(x):
        return x.sum()

    path = tmp_path / "mine.py"
    path.write_text("def total(x):\n    return x.sum()\n")
    summed = Task(total, args=[Tensor("x", "n")], shapes={"odd": {"n": 5}}, batch_invariant="n")
    record = grader.grade(summed, path, checks=["determinism"]).records[-1]
    assert (record.status, record.reason) == ("failed", Reason.TASK)
    assert "no part of the batch's outputs is that of n=0: in the batch and alone they are () and ()" in record.message


def test_the_part_of_an_output_is_found_by_its_size():
    call = Call.parse("dims(n=5,m=5,k=7) only(n=2) dtype(float32)")
    whole = torch.arange(35).view(7, 5)
    assert torch.equal(part_of(whole, whole[:, :1], call), whole[:, 2:3])
    assert part_of(whole, whole[:3, :1], call) is None
    assert part_of(whole, whole[:, 0], call) is None
    assert part_of(whole.view(5, 7), torch.empty(2, 7), call) is None
    both = Call.parse("dims(n=5,m=5,k=7) only(n=2,k=3) dtype(float32)")
    assert torch.equal(part_of(whole, whole[:1, :1], both), whole[3:4, 2:3])
