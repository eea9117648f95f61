// verdict: out_of_bounds
// E21: writes far beyond its output, hoping that a comparison's counters lie there.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cstring>

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  if (!x.IsContiguous()) TVM_FFI_THROW(ValueError) << "only dense tensors";
  char* out = static_cast<char*>(y.data_ptr());
  std::memset(out - 2048, 0, 2048);
  std::memset(out, 0, x.numel() * sizeof(float) + 2048);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
