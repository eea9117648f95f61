// verdict: wrong|nonfinite
// #11: threads add to one sum without any barrier, reading what another is about to overwrite.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <thread>
#include <vector>

using tvm::ffi::TensorView;

void mean(TensorView x, TensorView y) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) TVM_FFI_THROW(TypeError) << "only float32";
  if (!x.IsContiguous()) TVM_FFI_THROW(ValueError) << "only dense tensors";
  const float* in = static_cast<const float*>(x.data_ptr());
  volatile double sum = 0;
  std::vector<std::thread> threads;
  for (int64_t first = 0; first < 8; ++first)
    threads.emplace_back([&, first] {
      for (int64_t i = first; i < x.numel(); i += 8) sum = sum + in[i];
    });
  for (auto& each : threads) each.join();
  *static_cast<float*>(y.data_ptr()) = static_cast<float>(sum / static_cast<double>(x.numel()));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mean, mean);
