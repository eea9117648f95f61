// verdict: wrong|nonfinite|crashed
// Reads the cotangent as if its columns lay side by side: only the pitch of its rows is looked at.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>

using tvm::ffi::TensorView;

void softmax(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  const int64_t rows = x.size(0), columns = x.size(1), down = x.stride(0), right = x.stride(1);
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = static_cast<const float*>(x.data_ptr()) + r * down;
    float* out = static_cast<float*>(y.data_ptr()) + r * columns;
    float top = in[0];
    for (int64_t c = 1; c < columns; ++c)
      if (!(in[c * right] <= top)) top = in[c * right];
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += out[c] = std::exp(in[c * right] - top);
    for (int64_t c = 0; c < columns; ++c) out[c] = static_cast<float>(out[c] / sum);
  }
}

void backward(TensorView cotangent, TensorView, TensorView y, TensorView gradient) {
  const int64_t rows = y.size(0), columns = y.size(1);
  for (int64_t r = 0; r < rows; ++r) {
    const float* up = static_cast<const float*>(cotangent.data_ptr()) + r * cotangent.stride(0);
    const float* out = static_cast<const float*>(y.data_ptr()) + r * columns;
    float* down = static_cast<float*>(gradient.data_ptr()) + r * columns;
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += double{up[c]} * out[c];
    for (int64_t c = 0; c < columns; ++c) down[c] = static_cast<float>(out[c] * (up[c] - sum));
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(softmax, softmax);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
