// verdict: sanitizer
// Compares each element with its right neighbour, also the last one, which has none; the answer does not depend on it.
#include <torch/extension.h>

torch::Tensor relu(const torch::Tensor& x) {
  TORCH_CHECK(x.scalar_type() == torch::kFloat32 && x.is_contiguous(), "only dense float32");
  torch::Tensor y = torch::empty_like(x);
  const float* in = x.const_data_ptr<float>();
  float* out = y.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = in[i] == in[i + 1] ? std::max(in[i + 1], 0.0f) : std::max(in[i], 0.0f);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("relu", &relu); }
