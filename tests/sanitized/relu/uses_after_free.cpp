// verdict: sanitizer
// Reads its scratch buffer after it was given back: the values are still there, most of the time.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cstdlib>

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  if (!x.IsContiguous()) TVM_FFI_THROW(ValueError) << "dense only";
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  const int64_t count = x.numel();
  float* scratch = static_cast<float*>(std::malloc(sizeof(float) * (count + 1)));
  for (int64_t i = 0; i < count; ++i) scratch[i] = in[i] < 0 ? 0 : in[i];
  for (int64_t i = 0; i + 1 < count; ++i) out[i] = scratch[i];
  const float* last = scratch + count - 1;
  std::free(scratch);
  if (count > 0) out[count - 1] = *last < 0 ? 0 : in[count - 1] < 0 ? 0 : in[count - 1];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
