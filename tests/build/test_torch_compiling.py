"""C++ in torch's form with the real compiler, in the real sandbox, and called in a child."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pytest_kbench.build import precompiled
from pytest_kbench.build.program import prepare
from pytest_kbench.candidate import Candidate
from pytest_kbench.record import Reason
from pytest_kbench.sandbox.host import Child, Failure, OutputSpec, Program, Returned, TensorArgument, ValueArgument

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BUILD_SECONDS = 300


def build(sandbox, store, limits, path: Path, *entry_points: str) -> Program:
    program = prepare(Candidate.at(path), entry_points, sandbox, store, limits, BUILD_SECONDS)
    assert isinstance(program, Program), program
    return program


def child_of(sandbox, limits, program: Program) -> Child:
    child = sandbox.start(program, limits, time.monotonic() + 60)
    assert isinstance(child, Child), child
    return child


def argument(name: str, value: object) -> TensorArgument | ValueArgument:
    if not isinstance(value, torch.Tensor):
        return ValueArgument(name, value)
    return TensorArgument(name, value, value.stride(), 0, value.untyped_storage().nbytes() // value.element_size())


def call(child: Child, *values: object, like: torch.Tensor) -> torch.Tensor | Failure:
    arguments = [argument(f"a{index}", value) for index, value in enumerate(values)]
    returned = child.call(arguments, [OutputSpec(like.dtype, tuple(like.shape))], seconds=30)
    if isinstance(returned, Failure):
        return returned
    assert isinstance(returned, Returned)
    assert not returned.overran
    assert not returned.changed
    (output,) = returned.outputs
    assert output is not None, returned.claims
    return output


SHIPPED = {
    "softmax/torch_form.cpp": lambda x: torch.softmax(x, -1),
    "relu/torch_library.cpp": lambda x: torch.relu(x),
    "llama_rmsnorm/torch_form.cpp": lambda x, weight, eps: torch.nn.functional.rms_norm(x, weight.shape, weight, eps),
}


@pytest.mark.parametrize("place", SHIPPED)
def test_a_shipped_candidate_in_torchs_form_is_right(sandbox, shared_store, limits, place):
    task = place.partition("/")[0]
    program = build(sandbox, shared_store, limits, ROOT / "candidates" / place, task, "forward")
    assert (program.binding, program.facts) == ("torch", ())
    with child_of(sandbox, limits, program) as child:
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            extra = (torch.randn(65).to(dtype), 1e-3) if task == "llama_rmsnorm" else ()
            for x in (torch.randn(7, 65), torch.randn(65, 7).t(), torch.randn(0, 65)):
                given = x.to(dtype)
                wide = [value.double() if isinstance(value, torch.Tensor) else value for value in extra]
                found = call(child, given, *extra, like=given)
                if task == "llama_rmsnorm" and not given.is_contiguous():
                    assert isinstance(found, Failure)
                    assert (found.reason, found.message) == (Reason.RAISED, "RuntimeError: dense only")
                else:
                    torch.testing.assert_close(found, SHIPPED[place](given.double(), *wide).to(dtype))


MAIN = """\
#include <torch/extension.h>

#include "scale.h"

torch::Tensor scaled(torch::Tensor x, const std::optional<torch::Tensor>& bias, double factor, int64_t power, bool on) {
  torch::Tensor y = scale(x, factor).pow(power);
  if (bias) y.add_(*bias);
  return on ? y : x.clone();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "two units";
  m.def("scaled", &scaled, py::arg("x"), py::arg("bias") = py::none(), py::arg("factor") = 2.0, py::arg("power") = 1,
        py::arg("on") = true);
  m.def("pieces", [](std::vector<torch::Tensor> x) { return std::make_tuple(x[0], x.size()); });
}
"""
SCALE_HEADER = "#pragma once\n#include <torch/types.h>\ntorch::Tensor scale(const torch::Tensor& x, double factor);\n"
SCALE = """\
#include "scale.h"
torch::Tensor scale(const torch::Tensor& x, double factor) {
  TORCH_CHECK_VALUE(x.dim() < 3, "at most two dimensions");
  return torch::mul(x, factor);
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A candidate of two units and a header."""
    place = tmp_path_factory.mktemp("candidates") / "op" / "in parts"
    (place / "deep").mkdir(parents=True)
    (place / "main.cpp").write_text(MAIN)
    (place / "scale.h").write_text(SCALE_HEADER)
    (place / "deep" / "scale.cpp").write_text('#include "../scale.h"\n' + SCALE.partition("\n")[2])
    return place


def test_a_folder_is_one_library_and_a_killed_builder_leaves_nothing_in_the_way(sandbox, shared_store, limits, folder):
    program = f"""
import sys
from pathlib import Path
from pytest_kbench.build.cache import Store
from pytest_kbench.build.program import prepare
from pytest_kbench.candidate import Candidate
from pytest_kbench.sandbox.host import Limits, Sandbox
store = Store(Path({str(shared_store.root)!r}))
prepare(Candidate.at(Path({str(folder)!r})), ("scaled",), Sandbox(), store, Limits(), 300)
"""
    builder = subprocess.Popen([sys.executable, "-c", program])
    places = shared_store.root / "building"
    end = time.monotonic() + 60
    while not list(places.glob("*/lean/unit1.cpp")) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5)
    builder.send_signal(signal.SIGKILL)
    assert builder.wait() == -signal.SIGKILL
    assert build(sandbox, shared_store, limits, folder, "scaled").facts == ()


def test_numbers_and_absent_arguments_arrive_as_python_gives_them(sandbox, shared_store, limits, folder):
    x = torch.randn(3, 4)
    with child_of(sandbox, limits, build(sandbox, shared_store, limits, folder, "scaled")) as child:
        assert torch.equal(call(child, x, None, 2.0, 2, True, like=x), (x * 2.0).pow(2))
        assert torch.equal(call(child, x, x, 3, 1, like=x), x * 3 + x)
        assert torch.equal(call(child, x, None, 2.0, 2, False, like=x), x)
        assert torch.equal(call(child, x, like=x), x * 2.0)
        wrong = {
            ("no tensor",): "TypeError: scaled(): argument 1 (x) must be torch.Tensor, not str",
            (x, None, "2"): "TypeError: scaled(): argument 3 (factor) must be float, not str",
            (x, None, 2.0, 1.5): "TypeError: scaled(): argument 4 (power) must be int, not float",
            (x, x, 1, 1, True, 1): "TypeError: scaled(): it takes 5 arguments, 6 were given",
            (x, 1.0): "TypeError: scaled(): argument 2 (bias) must be torch.Tensor or None, not float",
            (): "TypeError: scaled(): argument 1 (x) is missing",
            (x.reshape(3, 2, 2),): "ValueError: at most two dimensions",
        }
        for values, message in wrong.items():
            failure = call(child, *values, like=x)
            assert isinstance(failure, Failure)
            assert (failure.reason, failure.message) == (Reason.RAISED, message)


def test_a_library_without_the_entry_point_is_told_what_it_has_and_how_to_add_one(
    sandbox, shared_store, limits, folder
):
    operators = ROOT / "candidates" / "relu" / "torch_library.cpp"
    for path, has in ((folder, "pieces, scaled"), (operators, "relu")):
        build(sandbox, shared_store, limits, path, "scaled")
        program = build(sandbox, shared_store, limits, path, "other", "forward")
        failure = sandbox.start(program, limits, time.monotonic() + 60)
        assert isinstance(failure, Failure)
        assert failure.reason is Reason.BINDING
        assert failure.message == (
            f"it has no function named other or forward; it has {has}; "
            'export one with m.def("other", &other); in its PYBIND11_MODULE or TORCH_LIBRARY'
        )


ASSORTED = """\
#include <omp.h>
#include <torch/extension.h>

#define CHECK_INPUT(x) TORCH_CHECK((x).is_contiguous(), #x " must be contiguous")
using namespace torch::indexing;

std::vector<torch::Tensor> parts(torch::Tensor x, c10::optional<torch::Tensor> bias, torch::IntArrayRef dims,
                                 at::Scalar factor, std::string mode) {
  CHECK_INPUT(x);
  torch::NoGradGuard guard;
  const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(x.device());
  torch::Tensor a = torch::zeros({x.size(0), x.size(1)}, options);
  const auto in = x.accessor<float, 2>();
  auto out = a.accessor<float, 2>();
#pragma omp parallel for
  for (int64_t i = 0; i < x.size(0); ++i)
    for (int64_t j = 0; j < x.size(1); ++j) out[i][j] = std::max(0.0f, in[i][j]);
  if (bias.has_value()) a.add_(bias.value());
  const auto b = torch::cat({x, x}, 0).sum(dims, true) + torch::full({1}, 1.5, options) * 2 - 1.0;
  const auto c = torch::softmax(x, -1, torch::kFloat32).index({Slice(0, 1), "..."});
  const auto d = torch::matmul(x, x.transpose(0, 1)).to(torch::kHalf);
  const auto e = at::where(x > 0, x, torch::zeros_like(x)).mul(factor);
  const auto f = torch::from_blob(a.data_ptr<float>(), {2}, options).clone();
  auto [values, indices] = torch::max(x, 1);
  std::cout << mode << x.sizes() << e[0] << torch::arange(0, 3, torch::kLong) << std::endl;
  return {a, b, c, d, e, f, values, indices};
}

std::tuple<torch::Tensor, int64_t, bool> described(const at::Tensor& x) { return {x, x.dim(), true}; }

torch::Tensor op(torch::Tensor x) {
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "op", [&] {
    at::acc_type<scalar_t, false> largest = 0;
    for (int64_t i : c10::irange(x.numel())) largest = std::max<at::acc_type<scalar_t, false>>(largest, i);
  });
  return parts(x, c10::nullopt, {1}, 2, "sum")[0];
}

TORCH_LIBRARY(assorted, m) { m.def("registered", &op); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("parts", &parts, "parts of it", py::arg("x"), py::arg("bias") = py::none(), py::arg("dims"), py::arg("factor"),
        py::arg("mode") = "sum");
  m.def("op", &op, "op (CPU)");
  m.def("described", &described, py::call_guard<py::gil_scoped_release>());
  m.def("in_place", [](at::Tensor& x) { x.zero_(); });
}
"""


def test_what_kernels_commonly_use_is_in_the_lean_header(sandbox, store, limits, write):
    program = build(sandbox, store, limits, write(ASSORTED).path, "op")
    assert program.facts == ()
    x = torch.randn(3, 4)
    for name in ("op", "registered"):
        with child_of(sandbox, limits, replace(program, entry_points=(name,))) as child:
            assert torch.equal(call(child, x, like=x), torch.relu(x))


AUTOGRAD = """\
#include <torch/extension.h>
using Variables = torch::autograd::variable_list;
struct Twice : torch::autograd::Function<Twice> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, torch::Tensor x) { return x * 2; }
  static Variables backward(torch::autograd::AutogradContext*, Variables d) { return {d[0] * 2}; }
};
torch::Tensor op(torch::Tensor x) { return Twice::apply(x); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("op", &op); }
"""


def test_a_source_with_autograd_gets_torchs_own_header_and_it_is_said(sandbox, shared_store, limits, write):
    path = write(AUTOGRAD).path
    program = build(sandbox, shared_store, limits, path, "op")
    assert program.facts == (("header", "full"),)
    x = torch.randn(5)
    with child_of(sandbox, limits, program) as child:
        assert torch.equal(call(child, x, like=x), x * 2)


def test_a_source_with_more_of_pybind11_gets_all_of_it(sandbox, shared_store, limits, write):
    source = """\
#include <torch/extension.h>
struct Doubler {
  torch::Tensor run(torch::Tensor x) const { return torch::add(x, x); }
};
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  py::class_<Doubler>(m, "Doubler").def(py::init<>());
  m.def("op", [](py::object x) { return Doubler().run(x.cast<torch::Tensor>()); });
}
"""
    program = build(sandbox, shared_store, limits, write(source).path, "op")
    assert program.facts == ()
    x = torch.randn(5)
    with child_of(sandbox, limits, program) as child:
        assert torch.equal(call(child, x, like=x), x * 2)


def test_the_compiled_header_is_used_and_a_compile_error_names_the_authors_line(
    sandbox, store, limits, write, monkeypatch, torch_kernel
):
    monkeypatch.setattr(precompiled, "WITHOUT", 0)
    jobs = []
    compile_job = sandbox.compile

    def spy(job, limits, seconds):
        started = time.perf_counter()
        made = compile_job(job, limits, seconds)
        jobs.append((job.output, (job.directory / "build.ninja").read_text(), time.perf_counter() - started))
        return made

    monkeypatch.setattr(sandbox, "compile", spy)
    build(sandbox, store, limits, write(torch_kernel).path, "op")
    assert [output for output, _, _ in jobs] == ["lean.h.gch", "kernel.so"]
    assert "-include " in jobs[1][1]
    assert jobs[1][2] < jobs[0][2]
    broken = write(torch_kernel.replace("x * 2", "rectify(x, 2)"), "broken.cpp")
    result = prepare(broken, ("op",), sandbox, store, limits, BUILD_SECONDS)
    assert isinstance(result, Failure)
    assert result.message.startswith("broken.cpp:2:51: error: ")
    assert "rectify" in result.message
    assert os.fspath(store.root) not in result.detail
    assert [output for output, _, _ in jobs[2:]] == ["kernel.so"]
