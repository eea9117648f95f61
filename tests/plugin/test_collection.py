"""What is collected, under which names, and what is never touched."""

from __future__ import annotations

import pytest


def ids(result) -> list[str]:
    return [line for line in result.outlines if "::" in line]


def test_without_the_flag_a_task_file_is_not_collected(project):
    project.candidates("right.py")
    assert ids(project.run("--co", "-q")) == []


def test_ids_name_candidate_shape_dtype_layout_plan_and_seed(project):
    project.candidates("right.py")
    found = ids(project.grade("--co", "-q"))
    assert "tasks/twice.py::build[right.py]" in found
    assert "tasks/twice.py::correct[right.py:odd:f32:s0]" in found
    assert "tasks/twice.py::contract[right.py:replay:f32]" in found
    assert any(name.startswith("tasks/twice.py::correct[right.py:odd:f32:transposed:") for name in found)
    assert len(set(found)) == len(found)


def test_ids_are_the_same_in_every_run_and_for_every_seed(project):
    project.candidates("right.py")
    assert ids(project.grade("--co", "-q")) == ids(project.grade("--co", "-q", "--kbench-seed=1"))


def test_collecting_builds_nothing(project):
    project.candidates("broken.py", "right.py")
    result = project.grade("--co", "-q")
    assert result.ret == 0


def test_a_task_file_named_on_the_command_line_is_collected_once(project):
    project.candidates("right.py")
    found = ids(project.run("tasks/twice.py", "--kbench", "--co", "-q"))
    assert found.count("tasks/twice.py::build[right.py]") == 1


def test_a_task_file_named_like_a_test_file_is_collected_once(project):
    project.write("tasks/test_twice.py", (project.path / "tasks/twice.py").read_text())
    (project.path / "tasks/twice.py").unlink()
    project.write("candidates/test_twice/right.py", "def twice(x):\n    return x * 2\n")
    found = ids(project.grade("--co", "-q"))
    assert found.count("tasks/test_twice.py::build[right.py]") == 1


def test_one_item_can_be_named(project):
    project.candidates("right.py", "wrong.py")
    result = project.run("tasks/twice.py::correct[right.py:odd:f32:s0]", "--kbench")
    result.assert_outcomes(passed=1)


def test_select_by_keyword(project):
    project.candidates("right.py", "wrong.py")
    found = ids(project.grade("--co", "-q", "-k", "right.py and build"))
    assert found == ["tasks/twice.py::build[right.py]"]


def test_a_task_may_be_called_like_a_module_of_python(project):
    project.write("tasks/copy.py", (project.path / "tasks/twice.py").read_text())
    project.write("candidates/copy/right.py", "def twice(x):\n    return x * 2\n")
    project.grade("-k", "copy and build").assert_outcomes(passed=1)


def test_what_lies_among_the_candidates_is_never_imported(project):
    for name in ("conftest.py", "test_it.py"):
        for folder in ("candidates", "candidates/twice"):
            project.write(f"{folder}/{name}", "raise SystemExit('imported')")
    assert project.run("--co", "-q").ret == 5
    result = project.grade("-k", "conftest.py and build")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["ended its process: SystemExit: imported"])


def test_candidates_cannot_be_collected_by_name(project):
    project.write("candidates/twice/conftest.py", "raise SystemExit('imported')")
    result = project.run("candidates/twice")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*candidates are never imported here; grade them through their task*"])


def test_a_candidates_name_may_be_anything(project):
    project.write("candidates/twice/a [b]:ü.py", "def twice(x):\n    return x * 2\n")
    found = ids(project.grade("--co", "-q"))
    assert "tasks/twice.py::build[a%20%5Bb%5D%3A%C3%BC.py]" in found
    project.grade("-k", "build").assert_outcomes(passed=1)


def test_names_with_an_underscore_or_a_dot_and_headers_are_no_candidates(project):
    project.candidates("right.py")
    for name in ("_helper.py", ".hidden.py", "common.h"):
        project.write(f"candidates/twice/{name}", "raise SystemExit")
    found = ids(project.grade("--co", "-q", "-k", "build"))
    assert found == ["tasks/twice.py::build[right.py]"]


def test_a_broken_task_file_is_one_failing_item_and_the_rest_goes_on(project):
    project.candidates("right.py")
    project.write("tasks/no_shapes.py", (project.path / "tasks/twice.py").read_text().replace("shapes=", "shape="))
    project.write("tasks/syntax.py", "task = Task(")
    project.write("tasks/raises.py", "from pytest_kbench import Task\n1 / 0\ntask = Task()")
    project.write("tasks/field.py", (project.path / "tasks/twice.py").read_text().replace("float32", "float33"))
    result = project.grade("-m", "not (kbench_correct or kbench_contract or kbench_determinism or kbench_fuzz)")
    result.assert_outcomes(passed=1, failed=4)
    result.stdout.fnmatch_lines(
        [
            "*field.py: dtypes: [[]'float33'] is not a list of different floating-point dtypes. Choose from: *",
            "*no_shapes.py: line *: TypeError: *shape*",
            "*raises.py: line 2: ZeroDivisionError: *",
            "*syntax.py: line 1: SyntaxError: *",
        ]
    )
    assert "Traceback" not in result.stdout.str()


def test_a_bad_entry_among_the_candidates_is_one_failing_item(project):
    project.candidates("right.py")
    project.write("candidates/twice/folder/a.py", "")
    (project.path / "candidates/twice/dangling.py").symlink_to("nowhere.py")
    (project.path / "candidates/twice/loop.py").symlink_to("loop.py")
    result = project.grade("-m", "not (kbench_correct or kbench_contract or kbench_determinism or kbench_fuzz)")
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(["candidate: *a folder is a package with __init__.py, or holds .cpp or .cu files"])


def test_a_task_that_is_graded_on_no_shape_here_is_skipped(project):
    project.candidates("right.py")
    text = (project.path / "tasks/twice.py").read_text()
    project.write("tasks/twice.py", text.replace("dtypes=", 'time=dict(cuda=["odd", "one"]), dtypes='))
    result = project.grade("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*device: no shape of twice is graded on cpu"])


@pytest.mark.parametrize("how", ["start", "testpaths"])
def test_a_conftest_among_the_candidates_is_not_imported_from_there_either(project, how, monkeypatch):
    project.write("candidates/twice/conftest.py", "raise SystemExit('imported')")
    if how == "start":
        monkeypatch.chdir(project.path / "candidates/twice")
    else:
        project.pytester.makeini("[pytest]\ntestpaths = candidates/twice\n")
    assert project.run().ret == 4


def test_a_task_without_candidates_is_skipped_and_says_where_to_put_them(project):
    result = project.grade("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no candidate: there is no folder *candidates/twice"])
    assert result.ret == 5


def test_the_candidates_folder_is_an_ini_option(project):
    project.pytester.makeini("[pytest]\nkbench_candidates = kernels\n")
    project.write("kernels/twice/mine.py", "def twice(x):\n    return x * 2\n")
    assert "tasks/twice.py::build[mine.py]" in ids(project.grade("--co", "-q"))
