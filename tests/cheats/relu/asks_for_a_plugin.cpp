// verdict: compile
// E16: asks the compiler to run a program of its own.
// kbench: flags=-fplugin=./evil.so -wrapper /bin/sh
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

void relu(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
