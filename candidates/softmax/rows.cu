// Softmax over the last dimension on a GPU. A team of threads goes through a row twice: for its largest element and the
// sum of exponentials, which each thread keeps up to date together, and for the result. What it read it keeps in shared
// memory, so that a row comes once from memory where it fits in that of its team (rows_gpu.h).
#include "rows_gpu.h"
#include "tensors_gpu.h"

namespace {

template <class T, int V>
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

// y * (cotangent - sum(y * cotangent))
template <class T, int V>
__global__ void __launch_bounds__(gpu::kThreads, 2)
    gradient_rows(const __grid_constant__ gpu::Rows<T, V, 2> rows, T* gradient) {
  rows.each([&](auto& row) {
    auto mine = gpu::Sums<1>::none();
    row.read([&](int64_t, const float (&values)[2][V]) {
      for (int j = 0; j < V; ++j) mine.values[0] += values[0][j] * values[1][j];
    });
    const float mean = row.reduce(mine).values[0];
    row.again([&](int64_t i, const float (&values)[2][V]) {
      float out[V];
      for (int j = 0; j < V; ++j) out[j] = values[1][j] * (values[0][j] - mean);
      gpu::store(gradient, row.flat(i), out);
    });
  });
}

}  // namespace

void softmax(gpu::TensorView x, gpu::TensorView y) {
  gpu::check_alike({x, y});
  gpu::check_shapes(x, {}, {y});
  if (x.numel() == 0) return;
  gpu::Device device(x);
  const int64_t width = x.ndim() ? x.size(-1) : 1;
  gpu::dispatch(width, {x, y}, [&]<class T, int V>() {
    const gpu::Rows<T, V, 1> rows{{gpu::source<T, V>(x)}, x.numel() / width, width / V};
    gpu::launch_rows(device, softmax_rows<T, V>, rows, gpu::data<T>(y));
  });
}

void backward(gpu::TensorView cotangent, gpu::TensorView x, gpu::TensorView y, gpu::TensorView gradient) {
  gpu::check_alike({cotangent, x, y, gradient});
  gpu::check_shapes(x, {cotangent, y}, {gradient});
  if (x.numel() == 0) return;
  gpu::Device device(x);
  const int64_t width = x.ndim() ? x.size(-1) : 1;
  gpu::dispatch(width, {cotangent, y, gradient}, [&]<class T, int V>() {
    const gpu::Rows<T, V, 2> rows{
        {gpu::source<T, V>(cotangent), gpu::source<T, V>(y)}, x.numel() / width, width / V};
    gpu::launch_rows(device, gradient_rows<T, V>, rows, gpu::data<T>(gradient));
  });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(softmax, softmax);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
