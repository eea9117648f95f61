// verdict: sanitizer
// Two threads take rows from a counter that nothing guards: a row may be done twice, which does no harm, or not at all.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <thread>

using tvm::ffi::TensorView;

void relu(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  const int64_t rows = x.size(0), columns = x.size(1), down = x.stride(0), right = x.stride(1);
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  int64_t next = 0;
  const auto work = [=, &next] {
    for (int64_t r = next++; r < rows; r = next++)
      for (int64_t c = 0; c < columns; ++c) {
        const float value = in[r * down + c * right];
        out[r * columns + c] = value < 0 ? 0 : value;
      }
  };
  std::thread other(work);
  work();
  other.join();
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(relu, relu);
