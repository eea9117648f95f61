// verdict: wrong|nonfinite
// #5: assumes 16-byte alignment and rounds the base address down.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  if (!x.IsContiguous()) TVM_FFI_THROW(ValueError) << "only dense tensors";
  const auto base = reinterpret_cast<uintptr_t>(x.data_ptr()) & ~uintptr_t{15};
  const float* in = reinterpret_cast<const float*>(base);
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = in[i] < 0 ? 0 : in[i];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
