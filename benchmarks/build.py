"""What a build in torch's form costs, against `torch.utils.cpp_extension.load` on the same source with the same flags.

    python benchmarks/build.py [--repeats 2] [--cuda [--arch 9.0]]

Arms take turns: torch's load (a new folder each time), ours for a source that was never built (with and without the
header compiled ahead), ours from the cache. Ours are `prepare` and the start of a child that has the library loaded;
torch's is `load` alone, without the import of torch. Figures are medians over repeats; a ratio is the median of ratios
within a repeat. A cold load takes half a minute and more.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kbench.sandbox.host import Sandbox

CPP = """\
#include <torch/extension.h>

torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous(), "dense only");
  torch::Tensor y = torch::empty_like(x);
  const int64_t width = x.size(-1), rows = width ? x.numel() / width : 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(torch::kFloat16, torch::kBFloat16, x.scalar_type(), "rms_norm", [&] {
    const scalar_t* in = x.const_data_ptr<scalar_t>();
    const scalar_t* w = weight.const_data_ptr<scalar_t>();
    scalar_t* out = y.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, rows, 16, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const scalar_t* from = in + row * width;
        double sum = 0;
        for (int64_t i = 0; i < width; ++i) sum += static_cast<double>(from[i]) * static_cast<double>(from[i]);
        const double scale = 1 / std::sqrt(sum / width + eps);
        for (int64_t i = 0; i < width; ++i) out[row * width + i] = static_cast<double>(from[i]) * scale * w[i];
      }
    });
  });
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
CU = """\
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

template <typename T>
__global__ void rms_norm(const T* x, const T* weight, float eps, T* y, int64_t width) {
  __shared__ float part[256];
  const T* in = x + blockIdx.x * width;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < width; i += 256) sum += float(in[i]) * float(in[i]);
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 128; half; half >>= 1) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  const float scale = rsqrtf(part[0] / width + eps);
  T* out = y + blockIdx.x * width;
  for (int64_t i = threadIdx.x; i < width; i += 256) out[i] = T(float(in[i]) * scale * float(weight[i]));
}

torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous() && weight.is_contiguous(), "dense only");
  torch::Tensor y = torch::empty_like(x);
  if (x.numel() == 0) return y;
  const int64_t width = x.size(-1);
  AT_DISPATCH_FLOATING_TYPES_AND2(torch::kFloat16, torch::kBFloat16, x.scalar_type(), "rms_norm", [&] {
    rms_norm<scalar_t><<<x.numel() / width, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.const_data_ptr<scalar_t>(), weight.const_data_ptr<scalar_t>(), static_cast<float>(eps),
        y.mutable_data_ptr<scalar_t>(), width);
  });
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
LOAD = """
import sys, time
from torch.utils.cpp_extension import load
source, folder = sys.argv[1:]
flags = ["-O3", "-march=native", "-fopenmp"]
start = time.perf_counter()
load("kernel", [source], extra_cflags=flags, extra_ldflags=["-fopenmp"], build_directory=folder,
     extra_cuda_cflags=["-O3", "--expt-extended-lambda"])
print(time.perf_counter() - start)
"""
FROM_CACHE = 20  # times that a build is taken from the cache in a repeat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=2, help="turns of all arms (default: 2)")
    parser.add_argument("--cuda", action="store_true", help="a .cu source, with nvcc; needs a torch with CUDA")
    parser.add_argument("--arch", help="compute capability to compile for (default: the first GPU's)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        from pytest_kbench.sandbox.host import Sandbox

        with Sandbox() as sandbox:
            sandbox.layers()  # the zygote starts here, and not in the first build
            arms = Arms(Path(folder), sandbox, arguments.cuda, arguments.arch)
            turns = [arms.turn(number) for number in range(arguments.repeats)]
    facts(arguments.cuda, arms)
    table(turns)


class Arms:
    """The arms, each for a source that no other has built."""

    def __init__(self, folder: Path, sandbox: Sandbox, cuda: bool, architecture: str | None) -> None:
        from pytest_kbench.build import cuda as cuda_builder

        self.folder = folder
        self.sandbox = sandbox
        self.cuda = cuda
        self.architecture = architecture
        if cuda and architecture is None:
            self.architecture = cuda_builder.device_architecture()

    def turn(self, number: int) -> dict[str, float]:
        """One time of every arm, in an order that alternates."""
        place = self.folder / str(number)
        place.mkdir()
        found = {}
        arms = {"torch": self.torch_load, "ours, never built": self.cold}
        for name, arm in arms.items() if number % 2 == 0 else reversed(arms.items()):
            found[name] = arm(place, number)
        if not self.cuda:
            found |= self.with_header(place, number)
        found["ours, built before"] = self.cached(place)
        return found

    def source(self, place: Path, arm: str, number: int) -> Path:
        """A source whose text nobody has seen."""
        path = place / f"{arm}.{'cu' if self.cuda else 'cpp'}"
        path.write_text(f"{CU if self.cuda else CPP}// {arm} {number} {time.time_ns()}\n")
        return path

    def torch_load(self, place: Path, number: int) -> float:
        source, folder = self.source(place, "torch", number), place / "torch"
        folder.mkdir()
        command = [sys.executable, "-c", LOAD, str(source), str(folder)]
        environment = {**os.environ, "PATH": f"{os.environ['PATH']}{os.pathsep}{Path(sys.executable).parent}"}
        if self.architecture is not None:
            environment["TORCH_CUDA_ARCH_LIST"] = self.architecture
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            sys.exit(f"torch.utils.cpp_extension.load failed:\n{done.stderr[-4000:]}")
        return float(done.stdout.split()[-1])

    def cold(self, place: Path, number: int) -> float:
        return timed(lambda: self.build(self.source(place, "cold", number), place / "store"))

    def with_header(self, place: Path, number: int) -> dict[str, float]:
        """The header compiled ahead, and then a source that was never built."""
        from pytest_kbench.build import cpp, precompiled, torch_form
        from pytest_kbench.build.cache import Store

        store = Store(place / "store")
        command = torch_form.precompiled_command(cpp.DEFAULT_FLAGS)

        def make() -> Path | None:
            return precompiled.obtain(command, self.sandbox, store)

        made = max(timed(make) for _ in range(precompiled.WITHOUT + 1))  # all others only count, or look
        ready = make()
        if ready is None:
            sys.exit("the header could not be compiled")
        build = timed(lambda: self.build(self.source(place, "header", number), store.root))
        size = sum(path.stat().st_size for path in ready.parent.iterdir())
        return {"header ahead, once": made, "ours, never built, header ahead": build, "header ahead, MB": size / 1e6}

    def cached(self, place: Path) -> float:
        source = place / f"cold.{'cu' if self.cuda else 'cpp'}"
        return statistics.median(timed(lambda: self.build(source, place / "store")) for _ in range(FROM_CACHE))

    def build(self, source: Path, root: Path) -> None:
        """Prepare a candidate, and start a child that has it loaded."""
        from pytest_kbench.build import cuda
        from pytest_kbench.build.cache import Store
        from pytest_kbench.build.program import prepare
        from pytest_kbench.build.sources import gather
        from pytest_kbench.candidate import Candidate
        from pytest_kbench.sandbox.host import Child, Limits, Program

        candidate, names, limits, store = Candidate.at(source), ("forward",), Limits(), Store(root)
        if self.cuda:
            sources, architecture = gather(candidate), self.architecture
            program = cuda.build(
                candidate, sources, "torch", names, self.sandbox, store, limits, 600, architecture=architecture
            )
        else:
            program = prepare(candidate, names, self.sandbox, store, limits, 600)
        if not isinstance(program, Program):
            sys.exit(f"it does not build: {program.message}\n{program.detail}")
        if program.facts:
            sys.exit(f"it was not built with the lean header: {program.facts}")
        child = self.sandbox.start(program, limits, time.monotonic() + 60)
        if not isinstance(child, Child):
            sys.exit(f"it does not load: {child.message}")
        child.close()


def facts(cuda: bool, arms: Arms) -> None:
    import torch

    from pytest_kbench.build import cpp
    from pytest_kbench.build import cuda as cuda_builder

    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    compiler = cpp.compiler().splitlines()[0]
    print(f"{model}, {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}")
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {compiler}")
    if cuda:
        print(f"{cuda_builder.nvcc_version().splitlines()[-2]}, for {arms.architecture}")


def table(turns: list[dict[str, float]]) -> None:
    goals = {"ours, never built": 0.5, "ours, never built, header ahead": 0.5, "ours, built before": 0.02}
    print(f"\n{'median of ' + str(len(turns)):<34}{'seconds':>9}{'ratio':>9}  goal")
    for name in turns[0]:
        if name.endswith("MB"):
            print(f"{name:<34}{statistics.median(turn[name] for turn in turns):>9.0f}")
            continue
        ratio = statistics.median(turn[name] / turn["torch"] for turn in turns)
        goal = f"<= {goals[name]}" if name in goals else ""
        print(f"{name:<34}{statistics.median(turn[name] for turn in turns):>9.3f}{ratio:>9.4f}  {goal}")


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
