// y = x / sqrt(mean(x^2) + eps) * weight over the last dimension on a GPU, bound by pybind11. Inputs are made dense
// first. A block goes through a row twice: for the sum of squares, in float, and for the scaling, when the caches still
// have the row. Where it can it reads and writes 16 bytes at a time.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

namespace {

constexpr int kThreads = 256;

template <typename T, int V>
struct alignas(V * sizeof(T)) Pack {
  T values[V];
};

// The sum over a block, the same for all of its threads.
__device__ float block_sum(float sum) {
  __shared__ float of_warps[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0.0f;
  for (const float each : of_warps) total += each;
  return total;
}

template <typename T, int V>
__global__ void rms_rows(const Pack<T, V>* x, const Pack<T, V>* weight, float eps, Pack<T, V>* y, int64_t rows,
                         int64_t packs) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const Pack<T, V>* const in = x + row * packs;
    Pack<T, V>* const out = y + row * packs;
    float squares = 0.0f;
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < packs; i += kThreads) {
      const Pack<T, V> pack = in[i];
      for (int j = 0; j < V; ++j) squares += static_cast<float>(pack.values[j]) * static_cast<float>(pack.values[j]);
    }
    const float scale = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(packs * V) + eps);
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < packs; i += kThreads) {
      Pack<T, V> pack = in[i];
      const Pack<T, V> factors = weight[i];
      for (int j = 0; j < V; ++j)
        pack.values[j] =
            static_cast<T>(static_cast<float>(pack.values[j]) * scale * static_cast<float>(factors.values[j]));
      out[i] = pack;
    }
  }
}

template <typename T, int V>
void launch(const torch::Tensor& x, const torch::Tensor& weight, double eps, const torch::Tensor& y) {
  using Packs = Pack<T, V>;
  const int64_t rows = x.numel() / x.size(-1);
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(rows, std::numeric_limits<int>::max()));
  rms_rows<T, V><<<blocks, kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
      static_cast<const Packs*>(x.const_data_ptr()), static_cast<const Packs*>(weight.const_data_ptr()),
      static_cast<float>(eps), static_cast<Packs*>(y.mutable_data_ptr()), rows, x.size(-1) / V);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

bool aligned(const torch::Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16 == 0; }

}  // namespace

torch::Tensor llama_rmsnorm(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  TORCH_CHECK(x.is_cuda() && weight.device() == x.device(), "only on a GPU, and on one");
  TORCH_CHECK(x.dim() > 0 && weight.dim() == 1 && weight.size(0) == x.size(-1), "one weight per element of a row");
  TORCH_CHECK(x.scalar_type() == weight.scalar_type(), "input and weight must have one dtype");
  TORCH_CHECK(x.scalar_type() != torch::kFloat64, "only float32, float16 and bfloat16");
  const c10::cuda::CUDAGuard guard(x.device());
  const torch::Tensor dense = x.contiguous(), weights = weight.contiguous();
  torch::Tensor y = torch::empty_like(dense);
  if (x.numel() == 0) return y;
  AT_DISPATCH_FLOATING_TYPES_AND2(torch::kFloat16, torch::kBFloat16, x.scalar_type(), "llama_rmsnorm", [&] {
    constexpr int kWide = 16 / sizeof(scalar_t);
    if (aligned(dense) && aligned(weights) && x.size(-1) % kWide == 0)
      launch<scalar_t, kWide>(dense, weights, eps, y);
    else
      launch<scalar_t, 1>(dense, weights, eps, y);
  });
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("llama_rmsnorm", &llama_rmsnorm, py::arg("x"), py::arg("weight"), py::arg("eps"));
}
