// verdict: compile
// Uses a name that nobody declared.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) rectify(x, y, i);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
