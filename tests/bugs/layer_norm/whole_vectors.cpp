// verdict: wrong|nonfinite
// #1: sums vectors of four, and forgets the last one to three columns; row stride taken as the width would be #21.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <cmath>

using tvm::ffi::Optional;
using tvm::ffi::TensorView;

void layer_norm(TensorView x, Optional<TensorView> weight, Optional<TensorView> bias, double eps, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  if (!x.IsContiguous()) TVM_FFI_THROW(ValueError) << "only dense tensors";
  const int64_t rows = x.size(0), columns = x.size(1);
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = static_cast<const float*>(x.data_ptr()) + r * columns;
    float* out = static_cast<float*>(y.data_ptr()) + r * columns;
    double sum = 0, squares = 0;
    for (int64_t c = 0; c + 4 <= columns; c += 4)
      for (int64_t j = c; j < c + 4; ++j) sum += in[j];
    const double mean = sum / static_cast<double>(columns);
    for (int64_t c = 0; c < columns; ++c) squares += (in[c] - mean) * (in[c] - mean);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(columns) + eps);
    for (int64_t c = 0; c < columns; ++c) {
      double value = (in[c] - mean) * scale;
      if (weight.has_value()) value *= static_cast<const float*>((*weight).data_ptr())[c * (*weight).stride(0)];
      if (bias.has_value()) value += static_cast<const float*>((*bias).data_ptr())[c * (*bias).stride(0)];
      out[c] = static_cast<float>(value);
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(layer_norm, layer_norm);
