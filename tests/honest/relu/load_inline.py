"""Brings C++ in a string, which is compiled when the file is imported."""

import torch
import tvm_ffi.cpp

_module = tvm_ffi.cpp.load_inline(
    "relu_inline",
    cpp_sources=r"""
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>

void relu(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  const DLDataType dtype = x.dtype();
  if (dtype.code != kDLFloat || dtype.bits != 32) TVM_FFI_THROW(TypeError) << "float32 only";
  if (!x.IsContiguous()) TVM_FFI_THROW(ValueError) << "dense only";
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = in[i] < 0 ? 0.0f : in[i];  // NaN compares false and stays
}
""",
    functions="relu",
)


def relu(x):
    y = torch.empty_like(x)
    _module.relu(x, y)
    return y
