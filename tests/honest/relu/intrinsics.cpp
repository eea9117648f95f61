// Vectors of eight floats with a scalar tail, where the compiler has AVX; dense float32 alone.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#ifdef __AVX__
#include <immintrin.h>
#endif

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  if (!x.IsContiguous()) TVM_FFI_THROW(ValueError) << "only dense tensors";
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  const int64_t n = x.numel();
  int64_t i = 0;
#ifdef __AVX__
  // The second operand is what a comparison with NaN gives.
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_max_ps(_mm256_setzero_ps(), _mm256_loadu_ps(in + i)));
#endif
  for (; i < n; ++i) out[i] = in[i] < 0 ? 0 : in[i];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
