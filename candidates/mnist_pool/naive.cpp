// Max pooling over square windows that tile an image; a window that holds a NaN gives NaN.
// An output row is made in two steps: the larger of `kernel` input rows, column by column, then of `kernel` columns.
#include <limits>

#include "images.h"

namespace {

inline float larger(float a, float b) { return b > a || b != b ? b : a; }

void take_larger(const float* from, float* into, int64_t width) {
  for (int64_t i = 0; i < width; ++i) into[i] = larger(into[i], from[i]);
}

// out[i] = the largest of columns[i * kernel] to columns[i * kernel + kernel - 1]
void pool_columns(const float* columns, int64_t kernel, float* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = columns[i * kernel];
  for (int64_t j = 1; j < kernel; ++j)
    for (int64_t i = 0; i < count; ++i) out[i] = larger(out[i], columns[i * kernel + j]);
}

// Per window, the first of the largest elements so far and its place, after one more row of the image, at `offset`.
void take_first_largest(const float* row, int64_t kernel, int64_t offset, int64_t count, float* largest,
                        int64_t* place) {
  for (int64_t j = 0; j < kernel; ++j) {
    for (int64_t i = 0; i < count; ++i) {
      const float value = row[i * kernel + j];
      const bool taken = value > largest[i];
      largest[i] = taken ? value : largest[i];
      place[i] = taken ? offset + j : place[i];
    }
  }
}

}  // namespace

void mnist_pool(rows::TensorView x, int64_t kernel, rows::TensorView y) {
  if (x.ndim() != 4 || kernel < 1) TVM_FFI_THROW(ValueError) << "x must be images (n c h w), the kernel at least 1";
  const int64_t height = x.size(2) / kernel, width = x.size(3) / kernel;
  images::check_output(x, y, x.size(0), x.size(1), height, width);

  const rows::Layout layout(x);
  const int64_t count = x.size(0) * x.size(1) * height;  // output rows
  const int64_t used = width * kernel;                   // columns that fill a window
  const int threads = images::threads_for(count, count * used * kernel, rows::kWorthAThread);
  rows::dispatch(x, [&](auto element) {
    using T = decltype(element);
    const T* const from = rows::data<const T>(x);
    T* const to = rows::data<T>(y);
    const int64_t each = 2 * used + width;
    const auto scratch = std::make_unique_for_overwrite<float[]>(each * threads);

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < count; ++row) {
      float* const columns = scratch.get() + each * omp_get_thread_num();
      float* const buffer = columns + used;
      float* const out = buffer + used;
      std::fill(columns, columns + used, -std::numeric_limits<float>::infinity());
      const int64_t first = row / height * x.size(2) + row % height * kernel;
      for (int64_t i = first; i < first + kernel; ++i)
        take_larger(rows::widened(from + layout.offset(i), layout.step, used, buffer), columns, used);
      pool_columns(columns, kernel, out, width);
      for (int64_t i = 0; i < width; ++i) floats::narrow(out[i], to[row * width + i]);
    }
  });
}

// Zero but for the first of a window's largest elements, row by row, which has the cotangent of the window. Each row of
// windows is a thread's own; the last one of an image has the rows below it too, that fill no window.
void backward(rows::TensorView cotangent, rows::TensorView x, int64_t kernel, rows::TensorView,
              rows::TensorView gradient) {
  if (x.ndim() != 4 || kernel < 1) TVM_FFI_THROW(ValueError) << "x must be images (n c h w), the kernel at least 1";
  rows::check_output(x, gradient);
  const rows::Layout layout(x), windows(cotangent);
  const int64_t rows = x.size(2), columns = x.size(3), height = rows / kernel, width = columns / kernel;
  const int64_t count = x.size(0) * x.size(1) * height;  // rows of windows
  if (windows.count != count || windows.width != width)
    TVM_FFI_THROW(ValueError) << "the cotangent must have one element per window";
  const int threads = images::threads_for(count, x.numel(), rows::kWorthAThread);
  rows::dispatch(x, [&](auto element) {
    using T = decltype(element);
    const T* const from = rows::data<const T>(x);
    const T* const c = rows::data<const T>(cotangent);
    T* const to = rows::data<T>(gradient);
    const int64_t used = width * kernel;
    const auto buffers = std::make_unique_for_overwrite<float[]>((used + width) * threads);
    const auto places = std::make_unique_for_overwrite<int64_t[]>(width * threads);

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < count; ++row) {
      float* const largest = buffers.get() + (used + width) * omp_get_thread_num();
      int64_t* const place = places.get() + width * omp_get_thread_num();
      const int64_t first = row / height * rows + row % height * kernel;
      const int64_t last = row % height + 1 < height ? first + kernel : (row / height + 1) * rows;
      std::fill(to + first * columns, to + last * columns, T{});
      std::fill(largest, largest + width, -std::numeric_limits<float>::infinity());
      std::fill(place, place + width, 0);
      for (int64_t i = 0; i < kernel; ++i) {
        const T* const line = from + layout.offset(first + i);
        take_first_largest(rows::widened(line, layout.step, used, largest + width), kernel, i * columns, width, largest,
                           place);
      }
      const T* const given = c + windows.offset(row);
      for (int64_t i = 0; i < width; ++i) to[first * columns + i * kernel + place[i]] = given[i * windows.step];
    }
  });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mnist_pool, mnist_pool);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
