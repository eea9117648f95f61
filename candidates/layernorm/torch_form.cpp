// Layer norm over the last dimensions, as many as weight has, bound through torch: arguments in the task's order, the
// output returned. Samples are shared out among torch's threads; sums are doubles, a result is rounded once.
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/extension.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <vector>

namespace {

// How many items of `elements` each are worth a thread: fewer cost less than waking another one.
int64_t grain(int64_t elements) { return std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, elements)); }

struct Statistics {
  double mean, scale;  // of a sample; the scale is 1 / sqrt(var + eps)
};

template <class T>
Statistics statistics(const T* x, int64_t size, double eps) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < size; ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(size);
  for (int64_t i = 0; i < size; ++i) {
    const double centred = static_cast<double>(x[i]) - mean;
    squares += centred * centred;
  }
  return {mean, 1.0 / std::sqrt(squares / static_cast<double>(size) + eps)};
}

template <class T>
void normalise(const T* x, const double* weight, const double* bias, int64_t size, double eps, T* y) {
  const auto [mean, scale] = statistics(x, size, eps);
  for (int64_t i = 0; i < size; ++i)
    y[i] = static_cast<T>((static_cast<double>(x[i]) - mean) * scale * weight[i] + bias[i]);
}

// With z = (x - mean) * scale and g = cotangent * weight: scale * (g - mean(g) - z * mean(g * z)).
template <class T>
void gradient(const T* cotangent, const T* x, const double* weight, int64_t size, Statistics sample, T* out) {
  const auto z = [=](int64_t i) { return (static_cast<double>(x[i]) - sample.mean) * sample.scale; };
  const auto g = [=](int64_t i) { return static_cast<double>(cotangent[i]) * weight[i]; };
  double level = 0, slope = 0;
  for (int64_t i = 0; i < size; ++i) {
    level += g(i);
    slope += g(i) * z(i);
  }
  level /= static_cast<double>(size);
  slope /= static_cast<double>(size);
  for (int64_t i = 0; i < size; ++i) out[i] = static_cast<T>(sample.scale * (g(i) - level - z(i) * slope));
}

void check(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  TORCH_CHECK_VALUE(weight.dim() <= x.dim() && x.sizes().slice(x.dim() - weight.dim()) == weight.sizes() &&
                        bias.sizes() == weight.sizes(),
                    "weight and bias must have the shape of the input's last dimensions");
}

}  // namespace

at::Tensor layernorm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps) {
  check(x, weight, bias);
  const at::Tensor in = x.contiguous(), w = weight.to(at::kDouble).contiguous(), b = bias.to(at::kDouble).contiguous();
  at::Tensor y = at::empty(x.sizes(), x.options());
  if (y.numel() == 0) return y;
  const int64_t size = weight.numel();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "layernorm", [&] {
    const scalar_t* const from = in.const_data_ptr<scalar_t>();
    scalar_t* const to = y.mutable_data_ptr<scalar_t>();
    const double* const weights = w.const_data_ptr<double>();
    const double* const biases = b.const_data_ptr<double>();
    at::parallel_for(0, y.numel() / size, grain(size), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        normalise(from + i * size, weights, biases, size, eps, to + i * size);
    });
  });
  return y;
}

// Samples are shared out among threads for the gradient of x, elements for those of weight and bias: the sums over
// samples of cotangent * z and of the cotangent.
std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& cotangent, const at::Tensor& x,
                                                        const at::Tensor& weight, const at::Tensor& bias, double eps,
                                                        const at::Tensor&) {
  check(x, weight, bias);
  TORCH_CHECK_VALUE(cotangent.sizes() == x.sizes(), "the cotangent must have the input's shape");
  const at::Tensor c = cotangent.contiguous(), in = x.contiguous(), w = weight.to(at::kDouble).contiguous();
  const at::TensorOptions wide = x.options().dtype(at::kDouble);
  at::Tensor x_gradient = at::empty(x.sizes(), x.options());
  at::Tensor weight_gradient = at::zeros(weight.sizes(), wide), bias_gradient = at::zeros(bias.sizes(), wide);
  const int64_t size = weight.numel(), samples = size ? x.numel() / size : 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "layernorm_backward", [&] {
    const scalar_t* const given = c.const_data_ptr<scalar_t>();
    const scalar_t* const from = in.const_data_ptr<scalar_t>();
    const double* const weights = w.const_data_ptr<double>();
    scalar_t* const to = x_gradient.mutable_data_ptr<scalar_t>();
    std::vector<Statistics> each(samples);
    const auto of_samples = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        each[i] = statistics(from + i * size, size, eps);
        gradient(given + i * size, from + i * size, weights, size, each[i], to + i * size);
      }
    };
    at::parallel_for(0, samples, grain(size), of_samples);

    double* const weight_to = weight_gradient.mutable_data_ptr<double>();
    double* const bias_to = bias_gradient.mutable_data_ptr<double>();
    const auto of_elements = [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < samples; ++i) {
        for (int64_t j = begin; j < end; ++j) {
          const double value = static_cast<double>(given[i * size + j]);
          weight_to[j] += value * ((static_cast<double>(from[i * size + j]) - each[i].mean) * each[i].scale);
          bias_to[j] += value;
        }
      }
    };
    at::parallel_for(0, size, grain(samples), of_elements);
  });
  return {x_gradient, weight_gradient.to(weight.scalar_type()), bias_gradient.to(bias.scalar_type())};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("layernorm", &layernorm);
  m.def("backward", &backward);
}
