// verdict: wrong|nonfinite
// Writes a gradient only where the input is positive, and takes fresh memory for zeros.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  const int64_t rows = x.size(0), columns = x.size(1);
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const float value = in[r * x.stride(0) + c * x.stride(1)];
      out[r * columns + c] = value < 0 ? 0 : value;
    }
}

void backward(TensorView cotangent, TensorView, TensorView y, TensorView gradient) {
  const int64_t rows = y.size(0), columns = y.size(1);
  const float* up = static_cast<const float*>(cotangent.data_ptr());
  const float* out = static_cast<const float*>(y.data_ptr());
  float* down = static_cast<float*>(gradient.data_ptr());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      if (out[r * columns + c] > 0)
        down[r * columns + c] = up[r * cotangent.stride(0) + c * cotangent.stride(1)];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
