// Welford's mean and variance, one element after the other; dense float32 with the affine part or without.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <cmath>

using tvm::ffi::Optional;
using tvm::ffi::TensorView;

void layer_norm(TensorView x, Optional<TensorView> weight, Optional<TensorView> bias, double eps, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  const int64_t rows = x.size(0), columns = x.size(1), down = x.stride(0), right = x.stride(1);
  const auto at = [](const Optional<TensorView>& tensor, int64_t c, float absent) {
    return tensor.has_value() ? static_cast<const float*>((*tensor).data_ptr())[c * (*tensor).stride(0)] : absent;
  };
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = static_cast<const float*>(x.data_ptr()) + r * down;
    float* out = static_cast<float*>(y.data_ptr()) + r * columns;
    float mean = 0, squares = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const float value = in[c * right], before = value - mean;
      mean += before / static_cast<float>(c + 1);
      squares += before * (value - mean);
    }
    const float scale = 1 / std::sqrt(squares / static_cast<float>(columns) + static_cast<float>(eps));
    for (int64_t c = 0; c < columns; ++c)
      out[c] = (in[c * right] - mean) * scale * at(weight, c, 1) + at(bias, c, 0);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(layer_norm, layer_norm);
