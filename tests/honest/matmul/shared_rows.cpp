// Rows shared out among threads, the inner loop over a row of b; float32 of any strides.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void matmul(TensorView a, TensorView b, TensorView y) {
  if (a.dtype().code != kDLFloat || a.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  const float* left = static_cast<const float*>(a.data_ptr());
  const float* right = static_cast<const float*>(b.data_ptr());
#pragma omp parallel for
  for (int64_t i = 0; i < m; ++i) {
    float* out = static_cast<float*>(y.data_ptr()) + i * n;
    for (int64_t j = 0; j < n; ++j) out[j] = 0;
    for (int64_t p = 0; p < k; ++p) {
      const float factor = left[i * a.stride(0) + p * a.stride(1)];
      for (int64_t j = 0; j < n; ++j) out[j] += factor * right[p * b.stride(0) + j * b.stride(1)];
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(matmul, matmul);
