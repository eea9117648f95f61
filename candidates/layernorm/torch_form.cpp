// Layer norm over the last dimensions, as many as weight has, bound through torch: arguments in the task's order, the
// output returned. Samples are shared out among torch's threads; sums are doubles, a result is rounded once.
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/extension.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

template <class T>
void normalise(const T* x, const double* weight, const double* bias, int64_t size, double eps, T* y) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < size; ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(size);
  for (int64_t i = 0; i < size; ++i) {
    const double centred = static_cast<double>(x[i]) - mean;
    squares += centred * centred;
  }
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(size) + eps);
  for (int64_t i = 0; i < size; ++i)
    y[i] = static_cast<T>((static_cast<double>(x[i]) - mean) * scale * weight[i] + bias[i]);
}

}  // namespace

at::Tensor layernorm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps) {
  TORCH_CHECK_VALUE(weight.dim() <= x.dim() && x.sizes().slice(x.dim() - weight.dim()) == weight.sizes() &&
                        bias.sizes() == weight.sizes(),
                    "weight and bias must have the shape of the input's last dimensions");
  const at::Tensor in = x.contiguous(), w = weight.to(at::kDouble).contiguous(), b = bias.to(at::kDouble).contiguous();
  at::Tensor y = at::empty(x.sizes(), x.options());
  if (y.numel() == 0) return y;
  const int64_t size = weight.numel(), grain = std::max<int64_t>(1, (1 << 14) / size);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "layernorm", [&] {
    const scalar_t* const from = in.const_data_ptr<scalar_t>();
    scalar_t* const to = y.mutable_data_ptr<scalar_t>();
    const double* const weights = w.const_data_ptr<double>();
    const double* const biases = b.const_data_ptr<double>();
    at::parallel_for(0, y.numel() / size, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        normalise(from + i * size, weights, biases, size, eps, to + i * size);
    });
  });
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("layernorm", &layernorm); }
