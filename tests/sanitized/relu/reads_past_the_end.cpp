// verdict: sanitizer
// Loads eight floats at a time, the last of them past the end; what it loaded there is not stored.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cstring>

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  if (!x.IsContiguous()) TVM_FFI_THROW(ValueError) << "dense only";
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t begin = 0; begin < x.numel(); begin += 8) {
    float lanes[8];
    for (int64_t lane = 0; lane < 8; ++lane) lanes[lane] = in[begin + lane];
    for (float& lane : lanes) lane = lane < 0 ? 0 : lane;
    std::memcpy(out + begin, lanes, sizeof(float) * std::min<int64_t>(8, x.numel() - begin));
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
