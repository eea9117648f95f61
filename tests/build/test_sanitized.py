"""Builds for a sanitizer: their flags, their runtime, and what is not built at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_kbench.build import sanitized
from pytest_kbench.build.cache import Store
from pytest_kbench.build.errors import EnvironmentFault
from pytest_kbench.build.program import prepare
from pytest_kbench.options import SANITIZERS, Sanitizer
from pytest_kbench.record import Reason
from pytest_kbench.sandbox.host import Failure, Limits, Program

LIBRARIES = {"address": "libasan.so", "thread": "libtsan.so"}


@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("form", ["kernel", "torch_kernel"])
def test_a_candidate_is_compiled_and_linked_for_the_sanitizer(
    compiler, store: Store, limits: Limits, write, request, sanitizer: Sanitizer, form: str
) -> None:
    made = prepare(write(request.getfixturevalue(form)), ("op",), compiler, store, limits, 5, sanitizer)
    assert isinstance(made, Program)
    assert made.runtime == sanitized.runtime(sanitizer)
    compiling, linking = [line.split() for line in compiler.plan().splitlines() if line.startswith("  command")]
    flag = f"-fsanitize={sanitizer}"
    assert flag in compiling
    assert flag in linking
    assert {"-g", "-fno-omit-frame-pointer"} < set(compiling)
    optimised = [each for each in compiling if each.startswith("-O")]
    assert optimised[-1] == "-O1"


def test_debug_information_names_files_as_their_author_does(compiler, store: Store, limits: Limits, write) -> None:
    prepare(write(), ("op",), compiler, store, limits, 5, "address")
    mapped = f"{compiler.jobs[-1].directory.resolve()}=.", "candidate/=", "./candidate/="
    assert " ".join(f"-ffile-prefix-map={each}" for each in mapped) in compiler.plan()


def test_each_sanitizer_has_a_build_of_its_own_beside_the_plain_one(
    compiler, store: Store, limits: Limits, write
) -> None:
    candidate = write()
    paths = set()
    for sanitizer in (None, *SANITIZERS, None, *SANITIZERS):
        made = prepare(candidate, ("op",), compiler, store, limits, 5, sanitizer)
        assert isinstance(made, Program)
        paths.add(made.path)
    assert len(paths) == len(compiler.jobs) == 3


@pytest.mark.parametrize("name", ["kernel.py", "kernel.cu"])
def test_only_cpp_is_built_for_a_sanitizer(compiler, store: Store, limits: Limits, write, name: str) -> None:
    made = prepare(write("", name), ("op",), compiler, store, limits, 5, "address")
    assert made == Failure(Reason.UNSUPPORTED, f"a sanitizer judges C++, and {name} is not.")
    assert compiler.jobs == []


@pytest.mark.parametrize("symbol", [b"GOMP_parallel", b"GOMP_task", b"__kmpc_fork_call"])
def test_a_library_that_starts_openmp_threads_is_not_judged_for_races(tmp_path: Path, symbol: bytes) -> None:
    library = tmp_path / "kernel.so"
    library.write_bytes(b"\x7fELF\0memcpy\0" + symbol + b"\0")
    assert sanitized.blind("thread", library) == "ThreadSanitizer judges std::thread, and this uses OpenMP."
    assert sanitized.blind("address", library) is None


def test_a_library_that_only_asks_how_many_threads_there_are_is_judged(tmp_path: Path) -> None:
    library = tmp_path / "kernel.so"
    library.write_bytes(b"\x7fELF\0omp_get_max_threads\0")
    assert sanitized.blind("thread", library) is None


def test_openmp_is_found_before_anything_is_built_for_the_sanitizer(
    compiler, store: Store, limits: Limits, write
) -> None:
    compiler.answer = b"\0GOMP_parallel\0"
    made = prepare(write(), ("op",), compiler, store, limits, 5, "thread")
    assert isinstance(made, Failure)
    assert made.reason is Reason.UNSUPPORTED
    assert len(compiler.jobs) == 1


def test_what_does_not_compile_is_told_without_a_sanitizer(
    failing_compiler, store: Store, limits: Limits, write
) -> None:
    made = prepare(write(), ("op",), failing_compiler, store, limits, 5, "address")
    assert isinstance(made, Failure)
    assert made.reason is Reason.COMPILE
    assert "-fsanitize" not in failing_compiler.plan()


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_the_runtime_is_a_file_of_the_compilers(sanitizer: Sanitizer) -> None:
    found = sanitized.runtime(sanitizer)
    assert found.sanitizer == sanitizer
    assert found.file.is_file()
    assert found.file.name.startswith(LIBRARIES[sanitizer])


def test_a_compiler_without_the_runtime_is_named_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tmp_path / "bare-c++"
    bare.write_text(f'#!{shutil.which("sh")}\necho "${{1#-print-file-name=}}"\n')
    bare.chmod(0o755)
    monkeypatch.setenv("CXX", str(bare))
    with pytest.raises(EnvironmentFault, match=r"bare-c\+\+: this compiler has no libtsan\.so, .*=thread needs.*g\+\+"):
        sanitized.runtime("thread")
