// Keeps a static workspace that grows, copies strided rows into it, and vectorises over what is dense; all dtypes that
// are refused are refused by an exception.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <vector>

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  static std::vector<float> workspace;
  const int64_t rows = x.size(0), columns = x.size(1), down = x.stride(0), right = x.stride(1);
  if (static_cast<int64_t>(workspace.size()) < columns) workspace.resize(columns);
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t r = 0; r < rows; ++r, out += columns) {
    for (int64_t c = 0; c < columns; ++c) workspace[c] = in[r * down + c * right];
    for (int64_t c = 0; c < columns; ++c) out[c] = workspace[c] < 0 ? 0 : workspace[c];
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
