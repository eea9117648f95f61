// Rows of a tensor, one after another, for CPU kernels that work along the last dimension.
//
// A kernel is written for one row of floats, `void row(const float* in, float* out, int64_t width)`. `for_each_row`
// gives it every row of a float32, float16 or bfloat16 tensor of any shape and any strides; half types are widened on
// the way in and rounded once on the way out. A dense float32 row is handed over in place.
#pragma once

#include <omp.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "floats.h"

namespace rows {

using tvm::ffi::TensorView;

inline constexpr int64_t kWorthAThread = 1 << 14;  // elements; fewer cost less than waking another thread

// Call f(T{}) with the C++ type of the tensor's elements.
template <class F>
void dispatch(const TensorView& tensor, F&& f) {
  const DLDataType dtype = tensor.dtype();
  if (dtype.lanes == 1 && dtype.code == kDLFloat && dtype.bits == 32) return f(float{});
  if (dtype.lanes == 1 && dtype.code == kDLFloat && dtype.bits == 16) return f(floats::half{});
  if (dtype.lanes == 1 && dtype.code == kDLBfloat && dtype.bits == 16) return f(floats::bfloat16{});
  TVM_FFI_THROW(TypeError) << "only float32, float16 and bfloat16";
}

template <class T>
T* data(const TensorView& tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset());
}

// Refuse an output that is not a dense tensor of x's shape and dtype.
inline void check_output(const TensorView& x, const TensorView& y) {
  const bool same_shape = x.ndim() == y.ndim() && std::equal(x.shape().begin(), x.shape().end(), y.shape().begin());
  const DLDataType a = x.dtype(), b = y.dtype();
  const bool same_dtype = a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
  if (!same_shape || !same_dtype) TVM_FFI_THROW(ValueError) << "the output must have the input's shape and dtype";
  if (!y.IsContiguous()) TVM_FFI_THROW(ValueError) << "the output must be dense";
}

// Where each row of a strided tensor begins. The last dimension is the row; without dimensions it is one row of one.
class Layout {
 public:
  explicit Layout(const TensorView& x) {
    const int64_t rank = x.ndim();
    width = rank ? x.size(-1) : 1;
    step = rank ? x.stride(-1) : 1;
    for (int64_t i = 0; i + 1 < rank; ++i) {
      sizes_.push_back(x.size(i));
      strides_.push_back(x.stride(i));
      count *= x.size(i);
    }
  }

  // A dense matrix.
  Layout(int64_t rows, int64_t columns) : count(rows), width(columns), sizes_{rows}, strides_{columns} {}

  // Elements from the tensor's first element to that of this row.
  int64_t offset(int64_t row) const {
    int64_t offset = 0;
    for (size_t i = sizes_.size(); i-- > 0; row /= sizes_[i]) offset += row % sizes_[i] * strides_[i];
    return offset;
  }

  int64_t count = 1;  // rows
  int64_t width = 1;  // elements of a row
  int64_t step = 1;   // elements between neighbours in a row

 private:
  std::vector<int64_t> sizes_, strides_;
};

// The elements as floats: `from` itself where they are that already, otherwise `buffer`, filled.
template <class T>
const float* widened(const T* from, int64_t step, int64_t width, float* buffer) {
  if constexpr (std::is_same_v<T, float>) {
    if (step == 1) return from;
  }
  if (step == 1) {
    for (int64_t i = 0; i < width; ++i) buffer[i] = floats::widen(from[i]);
  } else {
    for (int64_t i = 0; i < width; ++i) buffer[i] = floats::widen(from[i * step]);
  }
  return buffer;
}

// kernel(row, values, buffer) for every row of x: its elements as floats, and `room` floats of the thread's own. Rows
// are shared out among threads where there is enough to do.
template <class Kernel>
void read_each_row(const TensorView& x, int64_t room, Kernel&& kernel) {
  const Layout layout(x);
  if (layout.count == 0) return;
  dispatch(x, [&](auto element) {
    using T = decltype(element);
    const T* const from = data<const T>(x);
    const int64_t most = std::min<int64_t>(layout.count, layout.count * layout.width / kWorthAThread);
    const int threads = static_cast<int>(std::clamp<int64_t>(most, 1, omp_get_max_threads()));
    const bool in_place = std::is_same_v<T, float> && layout.step == 1;
    const int64_t each = room + (in_place ? 0 : layout.width);
    // Allocated here, where an exception for want of memory can still leave the kernel.
    const auto scratch = std::make_unique_for_overwrite<float[]>(each * threads);

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < layout.count; ++row) {
      float* const buffer = scratch.get() + each * omp_get_thread_num();
      kernel(row, widened(from + layout.offset(row), layout.step, layout.width, buffer + room), buffer);
    }
  });
}

// kernel(row, in, out, width) for every row of x and of y, which has its shape and dtype and is dense.
template <class Kernel>
void for_each_numbered_row(const TensorView& x, const TensorView& y, Kernel&& kernel) {
  check_output(x, y);
  const int64_t width = Layout(x).width;
  if (width == 0) return;
  dispatch(y, [&](auto element) {
    using T = decltype(element);
    T* const to = data<T>(y);
    if constexpr (std::is_same_v<T, float>) {
      read_each_row(x, 0, [&](int64_t row, const float* in, float*) { kernel(row, in, to + row * width, width); });
    } else {
      read_each_row(x, width, [&](int64_t row, const float* in, float* out) {
        kernel(row, in, out, width);
        for (int64_t i = 0; i < width; ++i) floats::narrow(out[i], to[row * width + i]);
      });
    }
  });
}

// y[row] = kernel(x[row]) for every row.
template <class Kernel>
void for_each_row(const TensorView& x, const TensorView& y, Kernel&& kernel) {
  for_each_numbered_row(x, y, [&](int64_t, const float* in, float* out, int64_t width) { kernel(in, out, width); });
}

// All elements of a tensor (a parameter, say) as dense floats, whatever its shape, dtype and strides.
inline std::vector<float> vector_of_floats(const TensorView& tensor) {
  std::vector<float> values(tensor.numel());
  const Layout layout(tensor);
  dispatch(tensor, [&](auto element) {
    using T = decltype(element);
    for (int64_t row = 0; row < layout.count; ++row) {
      const T* const from = data<const T>(tensor) + layout.offset(row);
      float* const to = values.data() + row * layout.width;
      for (int64_t i = 0; i < layout.width; ++i) to[i] = floats::widen(from[i * layout.step]);
    }
  });
  return values;
}

}  // namespace rows
