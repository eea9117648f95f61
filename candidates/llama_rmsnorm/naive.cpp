// y = x / sqrt(mean(x^2) + eps) * weight over the last dimension: one pass for the mean, one for the scaling.
// Mean and scale are doubles: no square overflows, and a result is rounded once.
#include <cmath>

#include "rows.h"

void llama_rmsnorm(rows::TensorView x, rows::TensorView weight, double eps, rows::TensorView y) {
  if (weight.ndim() != 1 || x.ndim() == 0 || weight.size(0) != x.size(-1))
    TVM_FFI_THROW(ValueError) << "weight must have one element per element of a row";
  const std::vector<float> weights = rows::vector_of_floats(weight);
  rows::for_each_row(x, y, [&](const float* in, float* out, int64_t width) {
    const double scale = 1.0 / std::sqrt(floats::sum_of_squares(in, width) / static_cast<double>(width) + eps);
    for (int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(in[i] * scale * weights[i]);
  });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(llama_rmsnorm, llama_rmsnorm);
