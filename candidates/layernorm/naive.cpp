// Layer norm over the last dimensions, as many as weight has: y = (x - mean) / sqrt(var + eps) * weight + bias.
// Three passes over x: the mean of each sample, the mean square of what is left, the result. Rows (of the last
// dimension) are shared out among threads in each, so that one large sample keeps all of them busy. Statistics are
// doubles, added up in the order of rows, whatever the number of threads.
#include <cmath>

#include "rows.h"

namespace {

using rows::TensorView;

// Per sample, the mean of all that its `group` rows summed up to.
std::vector<double> means(const std::vector<double>& sums, int64_t group, int64_t elements) {
  std::vector<double> means(sums.size() / group);
  for (size_t row = 0; row < sums.size(); ++row) means[row / group] += sums[row];
  for (double& mean : means) mean /= static_cast<double>(elements);
  return means;
}

struct Statistics {
  std::vector<double> mean, scale;  // of each sample; the scale is 1 / sqrt(var + eps)
};

// Two passes over x, which is not empty.
Statistics statistics(const TensorView& x, int64_t group, int64_t elements, double eps) {
  const int64_t width = x.size(-1);
  std::vector<double> sums(x.numel() / width);
  rows::read_each_row(x, 0, [&](int64_t row, const float* in, float*) {
    sums[row] = floats::total(width, [in](int64_t i) { return double{in[i]}; });
  });
  std::vector<double> mean = means(sums, group, elements);
  rows::read_each_row(x, 0, [&](int64_t row, const float* in, float*) {
    const double centre = mean[row / group];
    sums[row] = floats::total(width, [&](int64_t i) { return (in[i] - centre) * (in[i] - centre); });
  });
  std::vector<double> scale = means(sums, group, elements);
  for (double& each : scale) each = 1.0 / std::sqrt(each + eps);
  return {std::move(mean), std::move(scale)};
}

void check(const TensorView& x, const TensorView& weight, const TensorView& bias) {
  const auto whole = x.shape(), over = weight.shape();
  const bool last = over.size() > 0 && over.size() <= whole.size() &&
                    std::equal(over.begin(), over.end(), whole.end() - over.size());
  const bool alike = weight.ndim() == bias.ndim() && std::equal(over.begin(), over.end(), bias.shape().begin());
  if (!last || !alike)
    TVM_FFI_THROW(ValueError) << "weight and bias must have the shape of the input's last dimensions";
}

}  // namespace

void layernorm(TensorView x, TensorView weight, TensorView bias, double eps, TensorView y) {
  check(x, weight, bias);
  const int64_t elements = weight.numel();
  if (x.numel() == 0) return;
  const std::vector<float> weights = rows::vector_of_floats(weight), biases = rows::vector_of_floats(bias);
  const int64_t width = x.size(-1), group = elements / width;  // rows of a sample

  const Statistics samples = statistics(x, group, elements, eps);
  rows::for_each_numbered_row(x, y, [&](int64_t row, const float* in, float* out, int64_t) {
    const double centre = samples.mean[row / group], scale = samples.scale[row / group];
    const float* const w = weights.data() + row % group * width;
    const float* const b = biases.data() + row % group * width;
    for (int64_t i = 0; i < width; ++i) out[i] = static_cast<float>((in[i] - centre) * scale * w[i] + b[i]);
  });
}

// With z = (x - mean) * scale and g = cotangent * weight the gradient of x is scale * (g - mean(g) - z * mean(g * z)),
// the means over a sample; those of weight and bias are the sums over samples of cotangent * z and of the cotangent.
void backward(TensorView cotangent, TensorView x, TensorView weight, TensorView bias, double eps, TensorView,
              TensorView x_gradient, TensorView weight_gradient, TensorView bias_gradient) {
  check(x, weight, bias);
  const int64_t elements = weight.numel(), width = x.size(-1), group = width ? elements / width : 1;
  const Statistics samples = x.numel() ? statistics(x, group, elements, eps) : Statistics();
  const auto normalised = [&](float value, int64_t sample) {
    return (value - samples.mean[sample]) * samples.scale[sample];
  };

  const std::vector<float> weights = rows::vector_of_floats(weight);
  const std::array tensors{cotangent, x};
  std::vector<double> sums(width ? x.numel() / width : 0), products(sums.size());
  rows::read_rows(tensors, 0, [&](int64_t row, const auto& values, float*) {
    const float* const c = values[0];
    const float* const in = values[1];
    const float* const w = weights.data() + row % group * width;
    sums[row] = floats::total(width, [&](int64_t i) { return double{c[i]} * w[i]; });
    products[row] =
        floats::total(width, [&](int64_t i) { return double{c[i]} * w[i] * normalised(in[i], row / group); });
  });
  const std::vector<double> level = means(sums, group, elements), slope = means(products, group, elements);
  rows::map_rows(tensors, x_gradient, [&](int64_t row, const auto& values, float* out, int64_t) {
    const float* const c = values[0];
    const float* const in = values[1];
    const float* const w = weights.data() + row % group * width;
    const int64_t sample = row / group;
    for (int64_t i = 0; i < width; ++i) {
      const double along = normalised(in[i], sample) * slope[sample];
      out[i] = static_cast<float>(samples.scale[sample] * (double{c[i]} * w[i] - level[sample] - along));
    }
  });

  const auto add = [&](int64_t row, const auto& values, int64_t count, double* totals) {
    for (int64_t i = 0; i < count; ++i) totals[i] += values[0][i] * normalised(values[1][i], row / group);
  };
  rows::store(rows::sum_over_samples(tensors, group, add), weight_gradient);
  rows::sum_samples(cotangent, group, bias_gradient);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(layernorm, layernorm);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
