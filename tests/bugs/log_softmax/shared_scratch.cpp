// verdict: wrong|nonfinite
// From 32 rows on, four threads share the scratch memory in which a row keeps its maximum and its sum.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <thread>
#include <vector>

using tvm::ffi::TensorView;

void log_softmax(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  const int64_t rows = x.size(0), columns = x.size(1), down = x.stride(0), right = x.stride(1);
  const float* data = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  volatile float top;
  volatile double sum;
  const auto compute = [&](int64_t first, int64_t step) {
    for (int64_t r = first; r < rows; r += step) {
      const float* in = data + r * down;
      top = in[0];
      for (int64_t c = 1; c < columns; ++c)
        if (in[c * right] > top || std::isnan(in[c * right])) top = in[c * right];
      sum = 0;
      for (int64_t c = 0; c < columns; ++c) sum = sum + std::exp(static_cast<double>(in[c * right]) - top);
      for (int64_t c = 0; c < columns; ++c)
        out[r * columns + c] = static_cast<float>(static_cast<double>(in[c * right]) - top - std::log(sum));
    }
  };
  if (rows < 32) return compute(0, 1);
  std::vector<std::thread> threads;
  for (int64_t first = 0; first < 4; ++first) threads.emplace_back(compute, first, 4);
  for (auto& each : threads) each.join();
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(log_softmax, log_softmax);
