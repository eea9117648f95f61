"""What people get wrong: one sentence with file, field and fix; the rest of the run goes on."""

from __future__ import annotations

import os

import pytest

BUILDS = ("-m", "kbench and not (kbench_correct or kbench_contract or kbench_determinism or kbench_fuzz)")


def graded_beside(project, *args: str):
    """Grade the broken thing beside a candidate that is right; no traceback of ours may appear."""
    project.candidates("right.py")
    result = project.grade(*(args or BUILDS))
    text = result.stdout.str() + result.stderr.str()
    assert "Traceback" not in text
    result.stdout.fnmatch_lines(["twice *right.py *ok *"])
    return result


TASK_FAULTS = [
    ('shapes={"odd": dict(rows=3, columns=65)', 'shapes={"odd": dict(rows=3, columns=65, depth=2)', "shapes*depth*"),
    (
        'shapes={"odd": dict(rows=3, columns=65)',
        'shapes={"odd": dict(rows=3)',
        "shapes[[]'odd'[]]: does not give columns*",
    ),
    (
        "dtypes=",
        'fuzz=dict(rows="1..2"),\n    dtypes=',
        "fuzz[[]'rows'[]]: '1..2' leaves out shapes[[]'odd'[]], which has rows=3*",
    ),
    ("dtypes=", 'fuzz=dict(depth="1..2"),\n    dtypes=', "fuzz[[]'depth'[]]: no argument uses this dimension.*"),
    ('["float32"]', '["float33"]', "dtypes: *float33*"),
    ('"rows columns"', '"rows column*s"', "shapes*column*"),
    ("def twice(x):", "def twice(x, y):", "args: *y*"),
]


@pytest.mark.parametrize(("there", "fault", "message"), TASK_FAULTS, ids=[each[2] for each in TASK_FAULTS])
def test_a_fault_in_a_declaration_names_file_field_and_fix(project, there, fault, message):
    text = (project.path / "tasks/twice.py").read_text()
    assert there in text
    project.write("tasks/faulty.py", text.replace(there, fault, 1))
    result = graded_beside(project)
    result.stdout.fnmatch_lines([f"task: faulty.py: {message}"])
    result.assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise RuntimeError('sorry')", "*twice raised RuntimeError: sorry*"),
        ("return 3", "*twice returned int, not tensors*"),
        ("raise SystemExit(3)", "*twice raised SystemExit: 3*"),
    ],
)
def test_a_reference_that_fails_is_the_tasks_fault(project, body, message):
    project.candidates("right.py")
    text = (project.path / "tasks/twice.py").read_text()
    project.write("tasks/twice.py", text.replace("return x * 2", body))
    result = project.grade("-k", "correct and one and s0", "--kbench-maxfail=1")
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"task: twice cannot be graded on this case: {message}"])


CANDIDATE_FAULTS = {
    "empty.py": (b"", "no binding: it has no function named twice or forward; it has none at all"),
    "binary.py": (b"\x7fELF\0\1\2\xff", "does not load: *"),
    "binary.cpp": (b"\x7fELF\0\1\2\xff", "no binding: *"),
    "empty.cpp": (b"", "no binding: *"),
    "other_name.py": (
        b"def thrice(x):\n    return x\n",
        "no binding: it has no function named twice or forward; it has thrice",
    ),
    "syntax.py": (b"def twice(x:\n", "does not load: SyntaxError: *"),
}


@pytest.mark.parametrize("name", CANDIDATE_FAULTS)
def test_a_faulty_candidate_is_one_failing_build(project, name):
    data, message = CANDIDATE_FAULTS[name]
    (project.path / "candidates/twice").mkdir(parents=True)
    (project.path / "candidates/twice" / name).write_bytes(data)
    result = graded_beside(project)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([message, f"twice *{name} *FAILED *FAILED: *"])


def test_a_candidate_with_another_signature_fails_with_pythons_own_words(project):
    project.write("candidates/twice/two.py", "def twice(x, y):\n    return x\n")
    result = graded_beside(project, "-k", "build or (one and s0)", "--kbench-maxfail=1")
    result.stdout.fnmatch_lines(["raised: TypeError: twice() missing 1 required positional argument: 'y'"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_candidate_is_one_failing_build(project):
    project.write("candidates/twice/secret.py", "def twice(x):\n    return x\n").chmod(0)
    result = graded_beside(project)
    result.stdout.fnmatch_lines(["*secret.py*ermission*"])


def test_a_folder_without_a_task_is_one_failing_item_where_whole_folders_are_graded(project):
    project.write("candidates/twise/mine.py", "def twice(x):\n    return x * 2\n")
    result = graded_beside(project)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["candidates: *twise: there is no task twise. Rename the folder after a task file*"])
    project.run("tasks/twice.py", "--kbench", *BUILDS).assert_outcomes(passed=1)


@pytest.mark.parametrize("named", ["tasks", "tasks/twice.py"])
def test_a_file_that_calls_its_task_otherwise_is_no_task_and_that_is_told(project, named):
    project.candidates("right.py")
    file = project.path / "tasks/twice.py"
    file.write_text(file.read_text().replace("task = Task(", "doubling = Task("))
    result = project.run(named, "--kbench")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["task: *twice.py: its top level binds no `task` to a call of Task. Write *"])
    file.write_text("def twice(x):\n    return x * 2\n")  # an ordinary module of that name
    assert project.run(named, "--kbench").ret == 5


def test_an_empty_folder_is_a_task_without_candidates(project):
    (project.path / "candidates/twice").mkdir(parents=True)
    result = project.grade("-rs")
    assert result.ret == 5
    result.stdout.fnmatch_lines(["*no candidate in *candidates/twice"])


CPP = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
void twice(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, twice);
"""


def test_a_machine_without_a_compiler_says_so_and_grades_python(project, monkeypatch):
    project.write("candidates/twice/naive.cpp", CPP)
    monkeypatch.setenv("CXX", "no-such-compiler")
    result = graded_beside(project)
    result.stdout.fnmatch_lines(
        ["environment: no-such-compiler: there is no such C++ compiler on PATH. Install g++ or clang++, or *"]
    )
    result.assert_outcomes(passed=1, failed=1)


def test_a_cache_that_is_a_file_is_a_usage_error(project):
    project.candidates("right.py")
    project.write("cache", "")
    result = project.grade("--kbench-cache=cache")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --kbench-cache=cache: a folder is needed"])


def test_a_cache_that_cannot_be_made_says_so_and_grades_python(project):
    project.write("candidates/twice/naive.cpp", CPP)
    result = graded_beside(project, *BUILDS, "--kbench-cache=/proc/kbench")
    result.stdout.fnmatch_lines(["environment: /proc/kbench*"])
    result.assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["serial", "workers"])
def test_a_name_that_is_no_text_is_one_failing_item(project, workers):
    folder = project.path / "candidates/twice"
    folder.mkdir(parents=True)
    with open(os.fsencode(folder) + b"/\xff\xfe.py", "w") as file:
        file.write("def twice(x):\n    return x * 2\n")
    result = graded_beside(project, *BUILDS, *workers)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["candidate: *: its name is not UTF-8. Rename it"])


@pytest.mark.parametrize("name", ["mine.cc", "kernel.so", "folder/notes.txt"])
def test_what_looks_like_a_candidate_and_is_none_is_said(project, name):
    project.write(f"candidates/twice/{name}", "")
    result = graded_beside(project)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["candidate: *candidates/twice/*: a *folder*"])


def test_a_task_without_candidates_shows_below_the_table(project):
    project.candidates("right.py")
    project.write("tasks/thrice.py", (project.path / "tasks/twice.py").read_text())
    result = project.grade("-k", "build or candidates")
    result.stdout.fnmatch_lines(
        ["twice *right.py *ok *", "thrice: no candidate: there is no folder *candidates/thrice"]
    )


def test_a_folder_of_candidates_that_is_not_there_is_a_usage_error(project):
    project.candidates("right.py")
    result = project.grade("--kbench-candidates=nowhere")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --kbench-candidates=nowhere: there is no folder *nowhere"])


def test_an_operator_in_place_that_returns_what_it_writes_is_the_tasks_fault(project):
    project.write("candidates/inplace/mine.py", "def inplace(x):\n    x.mul_(2)\n")
    text = (
        (project.path / "tasks/twice.py")
        .read_text()
        .replace("def twice", "def inplace")
        .replace("    twice,", "    inplace,")
    )
    text = text.replace("return x * 2", "return x.mul_(2)").replace("dtypes=", 'in_place=["x"], dtypes=')
    project.write("tasks/inplace.py", text)
    result = project.grade("-k", "inplace and correct and one and s0", "--kbench-maxfail=1")
    result.stdout.fnmatch_lines(
        ["task: inplace cannot be graded on this case: *returns x, which it writes in_place; *"]
    )
