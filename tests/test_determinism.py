"""Repeats of a call, compared bit by bit: a difference is told, and fails only where the task asks.

Whatever the number of threads is, every answer must be right.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pytest_kbench import Grader, Reason, Task, Tensor
from pytest_kbench.build.cache import Store
from pytest_kbench.candidate import Candidate
from pytest_kbench.case import Call
from pytest_kbench.checks.bench import Bench
from pytest_kbench.checks.determinism import cases
from pytest_kbench.checks.repeats import CROWDS, difference, other_threads
from pytest_kbench.options import Settings
from pytest_kbench.sandbox.host import Sandbox

STEADY = "def total(x):\n    return x.sum(1)\n"
# Two orders of summation take turns: both are right, and they do not agree in the last place.
RESTLESS = """
_calls = []


def total(x):
    _calls.append(1)
    return x.sum(1) if len(_calls) // 2 % 2 else x.flip(1).cumsum(1)[:, -1]
"""

# Sums in as many parts as there are threads.
SHARED = """
import torch


def total(x):
    return sum(part.sum(1) for part in x.chunk(torch.get_num_threads(), 1))
"""
# Whether a candidate runs with more threads than usual.
CROWD = "(torch.get_num_threads() not in (1, len(os.sched_getaffinity(0))))"
COUNTED = """
#include <omp.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void total(TensorView x, TensorView y) {
  int threads = 0;
#pragma omp parallel
  {
#pragma omp single
    threads = omp_get_num_threads();
  }
  for (int64_t i = 0; i < y.numel(); ++i) static_cast<float*>(y.data_ptr())[i] = threads;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(total, total);
"""


def total(x):
    return x.sum(1)


def task(**changes) -> Task:
    shapes = {"odd": {"n": 3, "m": 65}, "large": {"n": 64, "m": 1000}}
    return Task(total, args=[Tensor("x", "n m")], shapes=shapes, **changes)


@pytest.fixture(scope="module")
def grader():
    with Grader() as grader:
        yield grader


def graded(grader, tmp_path: Path, text: str, task: Task, **options):
    path = tmp_path / "mine.py"
    path.write_text(text)
    return grader.grade(task, path, checks=["determinism"], **options)


def test_repeats_that_agree_pass(grader, tmp_path):
    verdict = graded(grader, tmp_path, STEADY, task())
    assert verdict.outcome == "passed"
    assert verdict.records[0].facts == {}


def test_repeats_that_differ_pass_and_are_told_with_their_size(grader, tmp_path):
    (record,) = graded(grader, tmp_path, RESTLESS, task()).records
    assert record.status == "passed"
    assert record.message.startswith("not deterministic: repeats of a call differ in ")
    assert " of 128 elements, by at most " in record.facts["repeats"]
    assert 0 < float(record.facts["repeats"].rpartition(" ")[2]) < 1e-3


def test_repeats_that_differ_fail_where_the_task_asks(grader, tmp_path):
    verdict = graded(grader, tmp_path, RESTLESS, task(deterministic=True))
    assert (verdict.outcome, verdict.reason) == ("failed", Reason.NONDETERMINISTIC)
    assert graded(grader, tmp_path, STEADY, task(deterministic=True)).outcome == "passed"


def test_every_repeat_must_be_right(grader, tmp_path):
    late = "_calls = []\n\n\ndef total(x):\n    _calls.append(1)\n    return x.sum(1) * (1 + (len(_calls) == 8))\n"
    verdict = graded(grader, tmp_path, late, task())
    assert (verdict.outcome, verdict.reason) == ("failed", Reason.WRONG)
    assert "in call 8 of 11" in verdict.message


def test_one_call_per_dtype_of_the_largest_shape_is_repeated():
    named = cases(task(dtypes=["float32", "float16"]), Settings())
    assert [each.id for each in named] == ["f32", "f16"]
    assert all(dict(each.case.calls[0].dims)["m"] == 1000 for each in named)


def test_a_case_that_was_asked_for_is_repeated_call_by_call(grader, tmp_path):
    text = "dims(n=2,m=3) dtype(float32) seed(1); dims(n=64,m=1000) dtype(float32) seed(2)"
    (record,) = graded(grader, tmp_path, RESTLESS, task(), cases=[text]).records
    assert record.status == "passed"
    assert " of 132 elements" in record.facts["repeats"]


def test_any_repeat_that_differs_is_noticed(grader, tmp_path):
    late = """
_calls = []


def total(x):
    _calls.append(1)
    return x.sum(1) if len(_calls) != 11 else x.flip(1).cumsum(1)[:, -1]
"""
    (record,) = graded(grader, tmp_path, late, task()).records
    assert record.status == "passed"
    assert "repeats" in record.facts


def test_remembering_the_last_answer_makes_no_repeat(grader, tmp_path):
    memory = """
import torch

_last = []


def total(x):
    if not _last or not torch.equal(_last[0], x):
        _last[:] = [x.clone(), x.sum(1) + 1e-5 * torch.rand(len(x))]
    return _last[1].clone()
"""
    assert graded(grader, tmp_path, memory, task(deterministic=True)).reason == Reason.NONDETERMINISTIC


# Gradients.

LEANING = """
import torch

_calls = []


class Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.size = x.shape
        return x.sum(1)

    @staticmethod
    def backward(ctx, cotangent):
        _calls.append(1)
        return (cotangent.unsqueeze(1) * (1.0 + 1e-7 * (len(_calls) // 2 % 2))).expand(ctx.size)


def total(x):
    return Total.apply(x)
"""


def test_gradients_that_differ_between_repeats_are_told(grader, tmp_path):
    declared = task(grad=["x"], deterministic=True)
    assert [each.id for each in cases(declared, Settings())] == ["f32", "f32:grad"]
    forward, backward = graded(grader, tmp_path, LEANING, declared).records
    assert forward.status == "passed"
    assert (backward.status, backward.reason) == ("failed", Reason.NONDETERMINISTIC)
    assert graded(grader, tmp_path, STEADY, declared).outcome == "passed"


def test_a_forward_alone_is_not_asked_for_gradients_again_and_again(grader, tmp_path):
    alone = STEADY.replace("x.sum(1)", "x.detach().sum(1)")
    forward, backward = graded(grader, tmp_path, alone, task(grad=["x"])).records
    assert (forward.status, backward.status) == ("passed", "skipped")
    assert backward.message.startswith("a forward alone: ")


# Numbers of threads.


def test_a_call_is_tried_with_one_thread_and_with_more_than_there_are_cpus():
    assert other_threads(None, 2) == [(1, 2), (7, 3)]
    assert other_threads(None, 64) == [(1, 2), (97, 3)]
    assert other_threads(None, 1) == [(7, 3)]
    assert [threads for threads, _ in other_threads(None, 500)] == [1, min(CROWDS)]


def test_no_more_threads_than_the_user_allows_are_tried():
    assert other_threads(4, 2) == [(1, 2)]
    assert other_threads(1, 64) == []


def test_answers_that_differ_with_the_number_of_threads_pass_and_are_told(grader, tmp_path):
    verdict = graded(grader, tmp_path, SHARED, task(deterministic=True))
    assert verdict.outcome == "passed", verdict.message
    (record,) = verdict.records
    assert record.message == f"differs with the number of threads: {record.facts['threads']}"
    assert " of 128 elements, by at most " in record.facts["threads"]
    assert "repeats" not in record.facts


def test_an_answer_that_is_wrong_with_some_number_of_threads_fails(grader, tmp_path):
    crowded = f"""
import os

import torch


def total(x):
    return x.sum(1) * (2 if {CROWD} else 1)
"""
    verdict = graded(grader, tmp_path, crowded, task())
    assert (verdict.outcome, verdict.reason) == ("failed", Reason.WRONG)
    assert verdict.message.endswith(" threads")
    assert "in call 1 of 5\nin a child with " in verdict.message


def test_repeats_that_differ_with_some_number_of_threads_alone_are_no_repeats(grader, tmp_path):
    crowded = RESTLESS.replace("% 2", "% 2 or torch.get_num_threads() < 7").replace(
        "_calls", "import torch\n\n_calls", 1
    )
    (record,) = graded(grader, tmp_path, crowded, task()).records
    assert record.status == "passed"
    assert record.facts["repeats"].endswith(" threads")
    assert graded(grader, tmp_path, crowded, task(deterministic=True)).reason == Reason.NONDETERMINISTIC


def test_a_child_has_the_threads_that_it_was_given_and_the_usual_one_goes_on_afterwards(tmp_path):
    path = tmp_path / "counted.cpp"
    path.write_text(COUNTED)
    call = Call(dims=(("n", 3), ("m", 2)), dtype="float32")
    with Sandbox() as sandbox:
        bench = Bench(task(), Candidate.at(path), Settings(), sandbox, Store(tmp_path / "store"))
        usual = bench.child().pid
        others = []
        for threads in (1, 7, 7):
            with bench.with_threads(threads):
                assert bench.call(call, hold=0).returned.outputs[0].tolist() == [threads] * 3
                others.append(bench.child().pid)
        assert bench.child().pid == usual
        assert len({usual, *others}) == 3
        bench.rest()
        assert not any(Path(f"/proc/{pid}").exists() for pid in others)
        assert Path(f"/proc/{usual}").exists()
        bench.close()


def test_a_difference_is_the_number_of_elements_that_differ_anywhere_and_the_largest_distance():
    a, b, c = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0, 3.5]), torch.tensor([1.0, 2.25, 3.0])
    assert difference([[[a], [a], [a]]]) is None
    assert difference([[[a], [b], [c]]]) == "2 of 3 elements, by at most 0.5"
    assert difference([[[a, a], [a, b]], [[c], [c]]]) == "1 of 9 elements, by at most 0.5"
    assert difference([[[torch.tensor([0.0])], [torch.tensor([-0.0])]]]) == "1 of 1 elements, by at most 0"
    assert difference([[[torch.tensor([0.0])], [torch.tensor([float("nan")])]]]) == "1 of 1 elements, by at most inf"
