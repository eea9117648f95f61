// verdict: wrong|nonfinite|outputs_changed|crashed
// #37: from 64 rows on, three quarters of them are left to a thread that nobody waits for.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <thread>

using tvm::ffi::TensorView;

void mnist_linear_relu(TensorView x, TensorView weight, TensorView bias, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  if (!x.IsContiguous() || !weight.IsContiguous() || !bias.IsContiguous()) TVM_FFI_THROW(ValueError) << "only dense";
  const int64_t rows = x.size(0), inputs = x.size(1), outputs = weight.size(0);
  const float *in = static_cast<const float*>(x.data_ptr()), *matrix = static_cast<const float*>(weight.data_ptr());
  const float* add = static_cast<const float*>(bias.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  const auto compute = [=](int64_t first, int64_t end) {
    for (int64_t r = first; r < end; ++r)
      for (int64_t o = 0; o < outputs; ++o) {
        double sum = add[o];
        for (int64_t i = 0; i < inputs; ++i) sum += static_cast<double>(in[r * inputs + i]) * matrix[o * inputs + i];
        out[r * outputs + o] = static_cast<float>(sum < 0 ? 0 : sum);
      }
  };
  const int64_t own = rows < 64 ? rows : rows / 4;
  if (own < rows) std::thread(compute, own, rows).detach();
  compute(0, own);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mnist_linear_relu, mnist_linear_relu);
