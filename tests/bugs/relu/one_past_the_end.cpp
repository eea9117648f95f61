// verdict: out_of_bounds
// Writes one element beyond the output.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  if (!x.IsContiguous()) TVM_FFI_THROW(ValueError) << "only dense tensors";
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  const int64_t n = x.numel();
  for (int64_t i = 0; i < n; ++i) out[i] = in[i] < 0 ? 0 : in[i];
  out[n] = 0;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
