"""A compiler that only pretends, for what needs no real one; and one sandbox and one cache for what does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_kbench.build.cache import Store
from pytest_kbench.candidate import Candidate
from pytest_kbench.record import Reason
from pytest_kbench.sandbox.host import CompileJob, Failure, Limits, Sandbox

KERNEL = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void op(TensorView x, TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = 2 * in[i];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(op, op);
"""


TORCH_KERNEL = """\
#include <torch/extension.h>
torch::Tensor op(const torch::Tensor& x) { return x * 2; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("op", &op); }
"""


class PretendCompiler:
    """Stands in for a sandbox: remembers its jobs and what lay in their folders, and leaves `answer`.

    A header to compile is made whatever the answer is, unless `headers` is set.
    """

    def __init__(self, answer: bytes | Failure = b"a library") -> None:
        self.answer = answer
        self.full: bytes | Failure | None = None  # instead of `answer`, with torch's own header
        self.headers: Failure | None = None  # instead of a compiled header
        self.jobs: list[CompileJob] = []
        self.staged: list[dict[str, bytes]] = []

    def compile(self, job: CompileJob, limits: Limits, seconds: float) -> Path | Failure:
        files = (path for path in job.directory.rglob("*") if path.is_file())
        self.jobs.append(job)
        self.staged.append({path.relative_to(job.directory).as_posix(): path.read_bytes() for path in files})
        answer = self.answer
        if job.output.endswith(".gch"):
            answer = self.headers or b"a header"
        elif self.full is not None and job.directory.name == "full":
            answer = self.full
        if isinstance(answer, Failure):
            return answer
        made = job.directory / job.output
        made.write_bytes(answer)
        return made

    @property
    def outputs(self) -> list[str]:
        """What was asked for: libraries by the folder that they were made in, headers by their name."""
        return [job.directory.name if job.output == "kernel.so" else job.output for job in self.jobs]

    def plan(self, number: int = -1) -> str:
        """What ninja was told in a job."""
        return self.staged[number]["build.ninja"].decode()


@pytest.fixture(scope="session")
def kernel() -> str:
    """A kernel that doubles float32."""
    return KERNEL


@pytest.fixture(scope="session")
def torch_kernel() -> str:
    """The same in torch's form, for any dtype."""
    return TORCH_KERNEL


@pytest.fixture
def compiler() -> PretendCompiler:
    return PretendCompiler()


@pytest.fixture
def failing_compiler() -> PretendCompiler:
    return PretendCompiler(Failure(Reason.COMPILE, "the compiler failed", ""))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox()
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("cache") / "pytest-kbench")


@pytest.fixture
def write(tmp_path: Path):
    """Make a candidate of one file in `candidates/op/`."""

    def write(text: str = KERNEL, name: str = "kernel.cpp") -> Candidate:
        path = tmp_path / "candidates" / "op" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return Candidate.at(path)

    return write
