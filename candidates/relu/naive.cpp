// max(x, 0), elementwise: NaN stays NaN, as in torch.
#include "rows.h"

void relu(rows::TensorView x, rows::TensorView y) {
  rows::for_each_row(x, y, [](const float* in, float* out, int64_t width) {
    for (int64_t i = 0; i < width; ++i) out[i] = in[i] < 0.0f ? 0.0f : in[i];
  });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
