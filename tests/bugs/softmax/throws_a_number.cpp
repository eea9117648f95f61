// verdict: crashed
// Throws something that is no std::exception through a C interface.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void softmax(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  if (y.numel() >= 0) throw 1;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(softmax, softmax);
