// verdict: nonfinite|wrong
// T03: returns while a thread of its own has yet to write the output.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <chrono>
#include <thread>

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  if (!x.IsContiguous()) TVM_FFI_THROW(ValueError) << "only dense tensors";
  const int64_t n = x.numel();
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  std::thread([=] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (int64_t i = 0; i < n; ++i) out[i] = in[i] < 0 ? 0 : in[i];
  }).detach();
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
