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

double sum_of_squares(const float* x, int64_t width, double mean) {
  double lanes[floats::kLanes] = {};
  const auto add = [&](int64_t lane, float value) { lanes[lane] += (value - mean) * (value - mean); };
  int64_t i = 0;
  for (; i + floats::kLanes <= width; i += floats::kLanes)
    for (int64_t j = 0; j < floats::kLanes; ++j) add(j, x[i + j]);
  for (; i < width; ++i) add(i % floats::kLanes, x[i]);
  double total = 0;
  for (const double lane : lanes) total += lane;
  return total;
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

  std::vector<double> sums(x.numel() / width);
  rows::read_each_row(x, 0, [&](int64_t row, const float* in, float*) { sums[row] = floats::sum(in, width); });
  const std::vector<double> mean = means(sums, group, elements);
  rows::read_each_row(x, 0, [&](int64_t row, const float* in, float*) {
    sums[row] = sum_of_squares(in, width, mean[row / group]);
  });
  const std::vector<double> variance = means(sums, group, elements);

  rows::for_each_numbered_row(x, y, [&](int64_t row, const float* in, float* out, int64_t) {
    const double centre = mean[row / group], scale = 1.0 / std::sqrt(variance[row / group] + eps);
    const float* const w = weights.data() + row % group * width;
    const float* const b = biases.data() + row % group * width;
    for (int64_t i = 0; i < width; ++i) out[i] = static_cast<float>((in[i] - centre) * scale * w[i] + b[i]);
  });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(layernorm, layernorm);
