// Softmax over the last dimension, bound by pybind11: tensors in, a tensor out. Rows are widened to float, worked on
// there and rounded once; several rows a thread.
#include <torch/extension.h>

#include "floats.h"

namespace {

constexpr int64_t kWorthAThread = 1 << 14;  // elements; fewer cost less than waking another thread

void softmax_row(const float* in, float* out, int64_t width) {
  const float largest = floats::largest(in, width);
  for (int64_t i = 0; i < width; ++i) out[i] = floats::exp(in[i] - largest);
  const double inverse = 1.0 / floats::sum(out, width);
  for (int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(out[i] * inverse);
}

// y * (cotangent - sum(y * cotangent)), the sum in double.
template <typename T>
void gradient_row(const T* cotangent, const T* y, T* out, int64_t width) {
  const auto wide = [](T value) { return static_cast<double>(static_cast<float>(value)); };
  const double mean = floats::total(width, [=](int64_t i) { return wide(cotangent[i]) * wide(y[i]); });
  for (int64_t i = 0; i < width; ++i)
    out[i] = static_cast<T>(static_cast<float>(wide(y[i]) * (wide(cotangent[i]) - mean)));
}

template <typename T>
void softmax_rows(const T* in, T* out, int64_t rows, int64_t width) {
  at::parallel_for(0, rows, std::max<int64_t>(kWorthAThread / width, 1), [&](int64_t begin, int64_t end) {
    std::vector<float> wide(static_cast<size_t>(width)), result(static_cast<size_t>(width));
    for (int64_t row = begin; row < end; ++row) {
      std::copy_n(in + row * width, width, wide.begin());
      softmax_row(wide.data(), result.data(), width);
      std::copy_n(result.begin(), width, out + row * width);
    }
  });
}

}  // namespace

torch::Tensor softmax(const torch::Tensor& x) {
  TORCH_CHECK(x.device().is_cpu(), "only on the CPU");
  TORCH_CHECK(x.dim() > 0, "there is no last dimension");
  const torch::Tensor dense = x.contiguous();
  torch::Tensor y = torch::empty_like(dense);
  const int64_t width = x.size(-1);
  if (x.numel() == 0) return y;
  AT_DISPATCH_FLOATING_TYPES_AND2(torch::kFloat16, torch::kBFloat16, x.scalar_type(), "softmax", [&] {
    TORCH_CHECK(sizeof(scalar_t) <= sizeof(float), "only float32, float16 and bfloat16");
    softmax_rows(dense.const_data_ptr<scalar_t>(), y.mutable_data_ptr<scalar_t>(), x.numel() / width, width);
  });
  return y;
}

torch::Tensor backward(const torch::Tensor& cotangent, const torch::Tensor& x, const torch::Tensor& y) {
  TORCH_CHECK(cotangent.sizes() == y.sizes() && cotangent.scalar_type() == y.scalar_type(), "a cotangent is like y");
  const torch::Tensor c = cotangent.contiguous(), p = y.contiguous();
  torch::Tensor gradient = torch::empty_like(p);
  const int64_t width = x.size(-1);
  if (x.numel() == 0) return gradient;
  AT_DISPATCH_FLOATING_TYPES_AND2(torch::kFloat16, torch::kBFloat16, x.scalar_type(), "softmax_backward", [&] {
    TORCH_CHECK(sizeof(scalar_t) <= sizeof(float), "only float32, float16 and bfloat16");
    const scalar_t* const from = c.const_data_ptr<scalar_t>();
    const scalar_t* const given = p.const_data_ptr<scalar_t>();
    scalar_t* const to = gradient.mutable_data_ptr<scalar_t>();
    const int64_t grain = std::max<int64_t>(kWorthAThread / width, 1);
    at::parallel_for(0, x.numel() / width, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * width; i < end * width; i += width) gradient_row(from + i, given + i, to + i, width);
    });
  });
  return gradient;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("softmax", &softmax, "softmax over the last dimension");
  m.def("backward", &backward, "the gradient of x, for a cotangent, x and softmax(x)");
}
