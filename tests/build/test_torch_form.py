"""C++ in torch's form, with a compiler that only pretends: which header, which commands, what is kept."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pytest_kbench import Settings, Task, Tensor
from pytest_kbench.build import precompiled, torch_form
from pytest_kbench.build.cache import Store
from pytest_kbench.build.program import prepare
from pytest_kbench.build.sources import Source, Sources
from pytest_kbench.checks import build as build_check
from pytest_kbench.checks.bench import Bench
from pytest_kbench.record import Reason
from pytest_kbench.sandbox.host import Failure, Program

ENTRY = ("op", "forward")
NO = Failure(Reason.COMPILE, "the compiler failed", "candidate/kernel.cpp:2:1: error: no such thing\n")


@pytest.fixture
def build(store, limits):
    def build(candidate, compiler):
        return prepare(candidate, ENTRY, compiler, store, limits, 30)

    return build


def sources(text: str) -> Sources:
    return Sources((Source(Path("op.cpp"), "candidate/op.cpp", "op.cpp", text.encode(), unit=True),), ())


def test_a_torch_kernel_is_compiled_once_with_our_header_and_kept(write, build, compiler, torch_kernel):
    program = build(write(torch_kernel), compiler)
    assert isinstance(program, Program)
    assert (program.binding, program.facts) == ("torch", ())
    assert build(write(torch_kernel), compiler) == program
    assert compiler.outputs == ["lean"]
    command = next(line for line in compiler.plan().splitlines() if "-c $in" in line)
    assert command.index(str(torch_form.LEAN)) < command.index(str(torch_form.TORCH / "include"))
    assert "-DTORCH_EXTENSION_NAME=kernel" in command


def test_a_source_that_needs_more_gets_torchs_header_and_that_is_said_and_remembered(
    write, build, compiler, torch_kernel
):
    compiler.answer, compiler.full = NO, b"a library"
    program = build(write(torch_kernel), compiler)
    assert isinstance(program, Program)
    assert program.facts == (("header", "full"),)
    assert compiler.outputs == ["lean", "full"]
    assert str(torch_form.LEAN) not in compiler.plan()
    assert build(write(torch_kernel), compiler) == program
    assert compiler.outputs == ["lean", "full"]


def test_when_both_headers_fail_the_error_is_that_of_torchs_own(write, build, compiler, torch_kernel):
    compiler.answer = Failure(Reason.COMPILE, "", "candidate/kernel.cpp:1:1: error: because of our header")
    compiler.full = NO
    result = build(write(torch_kernel), compiler)
    assert isinstance(result, Failure)
    assert result.message == "kernel.cpp:2:1: error: no such thing"


@pytest.mark.parametrize(
    "error",
    [
        "error: \u2018rectify\u2019 was not declared in this scope",
        "error: 'rectify' is not a member of 'torch'",
        "error: use of undeclared identifier 'rectify'",
        "error: no member named 'rectify' in namespace 'torch'",
        'error: identifier "rectify" is undefined',
        'error: namespace "torch" has no member "rectify"',
    ],
)
def test_a_name_that_nothing_of_torchs_has_is_not_looked_for_with_its_header(
    write, build, compiler, torch_kernel, error
):
    compiler.answer = Failure(Reason.COMPILE, "", f"candidate/kernel.cpp:2:1: {error}\nk.cpp:3:1: error: 'nn' was not")
    assert isinstance(build(write(torch_kernel), compiler), Failure)
    assert compiler.outputs == ["lean"]
    compiler.answer = Failure(Reason.COMPILE, "", compiler.answer.detail.replace("rectify", "variable_list"))
    assert isinstance(build(write(torch_kernel), compiler), Failure)
    assert compiler.outputs == ["lean", "lean", "full"]


@pytest.mark.parametrize("reason", [Reason.TIMEOUT, Reason.MEMORY])
def test_a_build_that_runs_out_of_something_is_not_tried_with_a_larger_header(
    write, build, compiler, torch_kernel, reason
):
    compiler.answer = Failure(reason, "too much")
    result = build(write(torch_kernel), compiler)
    assert isinstance(result, Failure)
    assert result.reason is reason
    assert compiler.outputs == ["lean"]


@pytest.mark.parametrize(
    ("code", "header"),
    [
        ("#include <torch/extension.h>", "lean"),
        ("#include <torch/all.h>", "lean"),
        ('m.def("f", &f, py::arg("x"), py::call_guard<py::gil_scoped_release>());', "lean"),
        ("// torch::autograd::Function", "lean"),
        ("struct F : torch::autograd::Function<F> {};", "full"),
        ("torch::nn::functional::relu(x);", "full"),
        ("torch::zeros({2}, torch::requires_grad());", "full"),
        ("#include <torch/csrc/autograd/custom_function.h>", "full"),
        ("#include <pybind11/functional.h>", "pybind"),
        ("py::dict f();", "pybind"),
        ('py::class_<Kernel>(m, "Kernel");', "pybind"),
    ],
)
def test_the_least_header_is_told_from_what_a_source_names(code, header):
    assert torch_form.header_of(sources(code)) == header


def test_a_torch_whose_border_functions_are_not_found_gets_pybind11_itself(monkeypatch):
    assert torch_form.header_of(sources("int x;")) == "lean"
    monkeypatch.setattr(torch_form, "crosses_border", lambda: False)
    assert torch_form.header_of(sources("int x;")) == "pybind"


def test_operators_that_a_source_names_are_included_and_no_others():
    code = "y = torch::softmax(x.exp(), 1); at::add_out(y, x, x); at::relu_(y); // matmul\nTORCH_LIBRARY(ns, m) {}"
    names = ("ATen/ops/add", "ATen/ops/exp", "ATen/ops/relu", "ATen/ops/softmax", "torch/library")
    assert torch_form.named(sources(code)) == "".join(f"#include <{name}.h>\n" for name in names)


@pytest.mark.parametrize(
    "macro", ["TORCH_LIBRARY(ns, m)", "TORCH_LIBRARY_FRAGMENT(ns, m)", "STABLE_TORCH_LIBRARY(a, m)"]
)
def test_operators_registered_in_any_way_bind_a_source(macro):
    assert torch_form.binds(sources(f"{macro} {{}}"))
    assert not torch_form.binds(sources(f"// {macro} {{}}"))


def test_what_only_torchs_form_depends_on_makes_another_build(write, build, compiler, torch_kernel, monkeypatch):
    first = build(write(torch_kernel), compiler)
    monkeypatch.setattr(torch_form, "headers", lambda: (b"another header",))
    assert build(write(torch_kernel), compiler).path != first.path


def kernels(write, build, compiler, torch_kernel, numbers, first_line=""):
    for number in numbers:
        result = build(write(f"{first_line}{torch_kernel}// {number}\n"), compiler)
        assert isinstance(result, Program), result


def test_our_header_is_compiled_once_when_it_pays(write, build, compiler, torch_kernel):
    kernels(write, build, compiler, torch_kernel, range(precompiled.WITHOUT))
    assert compiler.outputs == ["lean"] * precompiled.WITHOUT
    assert "-include" not in compiler.plan()
    kernels(write, build, compiler, torch_kernel, range(precompiled.WITHOUT, precompiled.WITHOUT + 2))
    assert compiler.outputs[precompiled.WITHOUT :] == ["lean.h.gch", "lean", "lean"]
    assert "-include " in compiler.plan()
    (ready,) = compiler.jobs[-1].readable
    assert (ready / "lean.h").read_bytes() == precompiled.SOURCE.read_bytes()
    assert (ready / "lean.h.gch").read_bytes() == b"a header"


def test_a_header_is_compiled_from_nothing_of_a_candidates(write, build, compiler, torch_kernel):
    kernels(write, build, compiler, torch_kernel, range(precompiled.WITHOUT + 1))
    staged = compiler.staged[compiler.outputs.index("lean.h.gch")]
    assert set(staged) == {"build.ninja", "lean.h"}
    assert staged["lean.h"] == precompiled.SOURCE.read_bytes()


def test_a_header_that_does_not_compile_is_nobodys_failure_and_not_tried_again(write, build, compiler, torch_kernel):
    compiler.headers = Failure(Reason.COMPILE, "the compiler failed")
    kernels(write, build, compiler, torch_kernel, range(precompiled.WITHOUT + 3))
    assert compiler.outputs.count("lean.h.gch") == 1
    assert "-include" not in compiler.plan()


@pytest.mark.parametrize("reason", [Reason.TIMEOUT, Reason.MEMORY])
def test_a_header_that_ran_out_of_something_has_another_turn(write, build, compiler, torch_kernel, reason):
    compiler.headers = Failure(reason, "too much")
    kernels(write, build, compiler, torch_kernel, range(precompiled.WITHOUT + 1))
    compiler.headers = None
    kernels(write, build, compiler, torch_kernel, range(100, 100 + precompiled.WITHOUT))
    assert compiler.outputs.count("lean.h.gch") == 1
    kernels(write, build, compiler, torch_kernel, [200])
    assert compiler.outputs.count("lean.h.gch") == 2
    assert "-include " in compiler.plan()


def test_compiled_headers_that_nobody_used_for_a_day_go_but_for_the_last(write, build, compiler, torch_kernel, store):
    entries = store.root / "precompiled" / "entries"
    for age, name in ((3, "older"), (2, "old"), (0, "new")):
        (entries / name).mkdir(parents=True)
        os.utime(entries / name, (time.time() - age * 86_400,) * 2)
    kernels(write, build, compiler, torch_kernel, range(precompiled.WITHOUT + 1))
    assert not (entries / "older").exists()
    assert not (entries / "old").exists()
    assert (entries / "new").exists()


def test_flags_of_a_candidates_own_go_without_a_compiled_header(write, build, compiler, torch_kernel):
    own = "// kbench: flags=-O2\n"
    kernels(write, build, compiler, torch_kernel, range(precompiled.WITHOUT + 2), own)
    assert "lean.h.gch" not in compiler.outputs


def test_an_altered_compiled_header_is_made_again(write, build, compiler, torch_kernel):
    kernels(write, build, compiler, torch_kernel, range(precompiled.WITHOUT + 1))
    (ready,) = compiler.jobs[-1].readable
    (ready / "lean.h.gch").chmod(0o600)
    (ready / "lean.h.gch").write_bytes(b"another!")
    kernels(write, build, compiler, torch_kernel, [100])
    assert (ready / "lean.h.gch").read_bytes() == b"a header"
    assert compiler.outputs.count("lean.h.gch") == 2


def test_nobody_waits_for_another_who_compiles_the_header(write, build, compiler, torch_kernel, store):
    kernels(write, build, compiler, torch_kernel, range(precompiled.WITHOUT))
    (count,) = (store.root / "precompiled" / "entries").glob("*.count")
    with Store(store.root / "precompiled").locked(count.name.removesuffix(".count")):
        kernels(write, build, compiler, torch_kernel, [100])
    assert "lean.h.gch" not in compiler.outputs


def test_the_record_of_a_build_says_that_it_took_torchs_header(write, torch_kernel, store, monkeypatch):
    candidate, task = write(torch_kernel), Task(op, args=[Tensor("x", "n")], shapes={"one": dict(n=1)})
    bench = Bench(task, candidate, Settings(), None, store)
    monkeypatch.setattr(Bench, "child", lambda bench: object())
    for facts in ((), (("header", "full"),)):
        bench._program = Program("torch", candidate.path, ENTRY, facts=facts)
        (case,) = build_check.cases(task, bench.settings)
        assert build_check.check(bench, case).facts == dict(facts)


def op(x):
    """A reference."""
    return x * 2
