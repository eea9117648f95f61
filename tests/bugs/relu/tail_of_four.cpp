// verdict: wrong|nonfinite
// #1: vectors of four: the last one to three elements are never written.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  if (!x.IsContiguous()) TVM_FFI_THROW(ValueError) << "only dense tensors";
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i + 4 <= x.numel(); i += 4)
    for (int64_t j = i; j < i + 4; ++j) out[j] = in[j] < 0 ? 0 : in[j];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
