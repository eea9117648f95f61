"""`--kbench-new <name>`: a task and two candidates that pass, to be changed into one's own."""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from pathlib import Path

TASK = '''"""{name}: y = x * sigmoid(scale * x), elementwise. Say here what your operator computes."""

import torch

from pytest_kbench import Param, Task, Tensor, normal, uniform


def {name}(x, scale):
    """The reference: plain torch, easy to check by eye. Candidates are compared with it in float64."""
    return x * torch.sigmoid(scale * x)


task = Task(
    {name},
    args=[  # one declaration per argument, in the reference's order
        Tensor("x", "rows columns"),
        Param("scale", "columns", init={{"trained": normal(1.0, 0.1), "spread": uniform(-2.0, 2.0)}}),
    ],
    shapes={{  # every candidate is graded on each of these
        "odd": dict(rows=3, columns=65),
        "tall": dict(rows=1031, columns=7),
        "laptop": dict(rows=256, columns=1024),
    }},
    fuzz=dict(rows="0..2048", columns="1..4096"),  # what a candidate must be able to take
    dtypes=["float32", "float16", "bfloat16"],
    grad=["x", "scale"],
)
'''
EAGER = '''"""In plain torch. A candidate may be any Python that takes the task's arguments and returns its outputs."""

import torch


def {name}(x, scale):
    z = x.float()
    return (z * torch.sigmoid(scale.float() * z)).to(x.dtype)
'''
NAIVE = """// In C++ through tvm-ffi: the task's arguments in order, outputs last.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>
using tvm::ffi::TensorView;

void {name}(TensorView x, TensorView scale, TensorView y) {{
  // A clean refusal of a dtype or layout is shown as such; a wrong answer is a failure.
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "float32 only";
  if (!x.IsContiguous() || !scale.IsContiguous()) TVM_FFI_THROW(ValueError) << "dense only";
  const int64_t rows = x.size(0), columns = x.size(1);
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* factor = static_cast<const float*>(scale.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {{
      const float value = in[row * columns + column];
      out[row * columns + column] = value / (1 + std::exp(-factor[column] * value));
    }}
}}
TVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, {name});
"""


class StarterError(ValueError):
    """No starter files can be written; the message says why and what to do."""


def write(name: str, tasks: Path, candidates: Path, start: Path) -> Iterator[str]:
    """Write `tasks/<name>.py` and `candidates/<name>/{eager.py,naive.cpp}`; yields what to tell the user.

    Paths are shown relative to `start`. Nothing that exists is overwritten. Raises `StarterError`.
    """
    if not (name.isidentifier() and name.isascii()) or keyword.iskeyword(name) or name.startswith("_"):
        raise StarterError("it names a Python function and a file: use letters, digits and underscores")
    files = {
        tasks / f"{name}.py": TASK,
        candidates / name / "eager.py": EAGER,
        candidates / name / "naive.cpp": NAIVE,
    }
    if there := [_shown(path, start) for path in files if path.exists()]:
        raise StarterError(f"{', '.join(there)} is there already; choose another name")
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text.format(name=name))
        except OSError as error:
            raise StarterError(f"{_shown(path, start)} cannot be written ({error.strerror})") from None
        yield f"wrote {_shown(path, start)}"
    yield f"\ngrade it: pytest {_shown(tasks / f'{name}.py', start)} --kbench"


def _shown(path: Path, start: Path) -> str:
    return str(path.relative_to(start) if path.is_relative_to(start) else path)
