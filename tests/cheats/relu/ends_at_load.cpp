// verdict: exited
// E16: a constructor that runs when the library is loaded, and ends the process with success.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <unistd.h>

using tvm::ffi::TensorView;

__attribute__((constructor)) void at_load() { _exit(0); }

void relu(TensorView x, TensorView y) {}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
