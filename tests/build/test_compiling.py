"""With the real compiler, in the real sandbox: each test here costs seconds, so they are few."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import torch

from pytest_kbench.build.program import prepare
from pytest_kbench.build.sources import gather
from pytest_kbench.candidate import Candidate
from pytest_kbench.record import Reason
from pytest_kbench.sandbox.host import Failure, OutputSpec, Program, Returned, TensorArgument, ValueArgument

ROOT = Path(__file__).parents[2]
BUILD_SECONDS = 120


def call(sandbox, limits, program: Program, *values: torch.Tensor | float) -> torch.Tensor:
    """One call of a program in a child: output of the shape and dtype of the first value."""
    arguments = [
        TensorArgument(f"a{i}", value, value.stride(), 0, (value.untyped_storage().nbytes() // value.element_size()))
        if isinstance(value, torch.Tensor)
        else ValueArgument(f"a{i}", value)
        for i, value in enumerate(values)
    ]
    child = sandbox.start(program, limits, time.monotonic() + 60)
    assert not isinstance(child, Failure), child
    with child:
        returned = child.call(arguments, [OutputSpec(values[0].dtype, tuple(values[0].shape))], seconds=30)
    assert isinstance(returned, Returned), returned
    assert not returned.overran
    assert not returned.changed
    (output,) = returned.outputs
    assert output is not None
    return output


EXPECTED = {
    "relu": lambda x: torch.relu(x),
    "softmax": lambda x: torch.softmax(x, -1),
    "llama_rmsnorm": lambda x, weight, eps: torch.nn.functional.rms_norm(x, weight.shape, weight, eps),
}


@pytest.mark.parametrize("task", EXPECTED)
@pytest.mark.parametrize("name", ["naive.cpp", "eager.py"])
def test_a_shipped_candidate_builds_and_is_right(sandbox, shared_store, limits, task, name):
    candidate = Candidate.at(ROOT / "candidates" / task / name)
    program = prepare(candidate, (task, "forward"), sandbox, shared_store, limits, BUILD_SECONDS)
    assert isinstance(program, Program), program
    extra = (torch.randn(65), 1e-3) if task == "llama_rmsnorm" else ()
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        arguments = [value.to(dtype) if isinstance(value, torch.Tensor) else value for value in extra]
        for x in (torch.randn(7, 65), torch.randn(65, 7).t(), torch.randn(7, 200)[:, 10:140:2], torch.randn(0, 65)):
            x = x.to(dtype) if x.is_contiguous() else torch.as_strided(x.to(dtype), x.shape, x.to(dtype).stride())
            wide = [value.double() if isinstance(value, torch.Tensor) else value for value in arguments]
            expected = EXPECTED[task](x.double(), *wide).to(dtype)
            torch.testing.assert_close(call(sandbox, limits, program, x, *arguments), expected)


def test_a_build_costs_seconds_once_and_almost_nothing_afterwards(sandbox, shared_store, limits):
    candidate = Candidate.at(ROOT / "candidates" / "relu" / "naive.cpp")
    assert isinstance(prepare(candidate, ("relu",), sandbox, shared_store, limits, BUILD_SECONDS), Program)
    started = time.perf_counter()
    assert isinstance(prepare(candidate, ("relu",), sandbox, shared_store, limits, BUILD_SECONDS), Program)
    assert time.perf_counter() - started < 0.2


def test_a_file_may_have_any_name(sandbox, shared_store, limits, write, kernel):
    candidate = write(kernel, "it's a; kernel $(id) & ünïcode.cpp")
    program = prepare(candidate, ("op",), sandbox, shared_store, limits, BUILD_SECONDS)
    assert isinstance(program, Program), program
    assert torch.equal(call(sandbox, limits, program, torch.ones(3)), torch.full((3,), 2.0))


def test_an_error_names_the_authors_file_and_line(sandbox, store, limits):
    candidate = Candidate.at(ROOT / "tests" / "bugs" / "relu" / "does_not_compile.cpp")
    result = prepare(candidate, ("relu",), sandbox, store, limits, BUILD_SECONDS)
    assert isinstance(result, Failure), result
    assert result.reason is Reason.COMPILE
    assert re.match(r"does_not_compile\.cpp:9:43: error: \W?rectify\W? was not declared in this scope", result.message)
    assert "rectify(x, y, i);" in result.detail
    assert str(store.root) not in result.detail


def test_a_build_cannot_read_what_is_not_its_own(sandbox, store, limits, write, kernel, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    secret.chmod(0o644)
    candidate = write(kernel + f'asm(".section .rodata\\nstolen: .incbin \\"{secret}\\"\\n");\n')
    result = prepare(candidate, ("op",), sandbox, store, limits, BUILD_SECONDS)
    assert isinstance(result, Failure)
    assert result.reason is Reason.COMPILE
    candidate = write(kernel + f'#include "{secret}"\n')
    result = prepare(candidate, ("op",), sandbox, store, limits, BUILD_SECONDS)
    assert isinstance(result, Failure)
    assert "a secret" not in result.detail


def test_a_build_has_a_deadline(sandbox, store, limits, write, kernel):
    slow = (
        "template <int n> constexpr long spin() { long s = n; for (long i = 0; i < 200'000; ++i) s += i; return s; }\n"
    )
    candidate = write(kernel + slow + "".join(f"constexpr long c{i} = spin<{i}>();\n" for i in range(300)))
    started = time.monotonic()
    result = prepare(candidate, ("op",), sandbox, store, limits, 1.5)
    assert isinstance(result, Failure)
    assert (result.reason, result.message) == (Reason.TIMEOUT, "compiling took longer than 1.5 s.")
    assert time.monotonic() - started < 4


def test_shipped_sources_bring_their_shared_headers():
    sources = gather(Candidate.at(ROOT / "candidates" / "softmax" / "naive.cpp"))
    assert {source.shown for source in sources.files} >= {"naive.cpp", "_include/floats.h", "_include/rows.h"}
    assert [source.shown for source in sources.units] == ["naive.cpp"]
