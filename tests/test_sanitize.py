"""The sanitize check: what other checks cannot see is found, honest candidates pass, and what is not judged is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_kbench import Grader, Reason, Record, Settings
from pytest_kbench.case import Case, NamedCase
from pytest_kbench.checks.sanitize import LARGEST, SMALL, cases
from pytest_kbench.formats.native import load
from pytest_kbench.oracle.coverage import elements, sequences

HERE = Path(__file__).parent
TASK = HERE.parent / "tasks" / "relu.py"
SANITIZED = HERE / "sanitized" / "relu"
HONEST = HERE / "honest" / "relu"
ODD = Case.parse("dims(rows=3,columns=65) dtype(float32) seed(1)")
WIDE = Case.parse("dims(rows=63,columns=129) dtype(float32) seed(1)")

HONEST_TORCH = """\
#include <torch/extension.h>

#include <thread>

// kbench: flags=-O2
torch::Tensor relu(const torch::Tensor& x) {
  torch::Tensor y = torch::empty_like(x, x.options(), torch::MemoryFormat::Contiguous);
  const auto half = [&](int64_t begin, int64_t end) { y.slice(0, begin, end).copy_(x.slice(0, begin, end).relu()); };
  std::thread other(half, 0, x.size(0) / 2);
  half(x.size(0) / 2, x.size(0));
  other.join();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("relu", &relu); }
"""


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(Settings(sanitize=("address", "thread"))) as grader:
        yield grader


def graded(grader: Grader, path: Path, sanitizer: str, *given: Case) -> list[Record]:
    """The records of these cases under one sanitizer."""
    named = [NamedCase(f"{sanitizer}:{index}", case) for index, case in enumerate(given)]
    return list(grader.grade(TASK, path, checks=["sanitize"], cases=named).records)


def test_a_read_past_the_end_of_an_input_is_found_where_it_happens(grader: Grader) -> None:
    for layout in ("", " layout(x=offset)"):
        case = Case.parse(f"{ODD}{layout}")
        (record,) = graded(grader, SANITIZED / "reads_past_the_end.cpp", "address", case)
        assert (record.status, record.reason) == ("failed", Reason.SANITIZER)
        first, *detail = record.message.splitlines()
        assert first == (
            "sanitizer: AddressSanitizer: access beside the elements of an argument or output, "
            "read of size 4 at reads_past_the_end.cpp:19"
        )
        assert "ERROR: AddressSanitizer: use-after-poison" in detail[0]
        assert any("in relu(" in line and line.endswith("reads_past_the_end.cpp:19") for line in detail)
        assert detail[-1].strip().startswith("x: (3, 65) float32")
        assert record.case == str(case)


def test_a_backward_that_reads_past_the_end_of_its_cotangent_is_found(grader: Grader) -> None:
    path = SANITIZED / "backward_reads_past_the_end.cpp"
    forward, backward = graded(grader, path, "address", ODD, Case.parse(f"{ODD} grad(x)"))
    assert forward.status == "passed"
    assert (backward.status, backward.reason) == ("failed", Reason.SANITIZER)
    assert "read of size 4 at backward_reads_past_the_end.cpp:" in backward.message
    (alone,) = graded(grader, SANITIZED / "reads_past_the_end.cpp", "address", Case.parse(f"{ODD} grad(x)"))
    assert (alone.status, alone.facts) == ("skipped", {"refuses": "gradients"})


def test_other_checks_do_not_see_it(grader: Grader) -> None:
    verdict = grader.grade(TASK, SANITIZED / "reads_past_the_end.cpp", checks=["correct"], cases=[ODD])
    assert verdict.outcome == "passed"


def test_a_use_after_free_is_found_with_both_ends_of_its_memory(grader: Grader) -> None:
    (record,) = graded(grader, SANITIZED / "uses_after_free.cpp", "address", ODD)
    assert record.reason is Reason.SANITIZER
    assert record.message.startswith("sanitizer: AddressSanitizer: heap-use-after-free, read of size 4 at uses_after_")
    assert "freed by thread T0 here:" in record.message
    assert "previously allocated by thread T0 here:" in record.message


def test_a_race_of_two_threads_is_found_with_both_sides(grader: Grader) -> None:
    (record,) = graded(grader, SANITIZED / "counts_without_a_lock.cpp", "thread", WIDE)
    assert record.reason is Reason.SANITIZER
    assert record.message.startswith("sanitizer: ThreadSanitizer: data race, ")
    assert record.message.count("in operator() counts_without_a_lock.cpp:") >= 2


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_an_honest_candidate_with_threads_passes(grader: Grader, sanitizer: str) -> None:
    (record,) = graded(grader, HONEST / "joined_threads.cpp", sanitizer, WIDE)
    assert record.status == "passed", record.message
    assert record.facts["sanitizer"] == sanitizer
    assert record.facts["limits"].startswith("addresses are not random; ")


def test_memory_that_is_used_again_for_other_shapes_accuses_nobody(grader: Grader) -> None:
    task, _ = load(TASK)
    for named in sequences(task, "cpu", grader.settings.seed):
        calls = [call for call in named.case.calls if call.dtype == "float32"]
        if calls:
            (record,) = graded(grader, HONEST / "joined_threads.cpp", "address", Case((*calls, *reversed(calls))))
            assert record.status == "passed", record.message


def test_a_case_of_unknown_origin_runs_under_every_sanitizer(grader: Grader) -> None:
    for name in ("reads_past_the_end.cpp", "counts_without_a_lock.cpp"):
        verdict = grader.grade(TASK, SANITIZED / name, checks=["sanitize"], cases=[WIDE])
        assert verdict.reason is Reason.SANITIZER, verdict.message


def test_openmp_is_said_to_be_not_judged_for_races(grader: Grader, tmp_path: Path) -> None:
    path = tmp_path / "openmp.cpp"
    text = (HONEST / "joined_threads.cpp").read_text()
    path.write_text(
        text.replace("std::thread odd(work, 1);", "#pragma omp parallel for")
        .replace("work(0);", "")
        .replace("odd.join();", "for (int64_t first = 0; first < 2; ++first) work(first);")
    )
    (record,) = graded(grader, path, "thread", WIDE)
    assert (record.status, record.reason) == ("skipped", Reason.UNSUPPORTED)
    assert record.message == "not checked: ThreadSanitizer judges std::thread, and this uses OpenMP."
    (record,) = graded(grader, path, "address", WIDE)
    assert record.status == "passed", record.message


def test_python_is_said_to_be_not_judged(grader: Grader) -> None:
    verdict = grader.grade(TASK, HONEST / "where.py", checks=["sanitize"])
    assert (verdict.outcome, verdict.reason) == ("skipped", Reason.UNSUPPORTED)
    assert verdict.message == "not checked: a sanitizer judges C++, and where.py is not."


def test_what_is_not_judged_is_no_refusal_of_the_candidate(grader: Grader) -> None:
    named = [NamedCase("address:odd", ODD)]
    one = grader.grade(TASK, HONEST / "where.py", checks=["build", "sanitize"], cases=named)
    assert (one.outcome, one.message) == ("passed", "")


def test_a_dtype_that_the_candidate_does_not_take_is_not_run(grader: Grader) -> None:
    half = Case.parse("dims(rows=3,columns=65) dtype(float16) seed(1)")
    (record,) = graded(grader, HONEST / "joined_threads.cpp", "address", half)
    assert (record.status, record.facts) == ("skipped", {"refuses": "float16"})


def test_nothing_is_run_unless_it_is_asked_for() -> None:
    task, _ = load(TASK)
    assert cases(task, Settings()) == ()


def test_a_case_without_any_sanitizer_says_so() -> None:
    with Grader(Settings()) as plain:
        verdict = plain.grade(TASK, HONEST / "joined_threads.cpp", checks=["sanitize"], cases=[ODD])
    assert (verdict.outcome, verdict.message) == ("skipped", "not checked: no sanitizer is asked for.")


def test_addresses_get_small_shapes_in_layouts_and_threads_large_ones() -> None:
    task, _ = load(TASK)
    sizes = {tuple(dims.items()): elements(task, name) for name, dims in task.shapes.items()}
    planned = cases(task, Settings(sanitize=("address", "thread")))
    names = [each.id for each in planned]
    assert len(set(names)) == len(names)
    assert {
        "address:odd:f32",
        "address:odd:f32:grad",
        "address:odd:bf16:offset",
        "address:tall:f16:sliced",
        "thread:laptop:f32",
    } < set(names)
    for each in planned:
        (call,) = each.case.calls
        assert sizes[call.dims] <= (SMALL if each.id.startswith("address:") else LARGEST)
        assert bool(call.layouts) == each.id.endswith((":offset", ":sliced"))


def test_cases_are_the_same_in_every_run_of_a_seed() -> None:
    task, _ = load(TASK)
    first, again, other = (cases(task, Settings(seed=seed, sanitize=("address",))) for seed in (1, 1, 2))
    assert [str(each.case) for each in first] == [str(each.case) for each in again]
    assert [str(each.case) for each in first] != [str(each.case) for each in other]
    assert [each.id for each in first] == [each.id for each in other]


@pytest.mark.slow
def test_a_read_past_the_end_is_found_in_torchs_form(grader: Grader) -> None:
    (record,) = graded(grader, SANITIZED / "torch_form_reads_past_the_end.cpp", "address", ODD)
    assert record.reason is Reason.SANITIZER
    assert "read of size 4 at torch_form_reads_past_the_end.cpp:10" in record.message.partition("\n")[0]


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_an_honest_candidate_in_torchs_form_passes(grader: Grader, tmp_path: Path, sanitizer: str) -> None:
    path = tmp_path / "relu.cpp"
    path.write_text(HONEST_TORCH)
    for record in graded(grader, path, sanitizer, ODD, WIDE, Case.parse(f"{WIDE} layout(x=sliced)")):
        assert record.status == "passed", record.message
