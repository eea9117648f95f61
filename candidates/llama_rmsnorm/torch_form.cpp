// y = x / sqrt(mean(x^2) + eps) * weight over the last dimension, bound by pybind11. Dense inputs only: others are
// refused. Mean and scale are doubles: no square overflows, and a result is rounded once.
#include <torch/extension.h>

namespace {

constexpr int64_t kWorthAThread = 1 << 14;  // elements; fewer cost less than waking another thread
constexpr int64_t kLanes = 8;               // independent partial sums, so that additions need not wait for each other

template <typename T>
double sum_of_squares(const T* x, int64_t n) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) {
      const double value = static_cast<float>(x[i + j]);
      lanes[j] += value * value;
    }
  }
  for (; i < n; ++i) lanes[0] += static_cast<double>(static_cast<float>(x[i])) * static_cast<float>(x[i]);
  return std::accumulate(lanes, lanes + kLanes, 0.0);
}

template <typename T>
void rms_rows(const T* x, const T* weight, double eps, T* y, int64_t rows, int64_t width) {
  at::parallel_for(0, rows, std::max<int64_t>(kWorthAThread / width, 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* in = x + row * width;
      T* out = y + row * width;
      const double scale = 1.0 / std::sqrt(sum_of_squares(in, width) / static_cast<double>(width) + eps);
      for (int64_t i = 0; i < width; ++i) {
        const double scaled = static_cast<float>(in[i]) * scale * static_cast<float>(weight[i]);
        out[i] = static_cast<T>(static_cast<float>(scaled));
      }
    }
  });
}

}  // namespace

torch::Tensor llama_rmsnorm(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous(), "dense only");
  TORCH_CHECK(x.dim() > 0 && weight.dim() == 1 && weight.size(0) == x.size(-1), "one weight per element of a row");
  TORCH_CHECK(x.scalar_type() == weight.scalar_type(), "input and weight must have one dtype");
  TORCH_CHECK(x.scalar_type() != torch::kFloat64, "only float32, float16 and bfloat16");
  torch::Tensor y = torch::empty_like(x);
  const int64_t width = x.size(-1);
  if (x.numel() == 0) return y;
  AT_DISPATCH_FLOATING_TYPES_AND2(torch::kFloat16, torch::kBFloat16, x.scalar_type(), "llama_rmsnorm", [&] {
    rms_rows(x.const_data_ptr<scalar_t>(), weight.const_data_ptr<scalar_t>(), eps, y.mutable_data_ptr<scalar_t>(),
             x.numel() / width, width);
  });
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &llama_rmsnorm, py::arg("x"), py::arg("weight"), py::arg("eps") = 1e-6);
}
