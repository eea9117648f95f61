// verdict: wrong|nonfinite
// #21: takes the row's width for the distance between rows.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>

using tvm::ffi::TensorView;

void softmax(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  const int64_t rows = x.size(0), columns = x.size(1);
  if (columns > 1 && x.stride(1) != 1) TVM_FFI_THROW(ValueError) << "only dense rows";
  if (rows > 1 && x.stride(0) == 0) TVM_FFI_THROW(ValueError) << "no expanded rows";
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = static_cast<const float*>(x.data_ptr()) + r * columns;
    float* out = static_cast<float*>(y.data_ptr()) + r * columns;
    float top = in[0];
    for (int64_t c = 1; c < columns; ++c) top = std::fmax(top, in[c]);
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += out[c] = std::exp(in[c] - top);
    for (int64_t c = 0; c < columns; ++c) out[c] = static_cast<float>(out[c] / sum);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(softmax, softmax);
