"""What a source says of its own build."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kbench.build.cpp import DEFAULT_FLAGS, binding_of, cpu_features, flags_of, without_comments
from pytest_kbench.build.errors import BuildError
from pytest_kbench.build.sources import Source


def source(text: str) -> Source:
    return Source(Path("softmax/naive.cpp"), "candidate/naive.cpp", "naive.cpp", text.encode(), unit=True)


@pytest.mark.parametrize(
    ("text", "binding"),
    [
        ("#include <tvm/ffi/function.h>", "tvm-ffi"),
        ('# include "tvm/ffi/function.h"', "tvm-ffi"),
        ("TVM_FFI_DLL_EXPORT_TYPED_FUNC(f, f);", "tvm-ffi"),
        ("#include <torch/extension.h>", "torch"),
        ("#include <torch/library.h>", "torch"),
        ("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}", "torch"),
        ("TORCH_LIBRARY(ops, m) {}", "torch"),
        ("#include <torch/extension.h>\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(f, f);", "tvm-ffi"),
        ("#include <tvm/ffi/error.h>\nPYBIND11_MODULE(a, m) {}", "torch"),
        ("void f(float* x);", None),
        ("", None),
        ("// #include <torch/extension.h>", None),
        ("/* PYBIND11_MODULE(a, m) */", None),
        ("// a comment goes on \\\n#include <tvm/ffi/function.h>", None),
        ('const char* s = "TORCH_LIBRARY(a, m)";', None),
        ('const char* s = R"x(\n#include <torch/extension.h>\n)x";', None),
        ('const char* s = "/*"; TORCH_LIBRARY(a, m) {} // */', "torch"),
        ("const char c = '\"'; TORCH_LIBRARY(a, m) {} // \"", "torch"),
        ("const int n = 1'000'000; TORCH_LIBRARY(a, m) {}", "torch"),
        ('#include "unfinished\nTORCH_LIBRARY(a, m) {}', "torch"),
        ("/* unfinished TORCH_LIBRARY(a, m) {}", None),
    ],
)
def test_the_binding_is_told_from_code_and_not_from_comments(text, binding):
    assert binding_of(text) == binding


def test_comments_keep_their_line_breaks():
    assert without_comments("a /* 1\n2 */ b // c\nd").count("\n") == 2


@pytest.mark.parametrize(
    "flags",
    [
        "-O2",
        "-Os -g",
        "-std=c++17",
        "-march=x86-64-v3 -mtune=native",
        "-mavx2 -mno-avx512f -mfma -mprefer-vector-width=512",
        "-funroll-loops -fno-tree-vectorize",
        "-fno-math-errno -ffp-contract=off",
        "-fno-openmp",
        "-DBLOCK=64 -DFAST -DSCALE=0.5",
        "-Wall -Wno-unused-parameter",
    ],
)
def test_flags_on_the_list_come_after_the_defaults(flags):
    assert flags_of([source(f"// a kernel\n  // kbench: flags={flags}\n")]) == (*DEFAULT_FLAGS, *flags.split())


def test_the_defaults_have_no_fast_math():
    assert flags_of([source("int x;")]) == ("-O3", "-march=native", "-std=c++20", "-fopenmp")


@pytest.mark.parametrize(
    "flag",
    [
        "-ffast-math",
        "-Ofast",
        "-funsafe-math-optimizations",
        "-ffinite-math-only",
        "-fassociative-math",
        "-freciprocal-math",
        "-fno-signed-zeros",
        "-mrecip",
        "-mdaz-ftz",
        "-fplugin=evil.so",
        "-B/tmp",
        "-I/etc",
        "-include/etc/passwd",
        "-specs=evil",
        "-wrapper",
        "-Wl,-rpath,/tmp",
        "-Wa,--help",
        "-Wp,-v",
        "-o",
        "@response",
        "-DX=$(id)",
        "-DX=`id`",
        "-DX;id",
        "-DX=a|b",
        '-DX="y"',
        "-O2\\",
        "-march=native;id",
        "$out",
        "evil.o",
        "-fopenmp=evil",
        "-save-temps",
        "-fprofile-generate",
        "-fsanitize=address",
    ],
)
def test_any_other_flag_is_an_error_with_file_line_and_what_is_allowed(flag):
    with pytest.raises(BuildError) as caught:
        flags_of([source(f"// a kernel\n// kbench: flags=-O2 {flag}\n")])
    text = str(caught.value)
    assert text.startswith(f"softmax/naive.cpp:2: the flag {flag!r} is not allowed. Allowed are -O0 to -O3")
    assert "Fast math changes what is computed" in text


@pytest.mark.parametrize("line", ["// kbench: flag=-O2", "// kbench: -O2", "//kbench:flags", "// kbench:"])
def test_a_misspelt_line_is_an_error(line):
    with pytest.raises(BuildError, match=r"softmax/naive.cpp:1: nothing is known of .* Write `// kbench: flags="):
        flags_of([source(line)])


def test_cpu_features_are_those_that_native_code_depends_on(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("processor: 0\nmodel: 1\nflags: sse avx\ncpu MHz: 2000\n\nprocessor: 1\nmodel: 1\nflags: sse avx\n")
    other.write_text("processor: 0\nmodel: 1\nflags: avx sse\ncpu MHz: 3000\n")
    assert cpu_features(one) == cpu_features(other)
    other.write_text("processor: 0\nmodel: 1\nflags: avx sse avx2\n")
    cpu_features.cache_clear()
    assert cpu_features(one) != cpu_features(other)
    cpu_features.cache_clear()
