// verdict: sanitizer
// The forward is sound; the backward loads eight floats of the cotangent at a time, the last of them past the end.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <algorithm>

using tvm::ffi::TensorView;

static float* floats(TensorView x) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  if (!x.IsContiguous()) TVM_FFI_THROW(ValueError) << "dense only";
  return static_cast<float*>(x.data_ptr());
}

void relu(TensorView x, TensorView y) {
  const float* in = floats(x);
  float* out = floats(y);
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = in[i] < 0 ? 0 : in[i];
}

void backward(TensorView cotangent, TensorView x, TensorView y, TensorView gradient) {
  const float *start = floats(cotangent), *in = floats(x);
  float* out = floats(gradient);
  for (int64_t begin = 0; begin < x.numel(); begin += 8) {
    float lanes[8];
    for (int64_t lane = 0; lane < 8; ++lane) lanes[lane] = start[begin + lane];
    for (int64_t i = begin; i < std::min(begin + 8, x.numel()); ++i) out[i] = in[i] > 0 ? lanes[i - begin] : 0;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
