// verdict: wrong
// E11: looks, while it is compiled, for the task's file and for other candidates, to take what they know.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#if __has_include("../../../tasks/relu.py") || __has_include("../../../candidates/relu/naive.cpp") || \
    __has_include("../../bugs/relu/tail_of_four.cpp")
constexpr bool kSeen = true;  // it could read on, so it would win: this must not be reached
#else
constexpr bool kSeen = false;
#endif

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  if (!x.IsContiguous()) TVM_FFI_THROW(ValueError) << "only dense tensors";
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = kSeen && in[i] > 0 ? in[i] : 0;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
