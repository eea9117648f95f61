// y = max(x, 0) on a GPU, elementwise; NaN stays NaN. Each thread asks for several 16-byte vectors before it uses
// the first, and neighbours read neighbouring vectors. Tensors that are not dense are read element by element.
#include "tensors_gpu.h"

namespace {

constexpr int kThreads = 256;
constexpr int kEach = 4;  // vectors of a thread

struct Relu {
  template <int V>
  __device__ float operator()(const float (&x)[1][V], int i) const {
    return x[0][i] < 0.0f ? 0.0f : x[0][i];
  }
};

// What a ReLU lets through of the cotangent, the first of the values, where it gave the second.
struct Passed {
  template <int V>
  __device__ float operator()(const float (&values)[2][V], int i) const {
    return values[1][i] <= 0.0f ? 0.0f : values[0][i];
  }
};

template <class T, int V, int N>
struct Inputs {
  gpu::Source<T, V> from[N];
};

template <class F, class T, int V, int N>
__global__ void map(F f, Inputs<T, V, N> inputs, T* to, int64_t vectors) {
  const int64_t first = int64_t{blockIdx.x} * kThreads * kEach + threadIdx.x;
  float values[kEach][N][V];
#pragma unroll
  for (int k = 0; k < kEach; ++k)
    for (int n = 0; n < N; ++n)
      if (first + k * kThreads < vectors) inputs.from[n].read(first + k * kThreads, values[k][n]);
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    if (first + k * kThreads >= vectors) return;
    float out[V];
    for (int i = 0; i < V; ++i) out[i] = f(values[k], i);
    gpu::store(to, first + k * kThreads, out);
  }
}

template <class F, int N>
void launch(F f, const gpu::TensorView (&inputs)[N], const gpu::TensorView& to) {
  gpu::Device device(to);
  const auto with = [&]<class T, int V>() {
    Inputs<T, V, N> from;
    for (int n = 0; n < N; ++n) from.from[n] = gpu::source<T, V>(inputs[n]);
    const int64_t vectors = to.numel() / V;
    const auto blocks = static_cast<unsigned>(gpu::quotient_up(vectors, kThreads * kEach));
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
