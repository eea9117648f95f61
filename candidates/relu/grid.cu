// y = max(x, 0) on a GPU, elementwise; NaN stays NaN. Each thread asks for a batch of 16-byte vectors before it uses the
// first, and neighbours read neighbouring vectors. Tensors that are not dense are read element by element.
#include "tensors_gpu.h"

namespace {

constexpr int kThreads = 256;

struct Relu {
  __device__ float operator()(const float (&x)[1]) const { return x[0] < 0.0f ? 0.0f : x[0]; }
};

// What a ReLU that gave y lets through of its cotangent.
struct Passed {
  __device__ float operator()(const float (&given)[2]) const { return given[1] <= 0.0f ? 0.0f : given[0]; }
};

template <class T, int V, int N>
struct Inputs {
  gpu::Source<T, V> from[N];
};

template <class F, class T, int V, int N>
__global__ void map(F f, Inputs<T, V, N> inputs, T* to, int64_t vectors) {
  const int64_t first = int64_t{blockIdx.x} * kThreads * gpu::kBatch + threadIdx.x;
  gpu::Vector<T, V> held[gpu::kBatch][N];
#pragma unroll
  for (int b = 0; b < gpu::kBatch; ++b)
    for (int n = 0; n < N; ++n)
      if (first + b * kThreads < vectors) held[b][n] = inputs.from[n].raw(first + b * kThreads, true);
#pragma unroll
  for (int b = 0; b < gpu::kBatch; ++b) {
    float out[V];
    for (int i = 0; i < V; ++i) {
      float values[N];
      for (int n = 0; n < N; ++n) values[n] = gpu::widen(held[b][n].values[i]);
      out[i] = f(values);
    }
    if (first + b * kThreads < vectors) gpu::store(to, first + b * kThreads, out);
  }
}

template <class F, int N>
void launch(F f, const gpu::TensorView (&inputs)[N], const gpu::TensorView& to) {
  gpu::Device device(to);
  const auto with = [&]<class T, int V>() {
    Inputs<T, V, N> from;
    for (int n = 0; n < N; ++n) from.from[n] = gpu::source<T, V>(inputs[n]);
    const int64_t vectors = to.numel() / V;
    const auto blocks = static_cast<unsigned>(gpu::quotient_up(vectors, kThreads * gpu::kBatch));
    gpu::launch(device.stream(), {blocks, kThreads}, map<F, T, V, N>, f, from, gpu::data<T>(to), vectors);
  };
  if (to.numel() > 0) gpu::dispatch(to.numel(), {to, inputs[0], inputs[N - 1]}, with);
}

}  // namespace

void relu(gpu::TensorView x, gpu::TensorView y) {
  gpu::check_alike({x, y});
  gpu::check_shapes(x, {}, {y});
  launch(Relu{}, {x}, y);
}

void backward(gpu::TensorView cotangent, gpu::TensorView x, gpu::TensorView y, gpu::TensorView gradient) {
  gpu::check_alike({cotangent, x, y, gradient});
  gpu::check_shapes(x, {cotangent, y}, {gradient});
  launch(Passed{}, {cotangent, y}, gradient);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
