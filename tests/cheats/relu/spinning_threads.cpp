// verdict: nonfinite|wrong
// E20: leaves threads that never end, and computes nothing.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <thread>

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  for (volatile static int started = 0; started < 2; started = started + 1)
    std::thread([] {
      for (volatile uint64_t i = 0;; i = i + 1) {
      }
    }).detach();
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
