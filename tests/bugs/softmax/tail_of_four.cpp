// verdict: wrong|nonfinite
// #1: sums vectors of four: the last one to three columns are not part of the sum.
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
    for (int64_t c = 1; c < columns; ++c) top = std::fmax(top, in[c * right]);
    for (int64_t c = 0; c < columns; ++c) out[c] = std::exp(in[c * right] - top);
    double sum = 0;
    for (int64_t c = 0; c + 4 <= columns; c += 4)
      for (int64_t j = c; j < c + 4; ++j) sum += out[j];
    for (int64_t c = 0; c < columns; ++c) out[c] = static_cast<float>(out[c] / sum);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(softmax, softmax);
