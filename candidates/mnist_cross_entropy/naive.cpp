// The mean over rows of log(sum(exp(logits))) - logits[target], the largest logit of a row taken out of both terms.
// Exponentials are floats, their sums and what follows doubles.
#include <cmath>

#include "rows.h"

namespace {

using rows::TensorView;

std::vector<int64_t> checked_targets(const TensorView& targets, int64_t batch, int64_t classes) {
  const DLDataType dtype = targets.dtype();
  if (dtype.code != kDLInt || dtype.bits != 64 || dtype.lanes != 1) TVM_FFI_THROW(TypeError) << "targets must be int64";
  if (targets.ndim() != 1 || targets.size(0) != batch) TVM_FFI_THROW(ValueError) << "one target per row of logits";
  const int64_t* const from = rows::data<const int64_t>(targets);
  std::vector<int64_t> checked(batch);
  for (int64_t row = 0; row < batch; ++row) {
    checked[row] = from[row * targets.stride(0)];
    if (checked[row] < 0 || checked[row] >= classes) TVM_FFI_THROW(ValueError) << "a target is no class";
  }
  return checked;
}

// The loss of one row; `buffer` has room for it.
double loss(const float* logits, int64_t classes, int64_t target, float* buffer) {
  const float largest = floats::largest(logits, classes);
  for (int64_t i = 0; i < classes; ++i) buffer[i] = floats::exp(logits[i] - largest);
  return std::log(floats::sum(buffer, classes)) - (double{logits[target]} - largest);
}

}  // namespace

void mnist_cross_entropy(TensorView logits, TensorView targets, TensorView mean) {
  if (logits.ndim() != 2 || mean.ndim() != 0) TVM_FFI_THROW(ValueError) << "logits must be a matrix, the mean a scalar";
  const int64_t batch = logits.size(0), classes = logits.size(1);
  const std::vector<int64_t> classes_of = checked_targets(targets, batch, classes);
  std::vector<double> losses(batch);
  rows::read_each_row(logits, classes, [&](int64_t row, const float* values, float* buffer) {
    losses[row] = loss(values, classes, classes_of[row], buffer);
  });
  double total = 0;
  for (const double each : losses) total += each;
  rows::dispatch(mean, [&](auto element) {
    using T = decltype(element);
    floats::narrow(static_cast<float>(total / static_cast<double>(batch)), *rows::data<T>(mean));
  });
}

// (softmax - 1 for the target's class) * cotangent / batch. Of the target it is the share of all others, negative: what
// is left of a softmax near 1 after the subtraction is not lost.
void backward(TensorView cotangent, TensorView logits, TensorView targets, TensorView, TensorView gradient) {
  if (logits.ndim() != 2 || cotangent.ndim() != 0)
    TVM_FFI_THROW(ValueError) << "logits must be a matrix, the cotangent a scalar";
  const int64_t batch = logits.size(0);
  const std::vector<int64_t> classes_of = checked_targets(targets, batch, logits.size(1));
  const double share = rows::vector_of_floats(cotangent)[0] / static_cast<double>(batch);
  const auto row = [&](int64_t row, const float* values, float* out, int64_t classes) {
    const int64_t target = classes_of[row];
    const float largest = floats::largest(values, classes);
    for (int64_t i = 0; i < classes; ++i) out[i] = floats::exp(values[i] - largest);
    const double target_part = out[target];
    out[target] = 0.0f;
    const double others = floats::total(classes, [out](int64_t i) { return double{out[i]}; });
    const double scale = share / (others + target_part);
    for (int64_t i = 0; i < classes; ++i) out[i] = static_cast<float>(out[i] * scale);
    out[target] = static_cast<float>(-others * scale);
  };
  rows::for_each_numbered_row(logits, gradient, row);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mnist_cross_entropy, mnist_cross_entropy);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
