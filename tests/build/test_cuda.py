"""CUDA sources: commands, and compiling without a GPU."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_kbench.build import cuda, library
from pytest_kbench.build.errors import EnvironmentFault
from pytest_kbench.build.sources import Source, Sources
from pytest_kbench.candidate import Candidate
from pytest_kbench.record import Reason
from pytest_kbench.sandbox.host import Failure, Program

TORCH = """\
#include <torch/extension.h>

template <typename T>
__global__ void twice(const T* x, T* y, int64_t n) {
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] + x[i];
}

torch::Tensor op(const torch::Tensor& x) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "dense only");
  torch::Tensor y = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(torch::kFloat16, torch::kBFloat16, x.scalar_type(), "op", [&] {
    twice<<<64, 256>>>(x.const_data_ptr<scalar_t>(), y.mutable_data_ptr<scalar_t>(), x.numel());
  });
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("op", &op); }
"""
TVM_FFI = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

__global__ void twice(const float* x, float* y, int64_t n) {
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] + x[i];
}

void op(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  twice<<<64, 256>>>(static_cast<const float*>(x.data_ptr()), static_cast<float*>(y.data_ptr()), x.numel());
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(op, op);
"""


def sources(text: str, name: str = "op.cu") -> Sources:
    return Sources((Source(Path(name), f"candidate/{name}", name, text.encode(), unit=True),), ())


@pytest.mark.parametrize(
    ("architecture", "flag"),
    [
        ("9.0", "arch=compute_90,code=sm_90"),
        ("9.0a", "arch=compute_90a,code=sm_90a"),
        ("12.0", "arch=compute_120,code=sm_120"),
    ],
)
def test_an_architecture_is_one_flag(architecture, flag):
    assert cuda.generate(architecture) == f"-gencode={flag}"


@pytest.mark.parametrize("architecture", ["", "9", "sm_90", "9.0;id", "9.0 ", "native"])
def test_no_architecture_is_an_error(architecture):
    with pytest.raises(ValueError, match="is no compute capability"):
        cuda.generate(architecture)


def test_no_nvcc_and_no_gpu_are_the_machines_fault(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EnvironmentFault, match=r"nvcc: there is no nvcc\. Install the CUDA toolkit"):
        cuda.nvcc()
    cuda.device_architecture.cache_clear()
    with pytest.raises(EnvironmentFault, match=r"Name one: architecture='9\.0'"):
        cuda.device_architecture()


@pytest.fixture
def toolkit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A toolkit that only pretends."""
    nvcc = tmp_path / "toolkit" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text("#!/bin/sh\necho release 13\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(nvcc.parents[1]))
    return nvcc


@pytest.mark.parametrize(("text", "binding"), [(TORCH, "torch"), (TVM_FFI, "tvm-ffi")])
def test_each_form_is_built_by_nvcc_once_and_kept(compiler, store, limits, write, toolkit, text, binding):
    def build(architecture: str) -> Program:
        candidate = write(text, "op.cu")
        made = cuda.build(
            candidate, sources(text), binding, ("op",), compiler, store, limits, 30, architecture=architecture
        )
        assert isinstance(made, Program), made
        return made

    program = build("9.0")
    assert program.binding == binding
    assert build("9.0") == program
    assert f"command = {toolkit} -O3 -std=c++20" in compiler.plan()
    assert "build unit0.cu.o: compile.cu unit0.cu\n" in compiler.plan()
    assert build("10.0").path != program.path
    assert len(compiler.jobs) == 2


def test_only_torchs_form_is_tried_with_torchs_header(failing_compiler, store, limits, write, toolkit):
    for text, binding, tries in ((TORCH, "torch", ["lean", "full"]), (TVM_FFI, "tvm-ffi", ["lean"])):
        failing_compiler.jobs.clear()
        candidate = write(text, "op.cu")
        made = cuda.build(
            candidate, sources(text), binding, ("op",), failing_compiler, store, limits, 30, architecture="9.0"
        )
        assert isinstance(made, Failure)
        assert failing_compiler.outputs == tries


real = pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")


@real
@pytest.mark.slow
@pytest.mark.parametrize(("text", "binding"), [(TORCH, "torch"), (TVM_FFI, "tvm-ffi")])
def test_nvcc_compiles_each_form_in_the_sandbox(sandbox, limits, tmp_path, text, binding):
    made = cuda.compile_with(
        "lean", sources(text), binding, "9.0", tmp_path / "place", sandbox, limits, 300, target="unit0.cu.o"
    )
    assert isinstance(made, Path), made
    assert b"sm_90" in made.read_bytes()


@real
@pytest.mark.slow
def test_an_error_of_nvcc_names_the_authors_line(sandbox, store, limits, write):
    text = TVM_FFI.replace("twice<<<", "thrice<<<")
    candidate: Candidate = write(text, "op.cu")
    made = cuda.build(candidate, sources(text), "tvm-ffi", ("op",), sandbox, store, limits, 300, architecture="9.0")
    assert isinstance(made, Failure)
    assert made.reason is Reason.COMPILE
    assert made.message == 'op.cu(9): error: identifier "thrice" is undefined'
    assert library.LIBRARY not in made.detail
