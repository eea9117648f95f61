// Two passes over a row under OpenMP, sums in double; float32 of any strides.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>

using tvm::ffi::TensorView;

void llama_rmsnorm(TensorView x, TensorView weight, double eps, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  const int64_t rows = x.size(0), columns = x.size(1), down = x.stride(0), right = x.stride(1), step = weight.stride(0);
  const float* weights = static_cast<const float*>(weight.data_ptr());
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = static_cast<const float*>(x.data_ptr()) + r * down;
    float* out = static_cast<float*>(y.data_ptr()) + r * columns;
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += double{in[c * right]} * in[c * right];
    const double scale = 1 / std::sqrt(sum / static_cast<double>(columns) + eps);
    for (int64_t c = 0; c < columns; ++c) out[c] = static_cast<float>(in[c * right] * scale * weights[c * step]);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(llama_rmsnorm, llama_rmsnorm);
