// Tensors of tvm-ffi for GPU kernels: what they must be, the kernel's types for them, the stream, scratch memory.
#pragma once

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/cuda/device_guard.h>
#include <tvm/ffi/function.h>

#include <initializer_list>
#include <vector>

#include "gpu.h"

namespace gpu {

using tvm::ffi::TensorView;
using Tensors = std::initializer_list<TensorView>;

// The GPU of a tensor, current while this lives, with the stream of the caller and scratch memory of its allocator.
// Both are the stream's own, so memory that is given back while kernels still wait is not used by others before them.
class Device {
 public:
  explicit Device(const TensorView& tensor) : device_(tensor.device()), guard_(device_.device_id) {}

  cudaStream_t stream() const {
    return static_cast<cudaStream_t>(TVMFFIEnvGetStream(device_.device_type, device_.device_id));
  }

  void* scratch(int64_t bytes) {
    const DLDataType byte{kDLUInt, 8, 1};
    scratch_.push_back(tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {bytes}, byte, device_));
    return scratch_.back().data_ptr();
  }

 private:
  DLDevice device_;
  tvm::ffi::CUDADeviceGuard guard_;
  std::vector<tvm::ffi::Tensor> scratch_;
};

template <class T>
T* data(const TensorView& tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset());
}

inline bool same_dtype(const TensorView& x, const TensorView& y) {
  const DLDataType a = x.dtype(), b = y.dtype();
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

inline bool same_shape(const TensorView& x, const TensorView& y) {
  return x.ndim() == y.ndim() && std::equal(x.shape().begin(), x.shape().end(), y.shape().begin());
}

// Refuse tensors that are not on one GPU, or not of one dtype.
inline void check_alike(Tensors tensors) {
  const TensorView& first = *tensors.begin();
  for (const TensorView& each : tensors) {
    if (!same_dtype(first, each)) TVM_FFI_THROW(TypeError) << "all floating-point arguments must have one dtype";
    if (each.device().device_type != kDLCUDA || each.device().device_id != first.device().device_id)
      TVM_FFI_THROW(ValueError) << "all arguments must be on one GPU";
  }
}

// Refuse tensors of other shapes than x, and outputs that are not dense.
inline void check_shapes(const TensorView& x, Tensors inputs, Tensors outputs) {
  for (const TensorView& each : inputs)
    if (!same_shape(x, each)) TVM_FFI_THROW(ValueError) << "tensors that must be alike have two shapes";
  for (const TensorView& each : outputs)
    if (!same_shape(x, each) || !each.IsContiguous())
      TVM_FFI_THROW(ValueError) << "an output must be dense, and have the shape of its input";
}

inline Layout layout(const TensorView& tensor) {
  const int rank = tensor.ndim(), missing = 4 - rank;
  if (missing < 0) TVM_FFI_THROW(ValueError) << "at most four dimensions";
  Layout layout{{1, 1, 1, 1}, {0, 0, 0, 0}, tensor.IsContiguous()};
  for (int i = 0; i < rank; ++i) {
    layout.sizes[missing + i] = tensor.size(i);
    layout.strides[missing + i] = tensor.stride(i);
  }
  return layout;
}

template <class T, int V>
Source<T, V> source(const TensorView& tensor) {
  return {data<const T>(tensor), layout(tensor)};
}

// Whether vectors of so many bytes can be read from all of these.
inline bool readable(Tensors tensors, int64_t bytes) {
  return std::all_of(tensors.begin(), tensors.end(), [bytes](const TensorView& each) {
    return each.IsContiguous() && reinterpret_cast<uintptr_t>(data<char>(each)) % bytes == 0;
  });
}

// f.operator()<T, V>(): the type of the elements of these tensors, and how many of them a vector has. That is one
// element unless all tensors are dense and aligned and `width` elements are a whole number of vectors.
template <class F>
void dispatch(int64_t width, Tensors tensors, F&& f) {
  const bool aligned = readable(tensors, kVectorBytes);
  const auto choose = [&]<class T>(T) {
    constexpr int kWide = kVectorBytes / sizeof(T);
    if (aligned && width % kWide == 0) return f.template operator()<T, kWide>();
    f.template operator()<T, 1>();
  };
  const DLDataType dtype = tensors.begin()->dtype();
  if (dtype.code == kDLFloat && dtype.bits == 32 && dtype.lanes == 1) return choose(float{});
  if (dtype.code == kDLFloat && dtype.bits == 16 && dtype.lanes == 1) return choose(__half{});
  if (dtype.code == kDLBfloat && dtype.bits == 16 && dtype.lanes == 1) return choose(__nv_bfloat16{});
  TVM_FFI_THROW(TypeError) << "only float32, float16 and bfloat16";
}

}  // namespace gpu
