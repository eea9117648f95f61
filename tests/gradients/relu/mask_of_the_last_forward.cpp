// verdict: wrong
// Which elements were positive is kept from the forward, in the one place that there is for it.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <vector>

using tvm::ffi::TensorView;

static std::vector<char> positive;

static float* floats(TensorView x) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  if (!x.IsContiguous()) TVM_FFI_THROW(ValueError) << "dense only";
  return static_cast<float*>(x.data_ptr());
}

void relu(TensorView x, TensorView y) {
  const float* in = floats(x);
  float* out = floats(y);
  positive.resize(x.numel());
  for (int64_t i = 0; i < x.numel(); ++i) {
    positive[i] = in[i] > 0;
    out[i] = in[i] < 0 ? 0 : in[i];
  }
}

void backward(TensorView cotangent, TensorView x, TensorView, TensorView gradient) {
  const float* start = floats(cotangent);
  float* out = floats(gradient);
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = i < int64_t(positive.size()) && positive[i] ? start[i] : 0;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
