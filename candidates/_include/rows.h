// Rows of a tensor, one after another, for CPU kernels that work along the last dimension.
//
// A kernel is written for one row of floats, `void row(const float* in, float* out, int64_t width)`. `for_each_row`
// gives it every row of a float32, float16 or bfloat16 tensor of any shape and any strides; half types are widened on
// the way in and rounded once on the way out. A dense float32 row is handed over in place. Gradients need rows of
// several tensors at a time (`map_rows`), and sums over all samples for parameters (`sum_over_samples`).
#pragma once

#include <omp.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "floats.h"

namespace rows {

using tvm::ffi::TensorView;

inline constexpr int64_t kWorthAThread = 1 << 14;  // elements; fewer cost less than waking another thread
inline constexpr int64_t kPiece = 512;             // columns, and
inline constexpr int64_t kSamples = 256;           // samples that one thread sums up at a time

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

inline bool alike(const TensorView& x, const TensorView& y) {
  const DLDataType a = x.dtype(), b = y.dtype();
  return x.ndim() == y.ndim() && std::equal(x.shape().begin(), x.shape().end(), y.shape().begin()) &&
         a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

// Refuse an output that is not a dense tensor of x's shape and dtype.
inline void check_output(const TensorView& x, const TensorView& y) {
  if (!alike(x, y)) TVM_FFI_THROW(ValueError) << "the output must have the input's shape and dtype";
  if (!y.IsContiguous()) TVM_FFI_THROW(ValueError) << "the output must be dense";
}

// How many threads `items` are worth that hold so many elements together.
inline int threads_for(int64_t items, int64_t elements) {
  return static_cast<int>(std::clamp<int64_t>(std::min(items, elements / kWorthAThread), 1, omp_get_max_threads()));
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

// Tensors of one shape and dtype, whose rows are read side by side.
template <size_t N>
class Rows {
 public:
  explicit Rows(const std::array<TensorView, N>& tensors) : tensors_(tensors) {
    layouts_.reserve(N);
    for (const TensorView& each : tensors) {
      if (!alike(tensors[0], each)) TVM_FFI_THROW(ValueError) << "tensors that must be alike have two shapes or dtypes";
      layouts_.emplace_back(each);
    }
  }

  int64_t count() const { return layouts_[0].count; }
  int64_t width() const { return layouts_[0].width; }

  // Elements [begin, begin + count) of a row of each tensor, which have T's; the buffers have room for `count` floats
  // of each, and are used for those that are not dense floats already.
  template <class T>
  std::array<const float*, N> read(int64_t row, int64_t begin, int64_t count, float* buffers) const {
    std::array<const float*, N> values;
    for (size_t i = 0; i < N; ++i) {
      const T* const from = data<const T>(tensors_[i]) + layouts_[i].offset(row) + begin * layouts_[i].step;
      values[i] = widened(from, layouts_[i].step, count, buffers + i * count);
    }
    return values;
  }

 private:
  std::array<TensorView, N> tensors_;
  std::vector<Layout> layouts_;
};

// kernel(row, values, buffer) for every row of tensors of one shape and dtype: the row's elements in each of them as
// floats, and `room` floats of the thread's own. Rows are shared out among threads where there is enough to do.
template <size_t N, class Kernel>
void read_rows(const std::array<TensorView, N>& tensors, int64_t room, Kernel&& kernel) {
  const Rows<N> rows(tensors);
  const int64_t count = rows.count(), width = rows.width();
  if (count == 0) return;
  dispatch(tensors[0], [&](auto element) {
    const int threads = threads_for(count, count * width);
    const int64_t each = room + static_cast<int64_t>(N) * width;
    // Allocated here, where an exception for want of memory can still leave the kernel.
    const auto scratch = std::make_unique_for_overwrite<float[]>(each * threads);

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < count; ++row) {
      float* const buffer = scratch.get() + each * omp_get_thread_num();
      kernel(row, rows.template read<decltype(element)>(row, 0, width, buffer + room), buffer);
    }
  });
}

// kernel(row, values, buffer) for every row of x: its elements as floats, and `room` floats of the thread's own.
template <class Kernel>
void read_each_row(const TensorView& x, int64_t room, Kernel&& kernel) {
  read_rows(std::array{x}, room, [&](int64_t row, const std::array<const float*, 1>& values, float* buffer) {
    kernel(row, values[0], buffer);
  });
}

// kernel(row, values, out, width) for every row of the tensors and of y, which is like them, and dense.
template <size_t N, class Kernel>
void map_rows(const std::array<TensorView, N>& tensors, const TensorView& y, Kernel&& kernel) {
  check_output(tensors[0], y);
  const int64_t width = Layout(y).width;
  if (width == 0) return;
  dispatch(y, [&](auto element) {
    using T = decltype(element);
    T* const to = data<T>(y);
    if constexpr (std::is_same_v<T, float>) {
      read_rows(tensors, 0, [&](int64_t row, const std::array<const float*, N>& values, float*) {
        kernel(row, values, to + row * width, width);
      });
    } else {
      read_rows(tensors, width, [&](int64_t row, const std::array<const float*, N>& values, float* out) {
        kernel(row, values, out, width);
        for (int64_t i = 0; i < width; ++i) floats::narrow(out[i], to[row * width + i]);
      });
    }
  });
}

// kernel(row, in, out, width) for every row of x and of y, which has its shape and dtype and is dense.
template <class Kernel>
void for_each_numbered_row(const TensorView& x, const TensorView& y, Kernel&& kernel) {
  map_rows(std::array{x}, y, [&](int64_t row, const std::array<const float*, 1>& in, float* out, int64_t width) {
    kernel(row, in[0], out, width);
  });
}

// y[row] = kernel(x[row]) for every row.
template <class Kernel>
void for_each_row(const TensorView& x, const TensorView& y, Kernel&& kernel) {
  for_each_numbered_row(x, y, [&](int64_t, const float* in, float* out, int64_t width) { kernel(in, out, width); });
}

// Sums over samples, of which each is `group` rows in all of the tensors: `group` times width doubles, zero where there
// are no samples. add(row, values, count, sums) adds a piece of a row, `count` elements in each tensor, to the sums of
// their columns. Samples are added up in the same order whatever the number of threads.
template <size_t N, class Add>
std::vector<double> sum_over_samples(const std::array<TensorView, N>& tensors, int64_t group, Add&& add) {
  const Rows<N> rows(tensors);
  const int64_t samples = rows.count() / group, width = rows.width(), size = group * width;
  const int64_t runs = std::max<int64_t>((samples + kSamples - 1) / kSamples, 1);
  const int64_t across = (width + kPiece - 1) / kPiece, pieces = runs * group * across;
  const int threads = threads_for(pieces, samples * size);
  std::vector<double> sums(runs * size);
  dispatch(tensors[0], [&](auto element) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t piece = 0; piece < pieces; ++piece) {
      float buffers[N * kPiece];
      const int64_t run = piece / (group * across), part = piece / across % group, begin = piece % across * kPiece;
      const int64_t count = std::min(kPiece, width - begin);
      for (int64_t sample = run * kSamples; sample < std::min((run + 1) * kSamples, samples); ++sample) {
        const int64_t row = sample * group + part;
        add(row, rows.template read<decltype(element)>(row, begin, count, buffers), count,
            sums.data() + run * size + part * width + begin);
      }
    }
  });
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < size; ++i)
    for (int64_t run = 1; run < runs; ++run) sums[i] += sums[run * size + i];
  sums.resize(size);
  return sums;
}

// y = values, rounded; y is dense and has as many elements.
inline void store(const std::vector<double>& values, const TensorView& y) {
  const int64_t count = static_cast<int64_t>(values.size());
  if (y.numel() != count || !y.IsContiguous())
    TVM_FFI_THROW(ValueError) << "a parameter's gradient must be dense and have its shape";
  dispatch(y, [&](auto element) {
    using T = decltype(element);
    T* const to = data<T>(y);
#pragma omp parallel for num_threads(threads_for(count, count)) schedule(static)
    for (int64_t i = 0; i < count; ++i) floats::narrow(static_cast<float>(values[i]), to[i]);
  });
}

// y = the sum of x over its samples: the gradient of a parameter that is added to each.
inline void sum_samples(const TensorView& x, int64_t group, const TensorView& y) {
  const auto add = [](int64_t, const std::array<const float*, 1>& values, int64_t count, double* sums) {
    for (int64_t i = 0; i < count; ++i) sums[i] += values[0][i];
  };
  store(sum_over_samples(std::array{x}, group, add), y);
}

// What a ReLU that gave y lets through of its cotangent, as dense floats.
inline std::unique_ptr<float[]> through_relu(const TensorView& cotangent, const TensorView& y) {
  const int64_t width = Layout(y).width;
  auto passed = std::make_unique_for_overwrite<float[]>(y.numel());
  read_rows(std::array{cotangent, y}, 0, [&, to = passed.get()](int64_t row, const auto& values, float*) {
    for (int64_t i = 0; i < width; ++i) to[row * width + i] = values[1][i] > 0.0f ? values[0][i] : 0.0f;
  });
  return passed;
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
