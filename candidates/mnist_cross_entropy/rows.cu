// The mean over rows of log(sum(exp(logits))) - logits[target], on a GPU. One kernel makes the loss of each row, in a
// single pass by a team of threads (rows_gpu.h), a second one their mean. A target that is no class makes NaN: to
// refuse it, as the CPU's kernels do, the host would have to wait for the GPU.
#include "rows_gpu.h"
#include "tensors_gpu.h"

namespace {

using gpu::TensorView;

struct Targets {
  const int64_t* data;
  int64_t stride;

  __device__ int64_t operator[](int64_t row) const { return data[row * stride]; }
};

// The logit of a row's target, NaN if that is no class.
template <class T, int V>
__device__ float logit(const gpu::Rows<T, V, 1>& rows, int64_t row, int64_t target) {
  const int64_t classes = rows.vectors * V;
  return target >= 0 && target < classes ? rows.from[0].at(row * classes + target) : NAN;
}

template <class T, int V>
__global__ void __launch_bounds__(gpu::kThreads, 2)
    losses(const __grid_constant__ gpu::Rows<T, V, 1> rows, Targets targets, float* to) {
  rows.each([&](auto& row) {
    auto mine = gpu::Exponentials::none();
    row.read([&](int64_t, const float (&logits)[1][V]) { mine.add(logits[0]); });
    const auto all = row.reduce(mine);
    if (row.leads()) to[row.index] = logf(all.sum) - (logit(rows, row.index, targets[row.index]) - all.largest);
  });
}

template <class T>
__global__ void __launch_bounds__(gpu::kThreads, 2)
    mean(const __grid_constant__ gpu::Rows<float, 1, 1> losses, float count, T* to) {
  losses.each([&](auto& row) {
    auto mine = gpu::Sums<1>::none();
    row.read([&](int64_t, const float (&loss)[1][1]) { mine.values[0] += loss[0][0]; });
    const float sum = row.reduce(mine).values[0];
    if (row.leads()) gpu::narrow(sum / count, *to);
  });
}

// (softmax - 1 for the target's class) * cotangent / batch. Of the target it is the share of all others, negative: what
// is left of a softmax near 1 after the subtraction is not lost.
template <class T, int V>
__global__ void __launch_bounds__(gpu::kThreads, 2)
    gradient_rows(const __grid_constant__ gpu::Rows<T, V, 1> rows, Targets targets, const T* cotangent, T* gradient) {
  const float share = gpu::widen(*cotangent) / static_cast<float>(rows.count);
  rows.each([&](auto& row) {
    const int64_t target = targets[row.index];
    auto mine = gpu::Exponentials::none();
    row.read([&](int64_t i, const float (&logits)[1][V]) {
      float others[V];
      for (int j = 0; j < V; ++j) others[j] = i * V + j == target ? -INFINITY : logits[0][j];
      mine.add(others);
    });
    const auto all = row.reduce(mine);
    const float own = logit(rows, row.index, target), largest = fmaxf(all.largest, own);
    const float others = all.sum * gpu::exponential<T>(all.largest - largest);
    const float scale = share / (others + gpu::exponential<T>(own - largest));
    row.again([&](int64_t i, const float (&logits)[1][V]) {
      float out[V];
      for (int j = 0; j < V; ++j)
        out[j] = scale * (i * V + j == target ? -others : gpu::exponential<T>(logits[0][j] - largest));
      gpu::store(gradient, row.flat(i), out);
    });
  });
}

Targets checked_targets(const TensorView& logits, const TensorView& targets) {
  const DLDataType dtype = targets.dtype();
  if (dtype.code != kDLInt || dtype.bits != 64 || dtype.lanes != 1) TVM_FFI_THROW(TypeError) << "targets must be int64";
  if (logits.ndim() != 2 || targets.ndim() != 1 || targets.size(0) != logits.size(0))
    TVM_FFI_THROW(ValueError) << "logits must be a matrix, with one target per row";
  if (targets.device().device_type != kDLCUDA || targets.device().device_id != logits.device().device_id)
    TVM_FFI_THROW(ValueError) << "all arguments must be on one GPU";
  return {gpu::data<const int64_t>(targets), targets.stride(0)};
}

}  // namespace

void mnist_cross_entropy(TensorView logits, TensorView targets, TensorView to) {
  const Targets classes_of = checked_targets(logits, targets);
  gpu::check_alike({logits, to});
  if (to.ndim() != 0) TVM_FFI_THROW(ValueError) << "the mean must be a scalar";
  gpu::Device device(logits);
  const int64_t batch = logits.size(0), classes = logits.size(1);
  auto* const found = static_cast<float*>(device.scratch(batch * sizeof(float)));
  gpu::dispatch(classes, {logits}, [&]<class T, int V>() {
    const gpu::Rows<T, V, 1> rows{{gpu::source<T, V>(logits)}, batch, classes / V};
    gpu::launch_rows(device, losses<T, V>, rows, classes_of, found);
    const gpu::Rows<float, 1, 1> all{{{found, {{1, 1, 1, batch}, {0, 0, 0, 1}, true}}}, 1, batch};
    gpu::launch_rows(device, mean<T>, all, static_cast<float>(batch), gpu::data<T>(to));
  });
}

void backward(TensorView cotangent, TensorView logits, TensorView targets, TensorView, TensorView gradient) {
  const Targets classes_of = checked_targets(logits, targets);
  gpu::check_alike({cotangent, logits, gradient});
  gpu::check_shapes(logits, {}, {gradient});
  if (cotangent.ndim() != 0) TVM_FFI_THROW(ValueError) << "the cotangent must be a scalar";
  gpu::Device device(logits);
  const int64_t batch = logits.size(0), classes = logits.size(1);
  gpu::dispatch(classes, {logits, gradient}, [&]<class T, int V>() {
    const gpu::Rows<T, V, 1> rows{{gpu::source<T, V>(logits)}, batch, classes / V};
    const T* const given = gpu::data<const T>(cotangent);
    gpu::launch_rows(device, gradient_rows<T, V>, rows, classes_of, given, gpu::data<T>(gradient));
  });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mnist_cross_entropy, mnist_cross_entropy);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
