"""Compilers run under the same limits, and what they leave is looked at before it is believed."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
import torch
import tvm_ffi.libinfo

from pytest_kbench.build import ninja
from pytest_kbench.build.cpp import linked
from pytest_kbench.build.tvm_ffi import libraries
from pytest_kbench.record import Reason
from pytest_kbench.sandbox import disk, host
from pytest_kbench.sandbox.host import Child, CompileJob, Failure, Limits, OutputSpec, Program, Returned, Sandbox

from .conftest import SECRET, X, argument, spec

SOURCE = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
void add_one(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  const float* from = static_cast<const float*>(x.data_ptr());
  float* to = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.size(0) * x.size(1); ++i) to[i] = from[i] + 1;
}
void nothing(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {}
void too_far(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  float* to = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i <= x.size(0) * x.size(1); ++i) to[i] = 1;
}
void refuse(tvm::ffi::TensorView x, tvm::ffi::TensorView y) { TVM_FFI_THROW(ValueError) << "only dense"; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, add_one);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(nothing, nothing);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(too_far, too_far);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(refuse, refuse);
"""


def job(folder: Path, source: str, *flags: str) -> CompileJob:
    directory = folder / "build"
    directory.mkdir()
    (directory / "kernel.cpp").write_text(source)
    include = (f"-I{tvm_ffi.libinfo.find_include_path()}", f"-I{tvm_ffi.libinfo.find_dlpack_include_path()}")
    compiler = ("c++", "-fPIC", "-std=c++20", "-O1", *include, *flags)
    tools = ninja.Tools({".cpp": compiler}, ("c++", "-shared"), (*libraries(), *linked(flags)))
    (directory / ninja.FILE).write_text(ninja.plan(tools, ["kernel.cpp"], "kernel.so"))
    return CompileJob("kernel.so", directory)


@pytest.fixture(scope="module")
def library(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = sandbox.compile(job(tmp_path_factory.mktemp("library"), SOURCE), Limits(), 100)
    assert isinstance(built, Path), built
    return built


def load(sandbox: Sandbox, library: Path, *entry_points: str) -> Child:
    child = sandbox.start(Program("tvm-ffi", library, entry_points), Limits(), time.monotonic() + 20)
    assert isinstance(child, Child), child
    return child


def test_a_library_is_built_loaded_and_called(sandbox: Sandbox, library: Path) -> None:
    assert library.stat().st_uid == os.geteuid()
    with load(sandbox, library, "not_there", "add_one") as child:
        assert child.entry_point == "add_one"
        returned = child.call([argument(X)], [spec(X)], seconds=5)
        assert isinstance(returned, Returned)
        assert torch.equal(returned.outputs[0], X + 1)  # type: ignore[arg-type]
        assert returned.claims[0].shape == (3, 4)
        again = child.reread(0, seconds=5)
        assert isinstance(again, tuple)
        assert torch.equal(again[0], X + 1)  # type: ignore[arg-type]


def test_outputs_start_poisoned(sandbox: Sandbox, library: Path) -> None:
    with load(sandbox, library, "nothing") as child:
        for dtype in (torch.float16, torch.bfloat16, torch.float64):
            returned = child.call([argument(X)], [OutputSpec(dtype, (3, 4))], seconds=5)
            assert isinstance(returned, Returned)
            assert returned.outputs[0] is not None
            assert returned.outputs[0].isnan().all()
        noise = [child.call([argument(X)], [OutputSpec(torch.int32, (3, 4))], seconds=5) for _ in range(2)]
        first, second = (each.outputs[0] for each in noise if isinstance(each, Returned))
        assert first is not None
        assert second is not None
        assert not torch.equal(first, second)


def test_writing_past_an_output_is_seen(sandbox: Sandbox, library: Path) -> None:
    with load(sandbox, library, "too_far") as child:
        returned = child.call([argument(X)], [spec(X)], seconds=5)
        assert isinstance(returned, Returned)
        assert returned.overran == ("output 0",)


def test_an_exception_from_c_plus_plus_has_its_type(sandbox: Sandbox, library: Path) -> None:
    with load(sandbox, library, "refuse") as child:
        failure = child.call([argument(X)], [spec(X)], seconds=5)
        assert isinstance(failure, Failure)
        assert (failure.reason, failure.message) == (Reason.RAISED, "ValueError: only dense")


def test_a_library_without_the_entry_point_is_no_binding(sandbox: Sandbox, library: Path) -> None:
    failure = sandbox.start(Program("tvm-ffi", library, ("other",)), Limits(), time.monotonic() + 20)
    assert isinstance(failure, Failure)
    assert failure.reason is Reason.BINDING


def test_no_library_at_all_fails_to_load(sandbox: Sandbox, tmp_path: Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"\x7fELF no")
    failure = sandbox.start(Program("tvm-ffi", broken, ("f",)), Limits(), time.monotonic() + 20)
    assert isinstance(failure, Failure)
    assert failure.reason is Reason.LOAD


OPENMP = """
#include <omp.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <cstdio>
#include <cstring>
void count(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  int64_t* out = static_cast<int64_t*>(y.data_ptr());
  out[0] = 0;
#pragma omp parallel num_threads(2)
  if (omp_get_thread_num() == 0) out[0] = omp_get_num_threads();
  char line[4096], seen[8][4096];
  out[1] = 0;
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  while (std::fgets(line, sizeof line, maps)) {
    const char* path = std::strstr(line, "/");
    if (!path || !std::strstr(path, "libgomp")) continue;
    int at = 0;
    while (at < out[1] && std::strcmp(seen[at], path)) ++at;
    if (at == out[1] && at < 8) std::strcpy(seen[out[1]++], path);
  }
  std::fclose(maps);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(count, count);
"""


def test_openmp_is_linked_and_there_is_one_of_it(sandbox: Sandbox, tmp_path: Path) -> None:
    library = sandbox.compile(job(tmp_path, OPENMP, "-fopenmp"), Limits(), 100)
    assert isinstance(library, Path), library
    assert b"libgomp.so" in library.read_bytes()
    with load(sandbox, library, "count") as child:
        returned = child.call([argument(X)], [OutputSpec(torch.int64, (2,))], seconds=5)
        assert isinstance(returned, Returned)
        assert returned.outputs[0] is not None
        assert returned.outputs[0].tolist() == [2, 1]


def test_a_tree_that_is_too_deep_to_be_named_is_passed_over(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1000):
        os.mkdir("deeper", dir_fd=here)
        below = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    try:
        host._take_over(tmp_path)
        assert disk.folder_size(tmp_path) >= 0
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "deeper")], check=True)


def test_a_compiler_error_is_shown(sandbox: Sandbox, tmp_path: Path) -> None:
    failure = sandbox.compile(job(tmp_path, "int main( {"), Limits(), 100)
    assert isinstance(failure, Failure)
    assert failure.reason is Reason.COMPILE
    assert "error:" in failure.detail
    assert "kernel.cpp" in failure.detail


def test_a_source_cannot_include_what_the_sandbox_hides(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text(f"#error {SECRET}\n")
    failure = sandbox.compile(job(tmp_path, f'#include "{secret}"\n'), Limits(), 100)
    assert isinstance(failure, Failure)
    assert failure.reason is Reason.COMPILE
    assert SECRET not in failure.detail
    assert "Permission denied" in failure.detail


def test_an_include_folder_is_readable(sandbox: Sandbox, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "common.h").write_text("#error found it\n")
    asked = job(tmp_path, "#include <common.h>\n", f"-I{shared}")
    failure = sandbox.compile(CompileJob(asked.output, asked.directory, (shared,)), Limits(), 100)
    assert isinstance(failure, Failure)
    assert "found it" in failure.detail


def test_a_build_has_a_deadline(sandbox: Sandbox, tmp_path: Path) -> None:
    begun = time.monotonic()
    failure = sandbox.compile(job(tmp_path, SOURCE), Limits(), 0.3)
    assert isinstance(failure, Failure)
    assert failure.reason is Reason.TIMEOUT
    assert time.monotonic() - begun < 1


def test_a_build_may_not_fill_the_disk(sandbox: Sandbox, tmp_path: Path) -> None:
    source = 'asm(".data\\n.fill 500000000,1,7\\n");\n'
    failure = sandbox.compile(job(tmp_path, source), Limits(build_bytes=16 << 20), 100)
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.message) == (Reason.MEMORY, "wrote more than 16 MiB to disk")


def test_a_library_without_the_entry_point_is_told_what_it_exports_and_how(sandbox: Sandbox, library: Path) -> None:
    failure = sandbox.start(Program("tvm-ffi", library, ("relu", "forward")), Limits(), time.monotonic() + 20)
    assert isinstance(failure, Failure)
    assert failure.reason is Reason.BINDING
    assert failure.message == (
        "it has no function named relu or forward; it has add_one, nothing, refuse, too_far; "
        "export one with TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);"
    )


def test_an_artefact_must_be_a_file_in_its_directory(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "good.so").write_text("")
    (inside / "link.so").symlink_to("/etc/passwd")
    (inside / "folder.so").mkdir()
    (tmp_path / "outside.so").write_text("")
    assert host._artefact(inside / "good.so", inside) == inside / "good.so"
    for bad in ("inside/link.so", "inside/folder.so", "inside/none.so", "outside.so", "inside/../outside.so"):
        assert isinstance(host._artefact(tmp_path / bad, inside), Failure)
    for bad in ("good.so", "/x\0y", "", "/" * 5000):
        assert isinstance(host._artefact(Path(bad), inside), Failure)
