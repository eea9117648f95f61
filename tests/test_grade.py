"""The one door, from Python: tasks of every kind, threads, an event loop, and what it raises."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import py_compile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pytest_kbench import Grader, Optional, Param, Reason, Settings, Task, Tensor, grade, grade_async, normal
from pytest_kbench.candidate import CandidateError
from pytest_kbench.case import Case, CaseError
from pytest_kbench.formats import native
from pytest_kbench.formats.native import TaskFileError
from pytest_kbench.record import Comparison, Record
from pytest_kbench.sandbox.host import LayerReport, Sandbox, SandboxError

HERE = Path(__file__).parent
HARD = sorted((HERE / "tasks").glob("*.py"))
SHAPES = {"odd": {"n": 3, "m": 5}, "empty": {"n": 0, "m": 4}, "larger": {"n": 17, "m": 33}}


@pytest.fixture(scope="module")
def grader():
    with Grader(Settings(max_failures=1, examples=60)) as grader:
        yield grader


@pytest.fixture
def candidate(tmp_path):
    def write(text: str, name: str = "mine.py") -> Path:
        path = tmp_path / name
        path.write_text(f"import torch\nimport torch.nn.functional as F\n\n\n{text}\n")
        return path

    return write


@pytest.mark.parametrize("path", HARD, ids=lambda path: path.stem)
def test_a_copy_of_a_hard_reference_passes(grader, candidate, path):
    source = path.read_text()
    copy = source[source.index("\ndef ") : source.index("\ntask = ")]
    verdict = grader.grade(path, candidate(copy))
    assert verdict.outcome == "passed", verdict.message


def test_several_outputs_are_each_judged(grader, candidate):
    def extremes(x):
        return x.amax(-1), x.argmax(-1)

    task = Task(
        extremes, args=[Tensor("x", "n m")], shapes={key: SHAPES[key] for key in ("odd", "larger")}, nan="never"
    )
    right = grader.grade(task, candidate("def extremes(x):\n    return [x.max(-1).values, x.max(-1).indices]"))
    assert right.outcome == "passed", right.message
    wrong = grader.grade(task, candidate("def extremes(x):\n    return x.amax(-1), x.argmax(-1) * 0"))
    assert wrong.reason == Reason.WRONG
    assert "output 1" in wrong.message
    one = grader.grade(task, candidate("def extremes(x):\n    return x.amax(-1)"))
    assert one.reason == Reason.STRUCTURE
    assert "1 outputs came back, 2 are due" in one.message


def test_an_in_place_operator_is_judged_by_what_it_leaves(grader, candidate):
    def accumulate(x, y):
        x += y

    task = Task(accumulate, args=[Tensor("x", "n m"), Tensor("y", "n m")], shapes=SHAPES, in_place=["x"])
    right = grader.grade(task, candidate("def accumulate(x, y):\n    x.add_(y)"))
    assert right.outcome == "passed", right.message
    assert grader.grade(task, candidate("def accumulate(x, y):\n    x.mul_(y)")).reason in (
        Reason.WRONG,
        Reason.NONFINITE,
    )
    other = grader.grade(task, candidate("def accumulate(x, y):\n    x.add_(y)\n    y.zero_()"))
    assert other.reason == Reason.INPUTS_CHANGED


def test_a_kernel_that_reads_one_input_with_the_strides_of_another_is_wrong(grader, candidate):
    def plus(x, y):
        return x + y

    task = Task(plus, args=[Tensor("x", "n m"), Tensor("y", "n m")], shapes={"odd": {"n": 3, "m": 5}}, nan="never")
    verdict = grader.grade(
        task,
        candidate(
            "def plus(x, y):\n"
            "    room = y.untyped_storage().nbytes() // 4 - y.storage_offset()\n"
            "    reach = 1 + sum((s - 1) * t for s, t in zip(x.shape, x.stride()))\n"
            "    return x + (y.as_strided(x.shape, x.stride()) if reach <= room else y)"
        ),
    )
    assert verdict.reason == Reason.WRONG


def test_an_optional_argument_is_none_when_it_is_absent(grader, candidate):
    def shifted(x, bias):
        return x if bias is None else x + bias

    task = Task(
        shifted, args=[Tensor("x", "n m"), Optional(Param("bias", "m", {"wide": normal(3.0, 2.0)}))], shapes=SHAPES
    )
    right = grader.grade(task, candidate("def shifted(x, bias):\n    return x.clone() if bias is None else x + bias"))
    assert right.outcome == "passed", right.message
    ignored = grader.grade(task, candidate("def shifted(x, bias):\n    return x.clone()"))
    assert ignored.reason == Reason.WRONG


def test_inputs_made_together_and_a_golden_of_its_own(grader, candidate):
    def inverse_sum(x):
        return torch.linalg.inv(x).sum((-2, -1))

    def well_conditioned(dims, generator):
        n = dims["n"]
        return {"x": torch.eye(n) * n + torch.rand((n, n), generator=generator)}

    def solved(x):
        return torch.linalg.solve(x, torch.ones(x.shape[-1], 1, dtype=x.dtype)).sum()

    task = Task(
        inverse_sum,
        args=[Tensor("x", "n n")],
        shapes={"odd": {"n": 3}, "larger": {"n": 17}},
        inputs=well_conditioned,
        golden=solved,
        nan="never",
    )
    right = grader.grade(task, candidate("def inverse_sum(x):\n    return x.inverse().sum()"))
    assert right.outcome == "passed", right.message
    assert grader.grade(task, candidate("def inverse_sum(x):\n    return x.sum()")).reason == Reason.WRONG


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (lambda dims, generator: 1 / 0, "inputs raised ZeroDivisionError"),
        (lambda dims, generator: {"x": torch.zeros(2)}, "inputs made 'x' as (2,); the declaration says (3, 5)"),
        (lambda dims, generator: {"z": torch.zeros(2)}, "inputs made 'z', which is no tensor argument"),
    ],
)
def test_inputs_that_do_not_keep_the_declaration_are_the_tasks_fault(grader, candidate, inputs, said):
    def same(x):
        return x * 1

    task = Task(same, args=[Tensor("x", "n m")], shapes={"odd": {"n": 3, "m": 5}}, inputs=inputs)
    verdict = grader.grade(task, candidate("def same(x):\n    return x * 1"))
    assert verdict.reason == Reason.TASK
    assert said in verdict.message


def noisy(x):
    return torch.nn.functional.dropout(x, training=True)


def test_a_reference_that_draws_random_numbers_judges_nobody(grader, tmp_path):
    task = Task(noisy, args=[Tensor("x", "n")], shapes={"empty": {"n": 0}, "odd": {"n": 65}}, grad=["x"])
    mine = tmp_path / "mine.py"
    mine.write_text("def noisy(x):\n    return x * 1\n")
    for checks in (["correct"], ["grad"]):
        verdict = grader.grade(task, mine, checks=checks)
        assert (verdict.outcome, verdict.reason) == ("failed", Reason.TASK)
        assert "noisy gives something else when it is run again on the same inputs" in verdict.message


def test_dense_strides_are_asked_for_only_where_they_are_promised(grader, candidate):
    def same(x):
        return x * 1

    turned = candidate("def same(x):\n    return (x * 1).t().contiguous().t()")
    fields = {"args": [Tensor("x", "n m")], "shapes": {"odd": {"n": 3, "m": 5}, "row": {"n": 1, "m": 5}}}
    assert grader.grade(Task(same, **fields), turned).outcome == "passed"
    assert grader.grade(Task(same, **fields, strides="dense"), turned).reason == Reason.STRUCTURE
    column = candidate(
        "def same(x):\n    return torch.empty_strided(x.shape, (x.shape[1], 1) if len(x) > 1 else (99, 1)).copy_(x)"
    )
    assert grader.grade(Task(same, **fields, strides="dense"), column).outcome == "passed"


def test_two_tasks_of_one_factory_are_told_apart(grader, candidate):
    def make(factor):
        def scaled(x):
            return x * factor

        return Task(scaled, args=[Tensor("x", "n m")], shapes=SHAPES)

    twice = candidate("def scaled(x):\n    return x * 2")
    assert grader.grade(make(2), twice).outcome == "passed"
    assert grader.grade(make(3), twice).reason == Reason.WRONG


def test_a_reference_that_changes_through_its_helper_is_noticed(grader, candidate, tmp_path):
    text = (
        "from pytest_kbench import Task, Tensor\n\n\ndef helper(x):\n    return x * {factor}\n\n\n"
        "def scaled(x):\n    return helper(x)\n\n\n"
        "task = Task(scaled, args=[Tensor('x', 'n')], shapes={{'odd': dict(n=65)}})\n"
    )
    path = tmp_path / "scaled.py"
    twice = candidate("def scaled(x):\n    return x * 2")
    path.write_text(text.format(factor=2))
    assert grader.grade(path, twice).outcome == "passed"
    path.write_text(text.format(factor=3))
    assert grader.grade(path, twice).reason == Reason.WRONG


def test_a_candidate_that_is_edited_is_graded_anew(grader, candidate):
    path = HERE.parent / "tasks" / "relu.py"
    assert grader.grade(path, candidate("def relu(x):\n    return x.relu()")).outcome == "passed"
    assert grader.grade(path, candidate("def relu(x):\n    return x.abs()")).outcome == "failed"


def test_grading_goes_on_in_many_threads_at_once(candidate):
    path = HERE.parent / "tasks" / "relu.py"
    candidates = [candidate(f"def relu(x):\n    return x.relu() + {n % 2}", f"k{n}.py") for n in range(8)]
    with Grader() as grader, ThreadPoolExecutor(8) as pool:
        verdicts = list(pool.map(lambda each: grader.grade(path, each, checks=["contract"]), candidates))
    assert [verdict.outcome for verdict in verdicts] == ["passed", "failed"] * 4


def test_grading_can_be_awaited(candidate):
    path = HERE.parent / "tasks" / "relu.py"
    right, wrong = (
        candidate("def relu(x):\n    return x.relu()", "a.py"),
        candidate("def relu(x):\n    return x", "b.py"),
    )

    async def both():
        return await asyncio.gather(*(grade_async(path, each, checks=["contract"]) for each in (right, wrong)))

    assert [verdict.outcome for verdict in asyncio.run(both())] == ["passed", "failed"]


def test_cases_can_be_given_as_text(candidate):
    verdict = grade(
        HERE.parent / "tasks" / "relu.py",
        candidate("def relu(x):\n    return x.relu()"),
        checks=["correct"],
        cases=["dims(rows=2,columns=3) dtype(float32) seed(1)"],
    )
    assert [record.case for record in verdict.records] == ["dims(rows=2,columns=3) dtype(float32) seed(1)"]


def test_a_candidate_is_given_up_after_three_time_outs(candidate):
    path = HERE.parent / "tasks" / "relu.py"
    stuck = candidate("def relu(x):\n    while True:\n        pass")
    with Grader(Settings(timeout=0.3)) as grader:
        verdict = grader.grade(path, stuck, checks=["correct"])
    assert [record.reason for record in verdict.records] == [Reason.TIMEOUT] * 3


def test_triton_without_a_device_is_skipped(candidate):
    verdict = grade(HERE.parent / "tasks" / "relu.py", candidate("import triton.language as tl\n\n\ndef relu(x): ..."))
    assert (verdict.outcome, verdict.reason) == ("skipped", Reason.DEVICE)


def test_strict_is_heard_from_python_too(candidate, monkeypatch):
    real = Sandbox.start

    def start(self, *args):
        if self._mode == "strict":
            raise SandboxError("refused")
        return real(self, *args)

    monkeypatch.setattr(Sandbox, "start", start)
    mine = candidate("def relu(x):\n    return x.relu()")
    with pytest.raises(SandboxError):
        grade(HERE.parent / "tasks" / "relu.py", mine, settings=Settings(sandbox="strict"))


@pytest.mark.parametrize(
    ("task", "made", "options", "error"),
    [
        ("nowhere.py", "relu.py", {}, TaskFileError),
        ("relu.py", "nowhere.py", {}, CandidateError),
        ("relu.py", "relu.txt", {}, CandidateError),
        ("relu.py", "relu.py", {"checks": ["swift"]}, ValueError),
        ("relu.py", "relu.py", {"checks": "build"}, ValueError),
        ("relu.py", "relu.py", {"cases": ["rows=3"]}, CaseError),
        ("relu.py", "relu.py", {"cases": "dims(rows=3,columns=3)"}, ValueError),
        ("relu.py", "relu.py", {"settings": {"seed": 1}}, TypeError),
    ],
)
def test_what_cannot_be_graded_raises_and_says_why(candidate, tmp_path, task, made, options, error):
    candidate("def relu(x):\n    return x.relu()", "relu.py")
    candidate("", "relu.txt")
    with pytest.raises(error) as caught:
        grade(HERE.parent / "tasks" / task, tmp_path / made, **options)
    assert str(caught.value)


def test_a_candidate_given_as_the_task_is_not_imported(candidate, tmp_path):
    mine = candidate(f"open({str(tmp_path / 'imported')!r}, 'w')")
    with pytest.raises(TaskFileError, match="is no task file"):
        grade(mine, HERE.parent / "tasks" / "relu.py")
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise SystemExit(7)", "raised SystemExit: 7"),
        ("return None", "returned NoneType, not tensors"),
        ("return torch.view_as_complex(torch.zeros(3, 2))", "complex outputs are not judged"),
        ("x.zero_()\n    return x * 1", 'declare in_place=["x"]'),
    ],
)
def test_what_is_wrong_with_the_reference_is_the_tasks_fault(grader, candidate, tmp_path, body, said):
    path = tmp_path / "op.py"
    path.write_text(
        f"import torch\nfrom pytest_kbench import Task, Tensor\n\n\ndef op(x):\n    {body}\n\n\n"
        "task = Task(op, args=[Tensor('x', 'n')], shapes={'odd': dict(n=65)})\n"
    )
    verdict = grader.grade(path, candidate("def op(x):\n    return x"))
    assert verdict.reason == Reason.TASK
    assert said in verdict.message


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("dims(rows=3) dtype(float32) seed(1)", "dims: relu has (rows, columns), the case gives (rows)"),
        ("dims(rows=1000000000,columns=1000000000) dtype(float32)", "GiB are free"),
        ("dims(rows=3,columns=3) dtype(float64)", "dtype(float64): relu has (float32, float16, bfloat16)"),
        ("dims(rows=3,columns=3) values(x=causal)", "values(x=causal): choose from normal"),
        ("dims(rows=3,columns=3) layout(y=sliced)", "layout: relu has no such argument: y"),
        ("dims(rows=3,columns=3) state(trained)", "state(trained): relu has ()"),
    ],
)
def test_a_case_that_does_not_fit_the_task_says_what_does(grader, candidate, case, said):
    mine = candidate("def relu(x):\n    return x.relu()")
    verdict = grader.grade(HERE.parent / "tasks" / "relu.py", mine, checks=["correct"], cases=[case])
    assert verdict.reason == Reason.CASE
    assert said in verdict.message


@pytest.mark.parametrize(
    "text",
    [
        *("", "foo", "dims(a)", "dims(a=x)", "dims(a=3.5)", "dims(a=-1)", "dims(a=1_0)", "dims(a=٣)", "dims(a=1,a=2)"),
        *("dims(a=1) dims(a=2)", "dims(a=1) seed(x)", "dims(a=1) seed(1_0)", "dims(a=1) blah(3)", "dims(a=1))"),
        *("dims(a=1) dtype(float33)", "dims(a=1) layout(x=diagonal)", "dtype(float32)", "dims(a=1);;dims(a=1)"),
    ],
)
def test_a_text_that_is_no_case_is_refused(text):
    with pytest.raises(CaseError):
        Case.parse(text)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"seed": -1}, {"seed": "ff"}, {"timeout": 0}, {"timeout": "3"}, {"device": "cuda"}, {"checks": ("swift",)}),
        *({"checks": "build"}, {"threads": 0}, {"tolerance": 0.0}, {"memory": 1}, {"memory": 1 << 70}, {"cache": "x"}),
        *({"sandbox": "no"}, {"max_failures": -1}),
    ],
)
def test_settings_are_checked_where_they_are_made(wrong):
    with pytest.raises(ValueError, match=f"Settings.{next(iter(wrong))}="):
        Settings(**wrong)


def test_records_survive_json_with_values_that_json_has_not():
    compared = Comparison(0, 3, wrong=1, worst=(1,), actual=float("nan"), golden=float("-inf"), pattern="inf")
    record = Record("t", "c", "correct", "failed", Reason.WRONG, "m", "case", (compared,), {"call": 0.1}, {"a": "b"})
    text = json.dumps(record.to_json(), allow_nan=False)
    again = Record.from_json(json.loads(text))
    assert json.dumps(again.to_json()) == text
    assert again.comparisons[0].worst == (1,)
    assert again.comparisons[0].pattern == "inf"


def test_layers_are_named(grader):
    assert isinstance(grader.layers(), LayerReport)


def test_of_a_candidate_its_source_runs_and_not_the_bytecode_beside_it(tmp_path):
    package = tmp_path / "mine"
    package.mkdir()
    other = tmp_path / "other.py"
    other.write_text("def relu(x):\n    return x * 0\n")
    source = package / "__init__.py"
    source.write_text("def relu(x):\n    return x.relu()\n")
    cached = importlib.util.cache_from_source(str(source))
    py_compile.compile(str(other), cached, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert grade(HERE.parent / "tasks" / "relu.py", package, checks=["build", "determinism"]).outcome == "passed"


def test_a_grader_does_not_take_settings_that_are_another_graders(candidate):
    mine = candidate("def relu(x):\n    return x.relu()")
    with Grader() as grader, pytest.raises(ValueError, match="this Grader's own, 'auto'"):
        grader.grade(HERE.parent / "tasks" / "relu.py", mine, settings=Settings(sandbox="strict"))


def test_a_source_of_a_megabyte_and_more_is_not_read(candidate):
    large = candidate("x = [" + "1," * (1 << 20) + "]\n\n\ndef relu(x):\n    return x.relu()")
    verdict = grade(HERE.parent / "tasks" / "relu.py", large)
    assert (verdict.outcome, verdict.reason) == ("failed", Reason.LOAD)
    assert "has more than 1 MiB" in verdict.message


def test_one_call_is_judged_by_each_rule_that_is_asked_for(grader, candidate):
    near = candidate("def relu(x):\n    return x.relu() * 1.00001")
    task = native.load(HERE.parent / "tasks" / "relu.py")[0]
    case = "dims(rows=3,columns=65) dtype(float32) seed(1)"
    outcomes = [
        grader.grade(
            task, near, checks=["correct"], cases=[case], settings=replace(grader.settings, tolerance=tolerance)
        ).outcome
        for tolerance in (None, 1e-3, 1e-9)
    ]
    assert outcomes == ["failed", "passed", "failed"]


def test_a_header_that_changes_is_built_again(grader, tmp_path):
    (tmp_path / "factor.h").write_text("constexpr float factor = 1;\n")
    path = tmp_path / "mine.cpp"
    path.write_text(
        """
        #include <tvm/ffi/container/tensor.h>
        #include <tvm/ffi/function.h>
        #include "factor.h"
        void relu(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
          const float* in = static_cast<const float*>(x.data_ptr());
          for (int64_t i = 0; i < x.numel(); ++i) static_cast<float*>(y.data_ptr())[i] = in[i] > 0 ? in[i] * factor : 0;
        }
        TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
        """
    )
    task = native.load(HERE.parent / "tasks" / "relu.py")[0]
    cases = ["dims(rows=3,columns=65) dtype(float32) seed(1)"]
    assert grader.grade(task, path, checks=["correct"], cases=cases).outcome == "passed"
    (tmp_path / "factor.h").write_text("constexpr float factor = 2;\n")
    assert grader.grade(task, path, checks=["correct"], cases=cases).reason == Reason.WRONG
