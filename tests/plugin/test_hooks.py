"""The examples in the docstrings of `hookspec.py`, each run as the `conftest.py` that it is."""

from __future__ import annotations

import textwrap

import pytest

from pytest_kbench import hookspec

FEW = ("-k", "build or (one and s0) or issue")


def example(name: str) -> str:
    text = getattr(hookspec, name).__doc__.partition("::\n")[2]
    assert text, f"{name} has no example"
    return textwrap.dedent(text)


def hooks() -> list[str]:
    return [name for name in vars(hookspec) if name.startswith("pytest_kbench_")]


@pytest.fixture
def with_example(project):
    def run(name: str, *args: str):
        project.write("conftest.py", example(name))
        return project.grade(*FEW, *args)

    return run


def test_every_hook_has_an_example_that_names_it():
    assert len(hooks()) == 5
    assert all(f"def {name}(" in example(name) for name in hooks())


def test_a_hook_brings_candidates_from_elsewhere(project, with_example):
    project.candidates("right.py")
    project.write("generated/twice_7.py", "def twice(x):\n    return x * 3\n")
    result = with_example("pytest_kbench_candidates")
    result.stdout.fnmatch_lines(["twice *right.py *passed*", "twice *twice_7.py *FAILED: wrong"])


def test_a_hook_may_not_bring_a_name_twice_or_what_is_no_candidate(project):
    project.candidates("right.py")
    project.write("generated/right.py", "def twice(x):\n    return x\n")
    project.write("generated/notes.txt", "")
    project.write(
        "conftest.py",
        "def pytest_kbench_candidates(config):\n    return sorted((config.rootpath / 'generated').iterdir())\n",
    )
    result = project.grade(
        "-m", "kbench and not (kbench_correct or kbench_contract or kbench_determinism or kbench_fuzz)"
    )
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        ["candidate: *notes.txt: a candidate ends in .py, .cpp, .cu, or is *", "candidate: *another candidate of this*"]
    )


def test_a_hook_sets_the_tolerance(project, with_example):
    project.write("candidates/twice/near.py", "def twice(x):\n    return x * 2.00001\n")
    assert project.grade(*FEW).ret == 1
    assert with_example("pytest_kbench_tolerance").ret == 0


def test_a_hooks_tolerance_that_is_none_is_one_failing_item(project):
    project.candidates("right.py")
    project.write("conftest.py", "def pytest_kbench_tolerance():\n    return -1\n")
    result = project.grade()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["task: twice.py: from a hook: tolerance: *"])


def test_a_hook_adds_cases(project, with_example):
    project.candidates("right.py")
    result = with_example("pytest_kbench_cases", "-v")
    result.stdout.fnmatch_lines(["tasks/twice.py::correct[[]right.py:issue-17[]] PASSED*"])


def test_a_hooks_case_that_is_none_is_one_failing_item(project):
    project.candidates("right.py")
    project.write("conftest.py", "def pytest_kbench_cases():\n    return {'a': 'rows=3'}\n")
    result = project.grade()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["task: twice.py: from a hook: 'rows=3' is no part of a case, *"])


def test_a_hook_gives_build_flags(project, with_example):
    project.write(
        "candidates/twice/tiled.cpp",
        """
        #include <tvm/ffi/container/tensor.h>
        #include <tvm/ffi/function.h>
        static_assert(TILE == 64);
        void twice(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
          for (int64_t i = 0; i < x.size(0) * x.size(1); ++i)
            static_cast<float*>(y.data_ptr())[i] = 2 * static_cast<const float*>(x.data_ptr())[i];
        }
        TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, twice);
        """,
    )
    result = with_example("pytest_kbench_build_flags", "--kbench-checks=build")
    result.assert_outcomes(passed=1)


def test_a_hooks_flag_must_be_on_the_list(project):
    project.write("candidates/twice/fast.cpp", "// TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, twice);")
    project.write("conftest.py", "def pytest_kbench_build_flags():\n    return ['-ffast-math']\n")
    result = project.grade("--kbench-checks=build")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["does not compile: *fast.cpp: the flag '-ffast-math' is not allowed.*"])


def test_a_hook_hears_of_every_verdict(project, with_example):
    project.candidates("right.py", "broken.py")
    with_example("pytest_kbench_verdict")
    text = (project.path / "verdicts.txt").read_text()
    assert text == "twice broken.py failed load\ntwice right.py passed None\n"


def test_a_hook_hears_of_every_verdict_once_where_workers_grade(project, with_example):
    project.candidates("right.py")
    with_example("pytest_kbench_verdict", "-n2")
    assert (project.path / "verdicts.txt").read_text() == "twice right.py passed None\n"


def test_the_fixture_grades_from_an_ordinary_test(project):
    project.candidates("right.py", "wrong.py")
    project.write(
        "test_mine.py",
        """
        import pytest

        @pytest.mark.parametrize(("name", "outcome"), [("right.py", "passed"), ("wrong.py", "failed")])
        def test_it(kbench_grade, name, outcome):
            case = "dims(rows=3,columns=5) dtype(float32) seed(1)"
            verdict = kbench_grade("tasks/twice.py", f"candidates/twice/{name}", cases=[case])
            assert verdict.outcome == outcome
            assert len(verdict.records) == 5 if outcome == "passed" else 2
        """.replace("\n        ", "\n"),
    )
    project.run("test_mine.py").assert_outcomes(passed=2)
