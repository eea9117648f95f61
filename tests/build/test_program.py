"""From a candidate to a program, with a compiler that only pretends."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_kbench.build import messages
from pytest_kbench.build.errors import CacheError, EnvironmentFault
from pytest_kbench.build.program import prepare
from pytest_kbench.candidate import Candidate
from pytest_kbench.record import Reason
from pytest_kbench.sandbox.host import Failure, Program

ENTRY = ("op", "forward")


@pytest.fixture
def build(store, limits):
    def build(candidate, compiler):
        return prepare(candidate, ENTRY, compiler, store, limits, 30)

    return build


def test_a_python_file_is_a_program_as_it_is(write, build, compiler):
    candidate = write("def op(x): return x\n", "plain.py")
    assert build(candidate, compiler) == Program("python", candidate.path, ENTRY)
    assert compiler.jobs == []


def test_a_package_is_a_program_as_it_is(tmp_path, build, compiler):
    package = tmp_path / "candidates" / "op" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .kernel import op\n")
    (package / "kernel.py").write_text("def op(x): return x\n")
    candidate = Candidate.at(package)
    assert build(candidate, compiler) == Program("python", package, ENTRY, candidate.include)


def test_a_cuda_source_needs_a_device(write, build, compiler):
    result = build(write(name="kernel.cu"), compiler)
    assert isinstance(result, Failure)
    assert result.reason is Reason.DEVICE
    assert "needs CUDA" in result.message


def test_a_source_without_a_binding_is_told_how_to_bind(write, build, compiler):
    result = build(write("void op(const float*, float*);\n"), compiler)
    assert isinstance(result, Failure)
    assert result.reason is Reason.BINDING
    assert "exports no function" in result.message
    assert result.detail.count("\n") == 4
    assert "TVM_FFI_DLL_EXPORT_TYPED_FUNC(op, op);" in result.detail


def test_a_source_that_only_includes_torch_is_told_how_to_bind_there(write, build, compiler):
    result = build(write("#include <torch/extension.h>\ntorch::Tensor op(torch::Tensor x) { return x; }\n"), compiler)
    assert isinstance(result, Failure)
    assert result.reason is Reason.BINDING
    assert "no PYBIND11_MODULE and no TORCH_LIBRARY was found" in result.message
    assert 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("op", &op); }' in result.detail
    assert compiler.jobs == []


def test_a_library_is_made_once_and_then_taken_from_the_cache(write, build, compiler):
    first = build(write(), compiler)
    second = build(write(), compiler)
    assert first == second
    assert first.binding == "tvm-ffi"
    assert first.path.read_bytes() == b"a library"
    assert len(compiler.jobs) == 1


def test_a_candidate_of_the_same_content_elsewhere_is_the_same_build(tmp_path, build, compiler, kernel):
    for place in ("one", "other"):
        path = tmp_path / place / "kernel.cpp"
        path.parent.mkdir()
        path.write_text(kernel)
        build(Candidate.at(path), compiler)
    assert len(compiler.jobs) == 1


def test_a_damaged_library_is_made_again(write, build, compiler):
    path = build(write(), compiler).path
    path.chmod(0o600)
    path.write_bytes(b"a libr")
    assert build(write(), compiler).path.read_bytes() == b"a library"
    assert len(compiler.jobs) == 2


@pytest.mark.parametrize("change", ["source", "own header", "shared header", "new header", "flags", "compiler", "cpu"])
def test_whatever_the_library_depends_on_makes_another_build(
    write, build, compiler, tmp_path, monkeypatch, change, kernel
):
    shared = tmp_path / "candidates" / "_include"
    shared.mkdir(parents=True)
    (shared / "shared.h").write_text("int shared;\n")
    candidate = write()
    own = candidate.path.parent / "own.h"
    own.write_text("int own;\n")
    first = build(write(), compiler)
    match change:
        case "source":
            candidate = write(kernel + "\n")
        case "own header":
            own.write_text("long own;\n")
        case "shared header":
            (shared / "shared.h").write_text("long shared;\n")
        case "new header":
            (shared / "deep").mkdir()
            (shared / "deep" / "new.h").write_text("")
        case "flags":
            candidate = write("// kbench: flags=-O1\n" + kernel)
        case "compiler":
            monkeypatch.setattr("pytest_kbench.build.cpp.compiler_version", lambda path: "another")
        case "cpu":
            monkeypatch.setattr("pytest_kbench.build.cpp.cpu_features", lambda: "another")
    second = build(candidate, compiler)
    assert first.path != second.path
    assert len(compiler.jobs) == 2


def test_the_compiler_sees_the_candidates_own_files_and_no_others(write, build, compiler, tmp_path):
    shared = tmp_path / "candidates" / "_include"
    shared.mkdir(parents=True)
    (shared / "shared.h").write_text("int shared;\n")
    candidate = write()
    write("int other;\n", "other.cpp")
    (candidate.path.parent / "own.h").write_text("int own;\n")
    (candidate.path.parent / "secret.txt").write_text("a secret\n")
    build(candidate, compiler)
    (job,), (staged,) = compiler.jobs, compiler.staged
    assert set(staged) == {"build.ninja", "candidate/kernel.cpp", "candidate/own.h", "include0/shared.h", "unit0.cpp"}
    assert staged["unit0.cpp"] == b'#include "candidate/kernel.cpp"\n'
    assert "command = c++ -fPIC -O3 -march=native -std=c++20 -fopenmp -Iinclude0 " in compiler.plan()
    assert "build unit0.cpp.o: compile.cpp unit0.cpp\n" in compiler.plan()
    assert job.readable == ()
    assert not job.directory.exists()


def test_a_folder_is_one_candidate_with_all_its_sources(tmp_path, build, compiler, kernel):
    folder = tmp_path / "candidates" / "op" / "in parts"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.cpp").write_text(kernel)
    (folder / "deep" / "b.cpp").write_text('#include "b.h"\nint b;\n')
    (folder / "deep" / "b.h").write_text("")
    build(Candidate.at(folder), compiler)
    assert set(compiler.staged[0]) >= {"candidate/a.cpp", "candidate/deep/b.cpp", "candidate/deep/b.h"}
    assert "build kernel.so: link unit0.cpp.o unit1.cpp.o\n" in compiler.plan()


def test_a_header_that_links_outside_is_refused(write, build, compiler, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    candidate = write()
    (candidate.path.parent / "stolen.h").symlink_to(secret)
    result = build(candidate, compiler)
    assert isinstance(result, Failure)
    assert result.reason is Reason.COMPILE
    assert "links to a file outside its folder" in result.message
    assert compiler.jobs == []


def test_a_header_that_is_no_file_is_refused_without_waiting_for_it(write, build, compiler):
    candidate = write()
    os.mkfifo(candidate.path.parent / "pipe.h")
    result = build(candidate, compiler)
    assert isinstance(result, Failure)
    assert "not a regular file" in result.message


def test_a_name_that_no_include_line_can_hold_is_refused(write, build, compiler):
    result = build(write(name='a"b.cpp'), compiler)
    assert isinstance(result, Failure)
    assert "Rename the file" in result.message


def test_a_forbidden_flag_fails_before_anything_is_compiled(write, build, compiler, kernel):
    result = build(write("// kbench: flags=-ffast-math\n" + kernel), compiler)
    assert isinstance(result, Failure)
    assert result.reason is Reason.COMPILE
    assert "kernel.cpp:1: the flag '-ffast-math' is not allowed" in result.message
    assert compiler.jobs == []


def test_a_missing_compiler_is_the_machines_fault(write, build, compiler, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(EnvironmentFault) as caught:
        build(write(), compiler)
    assert str(caught.value) == (
        "no-such-compiler: there is no such C++ compiler on PATH. Install g++ or clang++, or set CXX to one."
    )


@pytest.mark.parametrize(
    ("script", "message"),
    [("not a program", "cannot be run \\(exec format error\\)"), ("#!/no/such/shell\n", "cannot be run")],
)
def test_a_compiler_that_cannot_be_run_is_the_machines_fault(
    write, build, compiler, monkeypatch, tmp_path, script, message
):
    broken = tmp_path / "c++"
    broken.write_text(script)
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(EnvironmentFault, match=message):
        build(write(), compiler)


def test_a_compiler_that_hangs_is_the_machines_fault(write, build, compiler, monkeypatch):
    def hang(path):
        raise subprocess.TimeoutExpired([path], 30)

    monkeypatch.setattr("pytest_kbench.build.cpp.compiler_version", hang)
    with pytest.raises(EnvironmentFault, match="does not answer `--version` within 30 s"):
        build(write(), compiler)


def test_another_process_that_builds_for_too_long_is_the_machines_fault(write, compiler, store, limits, monkeypatch):
    @contextlib.contextmanager
    def locked(key, seconds):
        raise TimeoutError(f"another process has been building {key}")
        yield

    monkeypatch.setattr(store, "locked", locked)
    candidate = write()
    with pytest.raises(EnvironmentFault) as caught:
        prepare(candidate, ENTRY, compiler, store, limits, 2)
    what = "another process has been building the same candidate for 2 s"
    assert str(caught.value) == f"{candidate.path}: {what}. Wait for it, or end it."


def test_what_is_wrong_with_the_cache_is_said_without_keys():
    place = Path("/cache/entries") / ("0123456789" * 4)
    said = str(CacheError.of(OSError(28, "No space left on device", str(place / "kernel.so")), place))
    assert said.startswith("/cache/entries: the build cache cannot be used (no space left on device)")


OUTPUT = """\
ninja: Entering directory `/cache/building/one'
[1/2] c++ -O3 -c unit0.cpp -o unit0.cpp.o
FAILED: [code=1] unit0.cpp.o
c++ -O3 -DSAY="error: here" -c unit0.cpp -o unit0.cpp.o
In file included from unit0.cpp:1:
candidate/kernel.cpp: In function 'void op()':
candidate/kernel.cpp:7:3: error: 'rectify' was not declared in this scope
    7 |   rectify();
      |   ^~~~~~~
ninja: build stopped: subcommand failed.
"""


def test_a_compiler_error_is_shown_from_its_first_line_with_the_authors_own_names(write, build, failing_compiler):
    failing_compiler.answer = Failure(Reason.COMPILE, "RuntimeError", OUTPUT)
    result = build(write(), failing_compiler)
    assert isinstance(result, Failure)
    assert result.reason is Reason.COMPILE
    assert result.message == "kernel.cpp:7:3: error: 'rectify' was not declared in this scope"
    assert result.detail == (
        "kernel.cpp:7:3: error: 'rectify' was not declared in this scope\n    7 |   rectify();\n      |   ^~~~~~~"
    )


def test_an_error_inside_a_foreign_header_keeps_the_lines_that_lead_there(write, build, failing_compiler):
    output = (
        "/usr/include/c++/12/vector: In instantiation of 'class vector<void>':\n"
        "candidate/kernel.cpp:9:21:   required from here\n"
        "/usr/include/c++/12/vector:66:3: error: static assertion failed\n"
    )
    failing_compiler.answer = Failure(Reason.COMPILE, "RuntimeError", output)
    result = build(write(), failing_compiler)
    assert isinstance(result, Failure)
    assert "kernel.cpp:9:21:   required from here" in result.detail
    assert result.message.endswith("error: static assertion failed")


def test_a_long_compiler_output_is_bounded(write, build, failing_compiler):
    lines = [f"candidate/kernel.cpp:{n}:1: error: {'x' * 1000}" for n in range(500)]
    failing_compiler.answer = Failure(Reason.COMPILE, "RuntimeError", "\n".join(lines))
    result = build(write(), failing_compiler)
    assert isinstance(result, Failure)
    assert result.detail.count("\n") == messages.MOST_LINES
    assert result.detail.endswith("... 460 more lines")
    assert max(map(len, result.detail.split("\n"))) <= 300


def test_a_linker_error_is_an_error_too(write, build, failing_compiler):
    output = "[2/2] c++ unit0.cpp.o -o kernel.so\n/usr/bin/ld: cpp_0.o: undefined reference to `cblas_sgemm'\n"
    failing_compiler.answer = Failure(Reason.COMPILE, "RuntimeError", output)
    result = build(write(), failing_compiler)
    assert isinstance(result, Failure)
    assert "undefined reference to `cblas_sgemm'" in result.message


def test_an_assembler_error_is_an_error_too(write, build, failing_compiler):
    output = "FAILED: a\nc++ -c unit0.cpp\nunit.s: Assembler messages:\nunit.s:5: Error: file not found: secret\n"
    failing_compiler.answer = Failure(Reason.COMPILE, "RuntimeError", output)
    result = build(write(), failing_compiler)
    assert isinstance(result, Failure)
    assert result.message == result.detail == "unit.s:5: Error: file not found: secret"


def test_a_build_that_takes_too_long_says_how_long_it_had(write, build, failing_compiler):
    failing_compiler.answer = Failure(Reason.TIMEOUT, "no answer")
    result = build(write(), failing_compiler)
    assert result == Failure(Reason.TIMEOUT, "compiling took longer than 30 s.")


def test_a_build_that_fails_is_tried_again(write, build, failing_compiler, compiler):
    assert isinstance(build(write(), failing_compiler), Failure)
    assert isinstance(build(write(), compiler), Program)


def test_a_disk_that_fills_up_under_a_compiler_is_the_machines_fault(write, build, failing_compiler, monkeypatch):
    assert isinstance(build(write(), failing_compiler), Failure)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    with pytest.raises(CacheError, match=r"no space left on device.*Free some space"):
        build(write(), failing_compiler)


def test_no_ninja_is_the_machines_fault(write, build, compiler, monkeypatch, kernel, torch_kernel):
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None if name == "ninja" else which(name, path=path))
    for source in (kernel, torch_kernel):
        with pytest.raises(EnvironmentFault, match=r"ninja: it is not on PATH\. Install it: `pip install ninja`"):
            build(write(source), compiler)
