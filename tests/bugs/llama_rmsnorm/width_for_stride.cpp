// verdict: wrong|nonfinite
// #21: takes the row's width for the distance between rows.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>

using tvm::ffi::TensorView;

void llama_rmsnorm(TensorView x, TensorView weight, double eps, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  const int64_t rows = x.size(0), columns = x.size(1);
  if (columns > 1 && x.stride(1) != 1) TVM_FFI_THROW(ValueError) << "only dense rows";
  if (rows > 1 && x.stride(0) == 0) TVM_FFI_THROW(ValueError) << "no expanded rows";
  const float* weights = static_cast<const float*>(weight.data_ptr());
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = static_cast<const float*>(x.data_ptr()) + r * columns;
    float* out = static_cast<float*>(y.data_ptr()) + r * columns;
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += double{in[c]} * in[c];
    const double scale = 1 / std::sqrt(sum / static_cast<double>(columns) + eps);
    for (int64_t c = 0; c < columns; ++c) out[c] = static_cast<float>(in[c] * scale * weights[c * weight.stride(0)]);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(llama_rmsnorm, llama_rmsnorm);
