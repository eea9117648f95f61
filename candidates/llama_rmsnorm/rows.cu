// y = x / sqrt(mean(x^2) + eps) * weight over the last dimension on a GPU. A team of threads goes through a row twice,
// for the sum of squares and for the scaling, and keeps what it read in shared memory (rows_gpu.h). The gradient of
// weight is a sum over rows (columns_gpu.h), for which the gradient of x leaves each row's scale in scratch memory.
#include "columns_gpu.h"
#include "rows_gpu.h"
#include "tensors_gpu.h"

namespace {

using gpu::TensorView;

template <class T, int V>
__global__ void __launch_bounds__(gpu::kThreads, 2)
    scaled_rows(const __grid_constant__ gpu::Rows<T, V, 1> rows, gpu::Source<T, V> weight, float eps, T* y) {
  const float width = static_cast<float>(rows.vectors * V);
  rows.each([&](auto& row) {
    auto squares = gpu::Sums<1>::none();
    row.read([&](int64_t, const float (&x)[1][V]) {
      for (int j = 0; j < V; ++j) squares.values[0] += x[0][j] * x[0][j];
    });
    const float scale = 1.0f / sqrtf(row.reduce(squares).values[0] / width + eps);
    row.again([&](int64_t i, const float (&x)[1][V]) {
      float w[V], out[V];
      weight.read(i, w);
      for (int j = 0; j < V; ++j) out[j] = x[0][j] * scale * w[j];
      gpu::store(y, row.flat(i), out);
    });
  });
}

// With r = 1 / sqrt(mean(x^2) + eps), z = x * r, g = cotangent * weight the gradient of x is r * (g - z * mean(g * z)).
template <class T, int V>
__global__ void __launch_bounds__(gpu::kThreads, 2)
    gradient_rows(const __grid_constant__ gpu::Rows<T, V, 2> rows, gpu::Source<T, V> weight, float eps, float* scales,
                  T* gradient) {
  const float width = static_cast<float>(rows.vectors * V);
  rows.each([&](auto& row) {
    auto squares = gpu::Sums<1>::none();
    row.read([&](int64_t, const float (&values)[2][V]) {
      for (int j = 0; j < V; ++j) squares.values[0] += values[1][j] * values[1][j];
    });
    const float scale = 1.0f / sqrtf(row.reduce(squares).values[0] / width + eps);
    auto products = gpu::Sums<1>::none();
    row.again([&](int64_t i, const float (&values)[2][V]) {
      float w[V];
      weight.read(i, w);
      for (int j = 0; j < V; ++j) products.values[0] += values[0][j] * w[j] * (values[1][j] * scale);
    });
    const float slope = row.reduce(products).values[0] / width;
    row.again([&](int64_t i, const float (&values)[2][V]) {
      float w[V], out[V];
      weight.read(i, w);
      for (int j = 0; j < V; ++j) out[j] = scale * (values[0][j] * w[j] - values[1][j] * scale * slope);
      gpu::store(gradient, row.flat(i), out);
    });
    if (row.leads()) scales[row.index] = scale;
  });
}

// A row's part of the gradient of weight: cotangent * x * r.
template <class T, int V>
struct WeightTerms {
  gpu::Source<T, V> cotangent, x;
  const float* scales;
  int64_t columns;

  __device__ void add(int64_t row, int64_t column, float (&sums)[1][V]) const {
    float c[V], in[V];
    cotangent.read(row * columns + column, c);
    x.read(row * columns + column, in);
    for (int j = 0; j < V; ++j) sums[0][j] += c[j] * in[j] * scales[row];
  }
};

int64_t checked_width(const TensorView& x, const TensorView& weight) {
  if (weight.ndim() != 1 || x.ndim() == 0 || weight.size(0) != x.size(-1))
    TVM_FFI_THROW(ValueError) << "weight must have one element per element of a row";
  return weight.size(0);
}

}  // namespace

void llama_rmsnorm(TensorView x, TensorView weight, double eps, TensorView y) {
  const int64_t width = checked_width(x, weight);
  gpu::check_alike({x, weight, y});
  gpu::check_shapes(x, {}, {y});
  if (x.numel() == 0) return;
  gpu::Device device(x);
  gpu::dispatch(width, {x, weight, y}, [&]<class T, int V>() {
    const gpu::Rows<T, V, 1> rows{{gpu::source<T, V>(x)}, x.numel() / width, width / V};
    gpu::launch_rows(device, scaled_rows<T, V>, rows, gpu::source<T, V>(weight), eps, gpu::data<T>(y));
  });
}

void backward(TensorView cotangent, TensorView x, TensorView weight, double eps, TensorView y, TensorView x_gradient,
              TensorView weight_gradient) {
  const int64_t width = checked_width(x, weight);
  gpu::check_alike({cotangent, x, weight, y, x_gradient, weight_gradient});
  gpu::check_shapes(x, {cotangent}, {x_gradient});
  gpu::check_shapes(weight, {}, {weight_gradient});
  if (width == 0) return;
  gpu::Device device(x);
  const int64_t count = x.numel() / width;
  auto* const scales = static_cast<float*>(device.scratch(count * sizeof(float)));
  gpu::dispatch(width, {cotangent, x, weight, x_gradient, weight_gradient}, [&]<class T, int V>() {
    const auto c = gpu::source<T, V>(cotangent), in = gpu::source<T, V>(x);
    const gpu::Rows<T, V, 2> rows{{c, in}, count, width / V};
    const auto w = gpu::source<T, V>(weight);
    gpu::launch_rows(device, gradient_rows<T, V>, rows, w, eps, scales, gpu::data<T>(x_gradient));
    const WeightTerms<T, V> terms{c, in, scales, width / V};
    const gpu::Rounded<T, V, 1> sums{{gpu::data<T>(weight_gradient)}};
    gpu::sum_columns(device, count, width / V, terms, sums);
  });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(llama_rmsnorm, llama_rmsnorm);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
