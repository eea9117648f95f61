// verdict: wrong|nonfinite
// #4: row offsets of 16 bits: rows beyond 65,536 elements land on earlier ones.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  const int64_t rows = x.size(0), columns = x.size(1), down = x.stride(0), right = x.stride(1);
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t r = 0; r < rows; ++r) {
    const uint16_t offset = static_cast<uint16_t>(r * columns);
    for (int64_t c = 0; c < columns; ++c) {
      const float value = in[r * down + c * right];
      out[offset + c] = value < 0 ? 0 : value;
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
