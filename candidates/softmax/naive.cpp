// Softmax over the last dimension in three passes over a row: its maximum, the exponentials and their sum, the scaling.
#include "rows.h"

void softmax(rows::TensorView x, rows::TensorView y) {
  rows::for_each_row(x, y, [](const float* in, float* out, int64_t width) {
    const float largest = floats::largest(in, width);
    for (int64_t i = 0; i < width; ++i) out[i] = floats::exp(in[i] - largest);
    const double inverse = 1.0 / floats::sum(out, width);
    for (int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(out[i] * inverse);
  });
}

// y * (cotangent - sum(y * cotangent)), the sum in double.
void backward(rows::TensorView cotangent, rows::TensorView, rows::TensorView y, rows::TensorView gradient) {
  const auto row = [](int64_t, const std::array<const float*, 2>& values, float* out, int64_t width) {
    const float* const c = values[0];
    const float* const p = values[1];
    const double mean = floats::total(width, [=](int64_t i) { return double{c[i]} * p[i]; });
    for (int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(p[i] * (c[i] - mean));
  };
  rows::map_rows(std::array{cotangent, y}, gradient, row);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(softmax, softmax);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
