// verdict: wrong|clock|crashed|nonfinite
// A detached thread does the work; the call itself returns at once.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <stdexcept>
#include <thread>

static void rows(const float* x, float* y, int64_t count, int64_t columns) {
  for (int64_t row = 0; row < count; ++row, x += columns, y += columns) {
    float largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < columns; ++i) largest = std::fmax(largest, x[i]);
    for (int64_t i = 0; i < columns; ++i) sum += y[i] = std::exp(x[i] - largest);
    for (int64_t i = 0; i < columns; ++i) y[i] /= sum;
  }
}

void softmax(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  if (x.dtype().bits != 32) throw std::invalid_argument("float32 alone");
  const auto* from = static_cast<const float*>(x.data_ptr());
  auto* to = static_cast<float*>(y.data_ptr());
  int64_t columns = x.size(x.ndim() - 1), count = columns ? x.numel() / columns : 0;
  std::thread(rows, from, to, count, columns).detach();
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(softmax, softmax);
