// y = (x - mean) / sqrt(var + eps) * weight + bias on a GPU: layer norm over the last dimensions, those of weight.
// A sample is a row. A team of threads goes through it twice, for its moments and for the result, and keeps what it
// read in shared memory; one long sample is shared by all multiprocessors (rows_gpu.h). Moments are those of vectors,
// merged by the formula of Chan, Golub and LeVeque, so that nothing cancels. The gradients of weight and bias are sums
// over samples (columns_gpu.h), for which the gradient of x leaves each sample's mean and scale in scratch memory.
#include "columns_gpu.h"
#include "rows_gpu.h"
#include "tensors_gpu.h"

namespace {

using gpu::TensorView;

// How many numbers, their mean, and the sum of the squares of their distances from it.
struct Moments {
  float count, mean, squares;

  __device__ static Moments none() { return {}; }

  __device__ Moments operator+(const Moments& other) const {
    const float both = count + other.count, share = both > 0.0f ? other.count / both : 0.0f;
    const float apart = other.mean - mean;
    return {both, mean + apart * share, squares + other.squares + apart * apart * (count * share)};
  }

  template <int V>
  __device__ void add(const float (&x)[V]) {
    float level = 0.0f, around = 0.0f;
    for (int i = 0; i < V; ++i) level += x[i];
    level /= V;
    for (int i = 0; i < V; ++i) around += (x[i] - level) * (x[i] - level);
    const float share = __fdividef(V, count + V), apart = level - mean;
    mean += apart * share;
    squares += around + apart * apart * (count * share);
    count += V;
  }
};


// What takes a sample's elements to mean 0 and variance 1: (x - mean) * scale.
struct Norm {
  float mean, scale;

  Norm() = default;
  __device__ Norm(const Moments& moments, float eps)
      : mean(moments.mean), scale(1.0f / sqrtf(moments.squares / moments.count + eps)) {}
  __device__ float operator()(float x) const { return (x - mean) * scale; }
};

template <class T, int V>
__global__ void __launch_bounds__(gpu::kThreads, 2)
    normed_rows(const __grid_constant__ gpu::Rows<T, V, 1> rows, gpu::Source<T, V> weight, gpu::Source<T, V> bias,
                float eps, T* y) {
  rows.each([&](auto& row) {
    auto mine = Moments::none();
    row.read([&](int64_t, const float (&x)[1][V]) { mine.add(x[0]); });
    const Norm norm(row.reduce(mine), eps);
    row.again([&](int64_t i, const float (&x)[1][V]) {
      float w[V], b[V], out[V];
      weight.read(i, w);
      bias.read(i, b);
      for (int j = 0; j < V; ++j) out[j] = norm(x[0][j]) * w[j] + b[j];
      gpu::store(y, row.flat(i), out);
    });
  });
}

// With z the normed x and g = cotangent * weight the gradient of x is scale * (g - mean(g) - z * mean(g * z)). g is
// rounded each time, not fused with what follows: so samples of one element have a gradient of zero.
template <class T, int V>
__global__ void __launch_bounds__(gpu::kThreads, 2)
    gradient_rows(const __grid_constant__ gpu::Rows<T, V, 2> rows, gpu::Source<T, V> weight, float eps, Norm* norms,
                  T* gradient) {
  const float width = static_cast<float>(rows.vectors * V);
  rows.each([&](auto& row) {
    auto moments = Moments::none();
    row.read([&](int64_t, const float (&values)[2][V]) { moments.add(values[1]); });
    const Norm norm(row.reduce(moments), eps);
    auto mine = gpu::Sums<2>::none();  // of g, and of g * z
    row.again([&](int64_t i, const float (&values)[2][V]) {
      float w[V];
      weight.read(i, w);
      for (int j = 0; j < V; ++j) {
        const float g = __fmul_rn(values[0][j], w[j]);
        mine.values[0] += g;
        mine.values[1] += g * norm(values[1][j]);
      }
    });
    const auto all = row.reduce(mine);
    const float level = all.values[0] / width, slope = all.values[1] / width;
    row.again([&](int64_t i, const float (&values)[2][V]) {
      float w[V], out[V];
      weight.read(i, w);
      for (int j = 0; j < V; ++j)
        out[j] = norm.scale * (__fmul_rn(values[0][j], w[j]) - level - norm(values[1][j]) * slope);
      gpu::store(gradient, row.flat(i), out);
    });
    if (row.leads()) norms[row.index] = norm;
  });
}

// A sample's part of the gradients of weight and bias: cotangent * z, and cotangent.
template <class T, int V>
struct ParameterTerms {
  gpu::Source<T, V> cotangent, x;
  const Norm* norms;
  int64_t columns;

  __device__ void add(int64_t row, int64_t column, float (&sums)[2][V]) const {
    const Norm norm = norms[row];
    float c[V], in[V];
    cotangent.read(row * columns + column, c);
    x.read(row * columns + column, in);
    for (int j = 0; j < V; ++j) {
      sums[0][j] += c[j] * norm(in[j]);
      sums[1][j] += c[j];
    }
  }
};

void check(const TensorView& x, const TensorView& weight, const TensorView& bias) {
  const auto whole = x.shape(), over = weight.shape();
  const bool last = over.size() > 0 && over.size() <= whole.size() &&
                    std::equal(over.begin(), over.end(), whole.end() - over.size());
  if (!last) TVM_FFI_THROW(ValueError) << "weight must have the shape of the input's last dimensions";
  gpu::check_shapes(weight, {bias}, {});
}

}  // namespace

void layernorm(TensorView x, TensorView weight, TensorView bias, double eps, TensorView y) {
  check(x, weight, bias);
  gpu::check_alike({x, weight, bias, y});
  gpu::check_shapes(x, {}, {y});
  if (x.numel() == 0) return;
  gpu::Device device(x);
  const int64_t width = weight.numel();
  gpu::dispatch(width, {x, weight, bias, y}, [&]<class T, int V>() {
    const gpu::Rows<T, V, 1> rows{{gpu::source<T, V>(x)}, x.numel() / width, width / V};
    const auto w = gpu::source<T, V>(weight), b = gpu::source<T, V>(bias);
    gpu::launch_rows(device, normed_rows<T, V>, rows, w, b, eps, gpu::data<T>(y));
  });
}

void backward(TensorView cotangent, TensorView x, TensorView weight, TensorView bias, double eps, TensorView y,
              TensorView x_gradient, TensorView weight_gradient, TensorView bias_gradient) {
  check(x, weight, bias);
  gpu::check_alike({cotangent, x, weight, bias, y, x_gradient, weight_gradient, bias_gradient});
  gpu::check_shapes(x, {cotangent}, {x_gradient});
  gpu::check_shapes(weight, {}, {weight_gradient, bias_gradient});
  const int64_t width = weight.numel();
  if (width == 0) return;
  gpu::Device device(x);
  const int64_t count = x.numel() / width;
  auto* const norms = static_cast<Norm*>(device.scratch(count * sizeof(Norm)));
  const gpu::Tensors tensors{cotangent, x, weight, x_gradient, weight_gradient, bias_gradient};
  gpu::dispatch(width, tensors, [&]<class T, int V>() {
    const auto c = gpu::source<T, V>(cotangent), in = gpu::source<T, V>(x), w = gpu::source<T, V>(weight);
    const gpu::Rows<T, V, 2> rows{{c, in}, count, width / V};
    gpu::launch_rows(device, gradient_rows<T, V>, rows, w, eps, norms, gpu::data<T>(x_gradient));
    const ParameterTerms<T, V> terms{c, in, norms, width / V};
    const gpu::Rounded<T, V, 2> sums{{gpu::data<T>(weight_gradient), gpu::data<T>(bias_gradient)}};
    gpu::sum_columns(device, count, width / V, terms, sums);
  });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(layernorm, layernorm);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
