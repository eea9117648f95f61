// Softmax over the last dimension on a GPU, bound by pybind11: a tensor in, a tensor out. Inputs are made dense first.
// A team of threads goes through a row twice, for its largest element and the sum of exponentials together, and for
// the result, and keeps what it read in shared memory (rows_gpu.h).
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

#include "rows_gpu.h"

namespace {

// The GPU of a tensor, current while this lives, with torch's stream and memory.
class Device {
 public:
  explicit Device(const torch::Tensor& tensor)
      : bytes_(tensor.options().dtype(torch::kUInt8)), guard_(tensor.device()) {}

  cudaStream_t stream() const { return c10::cuda::getCurrentCUDAStream(); }

  void* scratch(int64_t bytes) {
    scratch_.push_back(torch::empty({bytes}, bytes_));
    return scratch_.back().mutable_data_ptr();
  }

 private:
  torch::TensorOptions bytes_;
  c10::cuda::CUDAGuard guard_;
  std::vector<torch::Tensor> scratch_;
};

template <typename T, int V>
__global__ void __launch_bounds__(gpu::kThreads, 2)
    softmax_rows(const __grid_constant__ gpu::Rows<T, V, 1> rows, T* y) {
  rows.each([&](auto& row) {
    auto mine = gpu::Exponentials::none();
    row.read([&](int64_t, const float (&x)[1][V]) { mine.add(x[0]); });
    const auto all = row.reduce(mine);
    const float inverse = 1.0f / all.sum;
    row.again([&](int64_t i, const float (&x)[1][V]) {
      float out[V];
      for (int j = 0; j < V; ++j) out[j] = gpu::exponential<T>(x[0][j] - all.largest) * inverse;
      gpu::store(y, row.flat(i), out);
    });
  });
}

template <typename T, int V>
void launch(const torch::Tensor& x, const torch::Tensor& y) {
  Device device(x);
  const int64_t width = x.size(-1);
  const gpu::Source<T, V> source{static_cast<const T*>(x.const_data_ptr()), {{}, {}, true}};
  const gpu::Rows<T, V, 1> rows{{source}, x.numel() / width, width / V};
  gpu::launch_rows(device, softmax_rows<T, V>, rows, static_cast<T*>(y.mutable_data_ptr()));
}

template <typename T>
void launch(const torch::Tensor& x, const torch::Tensor& y) {
  constexpr int kWide = gpu::kVectorBytes / sizeof(T);
  const bool aligned = reinterpret_cast<uintptr_t>(x.const_data_ptr()) % gpu::kVectorBytes == 0;
  aligned && x.size(-1) % kWide == 0 ? launch<T, kWide>(x, y) : launch<T, 1>(x, y);
}

}  // namespace

torch::Tensor softmax(const torch::Tensor& x) {
  TORCH_CHECK(x.is_cuda(), "only on a GPU");
  TORCH_CHECK(x.dim() > 0, "there is no last dimension");
  const torch::Tensor dense = x.contiguous();
  torch::Tensor y = torch::empty_like(dense);
  if (x.numel() == 0) return y;
  switch (x.scalar_type()) {
    case torch::kFloat32: launch<float>(dense, y); break;
    case torch::kFloat16: launch<__half>(dense, y); break;
    case torch::kBFloat16: launch<__nv_bfloat16>(dense, y); break;
    default: TORCH_CHECK(false, "only float32, float16 and bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("softmax", &softmax, "softmax over the last dimension"); }
