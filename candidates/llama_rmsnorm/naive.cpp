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

// With r = 1 / sqrt(mean(x^2) + eps) and g = cotangent * weight the gradient of x is r * (g - x * r^2 * mean(g * x)),
// that of weight the sum over rows of cotangent * x * r. All of it in double.
void backward(rows::TensorView cotangent, rows::TensorView x, rows::TensorView weight, double eps, rows::TensorView,
              rows::TensorView x_gradient, rows::TensorView weight_gradient) {
  if (weight.ndim() != 1 || x.ndim() == 0 || weight.size(0) != x.size(-1))
    TVM_FFI_THROW(ValueError) << "weight must have one element per element of a row";
  const std::vector<float> weights = rows::vector_of_floats(weight);
  std::vector<double> scales(rows::Layout(x).count);
  const std::array tensors{cotangent, x};
  rows::map_rows(tensors, x_gradient, [&](int64_t row, const auto& values, float* out, int64_t width) {
    const float* const c = values[0];
    const float* const in = values[1];
    const double count = static_cast<double>(width);
    const double scale = 1.0 / std::sqrt(floats::sum_of_squares(in, width) / count + eps);
    const double dot = floats::total(width, [&](int64_t i) { return double{c[i]} * weights[i] * in[i]; });
    const double along = scale * scale * dot / count;
    for (int64_t i = 0; i < width; ++i)
      out[i] = static_cast<float>(scale * (double{c[i]} * weights[i] - in[i] * along));
    scales[row] = scale;
  });
  const auto add = [&](int64_t row, const auto& values, int64_t count, double* sums) {
    for (int64_t i = 0; i < count; ++i) sums[i] += double{values[0][i]} * values[1][i] * scales[row];
  };
  rows::store(rows::sum_over_samples(tensors, 1, add), weight_gradient);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(llama_rmsnorm, llama_rmsnorm);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
