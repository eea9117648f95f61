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

TVM_FFI_DLL_EXPORT_TYPED_FUNC(softmax, softmax);
