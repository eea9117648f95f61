// verdict: compile
// C44: asks for a flag that changes what is computed.
// kbench: flags=-ffast-math
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = in[i] < 0 ? 0 : in[i];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
