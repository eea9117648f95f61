// Max pooling over square windows that tile an image, on a GPU; a window that holds a NaN gives NaN. A thread makes one
// window, of any size and of an image of any strides. For dense images and 2x2 windows it reads four elements of two
// rows at once and makes two windows of them, twice.
#include "tensors_gpu.h"

namespace {

using gpu::TensorView;

constexpr int kThreads = 256;
constexpr int kPairs = 4;  // elements of an image's row that make a vector of two windows
constexpr int kEach = 2;   // such vectors of a thread

template <class T>
struct Images {
  const T* data;
  int64_t channels, height, width;
  int64_t image, channel, down, right;  // strides, in elements

  __device__ const T* at(int64_t plane, int64_t row, int64_t column) const {
    return data + plane / channels * image + plane % channels * channel + row * down + column * right;
  }
};

__device__ float larger(float a, float b) { return b > a || b != b ? b : a; }

template <class T>
__global__ void pool_windows(Images<T> x, int64_t kernel, int64_t height, int64_t width, int64_t count, T* y) {
  const int64_t window = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (window >= count) return;
  const int64_t row = window / width, column = window % width;
  const T* const corner = x.at(row / height, row % height * kernel, column * kernel);
  float largest = -INFINITY;
  for (int64_t i = 0; i < kernel; ++i)
    for (int64_t j = 0; j < kernel; ++j) largest = larger(largest, gpu::widen(corner[i * x.down + j * x.right]));
  gpu::narrow(largest, y[window]);
}

// Dense images, whose rows have `across` vectors: `count` pairs of 2x2 windows.
template <class T>
__global__ void pool_pairs(gpu::Source<T, kPairs> x, unsigned across, unsigned rows, unsigned height, unsigned count,
                           T* y) {
  const unsigned first = blockIdx.x * kThreads * kEach + threadIdx.x;
  float values[kEach][2][kPairs];
#pragma unroll
  for (int n = 0; n < kEach; ++n) {
    const unsigned pair = first + n * kThreads, row = pair / across;
    const int64_t upper = (int64_t{row / height} * rows + row % height * 2) * across + pair % across;
    for (int i = 0; i < 2; ++i)
      if (pair < count) x.read(upper + i * across, values[n][i]);
  }
#pragma unroll
  for (int n = 0; n < kEach; ++n) {
    if (first + n * kThreads >= count) return;
    float columns[kPairs], out[kPairs / 2];
    for (int i = 0; i < kPairs; ++i) columns[i] = larger(values[n][0][i], values[n][1][i]);
    for (int i = 0; i < kPairs / 2; ++i) out[i] = larger(columns[2 * i], columns[2 * i + 1]);
    gpu::store(y, first + n * kThreads, out);
  }
}

// Zero but for the first of a window's largest elements, row by row, which has the cotangent of the window. A thread
// fills a window, or what is left of one at the right and the lower edge.
template <class T>
__global__ void fill_windows(gpu::Source<T, 1> cotangent, Images<T> x, int64_t kernel, int64_t across, int64_t cells,
                             T* gradient) {
  const int64_t cell = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (cell >= cells) return;
  const int64_t down = (x.height + kernel - 1) / kernel, plane = cell / across / down;
  const int64_t row = cell / across % down, column = cell % across;
  const int64_t height = min(kernel, x.height - row * kernel), width = min(kernel, x.width - column * kernel);
  const T* const corner = x.at(plane, row * kernel, column * kernel);
  int64_t chosen_row = 0, chosen_column = 0;
  float largest = -INFINITY;
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      const float value = gpu::widen(corner[i * x.down + j * x.right]);
      if (value > largest || value != value) largest = value, chosen_row = i, chosen_column = j;
    }
  }
  const bool whole = height == kernel && width == kernel;
  const int64_t window = (plane * (x.height / kernel) + row) * (x.width / kernel) + column;
  const float given = whole ? cotangent.at(window) : 0.0f;
  T* const to = gradient + (plane * x.height + row * kernel) * x.width + column * kernel;
  for (int64_t i = 0; i < height; ++i)
    for (int64_t j = 0; j < width; ++j)
      gpu::narrow(i == chosen_row && j == chosen_column ? given : 0.0f, to[i * x.width + j]);
}

template <class T>
Images<T> images(const TensorView& x) {
  return {gpu::data<const T>(x), x.size(1),   x.size(2),   x.size(3),
          x.stride(0),           x.stride(1), x.stride(2), x.stride(3)};
}

gpu::Grid grid(int64_t threads) { return {static_cast<unsigned>(gpu::quotient_up(threads, kThreads)), kThreads}; }

// Refuse an x that is no batch of images, and a y (or its cotangent) that has not one element per window.
void check(const TensorView& x, int64_t kernel, const TensorView& y) {
  if (x.ndim() != 4 || kernel < 1) TVM_FFI_THROW(ValueError) << "x must be images (n c h w), the kernel at least 1";
  const bool shaped = y.ndim() == 4 && y.size(0) == x.size(0) && y.size(1) == x.size(1) &&
                      y.size(2) == x.size(2) / kernel && y.size(3) == x.size(3) / kernel;
  if (!shaped) TVM_FFI_THROW(ValueError) << "there must be one element per window";
}

}  // namespace

void mnist_pool(TensorView x, int64_t kernel, TensorView y) {
  check(x, kernel, y);
  gpu::check_alike({x, y});
  gpu::check_shapes(y, {}, {y});
  if (y.numel() == 0) return;
  gpu::Device device(x);
  const int64_t height = y.size(2), width = y.size(3), pairs = y.numel() / 2;
  gpu::dispatch(1, {x}, [&]<class T, int>() {
    T* const to = gpu::data<T>(y);
    const bool fast = kernel == 2 && x.size(3) % kPairs == 0 && pairs <= INT32_MAX &&
                      gpu::readable({x, y}, kPairs * sizeof(T));
    if (!fast) {
      gpu::launch(device.stream(), grid(y.numel()), pool_windows<T>, images<T>(x), kernel, height, width, y.numel(),
                  to);
      return;
    }
    const auto across = static_cast<unsigned>(x.size(3) / kPairs), rows = static_cast<unsigned>(x.size(2));
    gpu::launch(device.stream(), grid(gpu::quotient_up(pairs, kEach)), pool_pairs<T>, gpu::source<T, kPairs>(x), across,
                rows, height, pairs, to);
  });
}

void backward(TensorView cotangent, TensorView x, int64_t kernel, TensorView y, TensorView gradient) {
  check(x, kernel, cotangent);
  gpu::check_alike({cotangent, x, y, gradient});
  gpu::check_shapes(x, {}, {gradient});
  if (x.numel() == 0) return;
  gpu::Device device(x);
  const int64_t across = gpu::quotient_up(x.size(3), kernel);
  const int64_t cells = x.size(0) * x.size(1) * gpu::quotient_up(x.size(2), kernel) * across;
  gpu::dispatch(1, {x}, [&]<class T, int>() {
    gpu::launch(device.stream(), grid(cells), fill_windows<T>, gpu::source<T, 1>(cotangent), images<T>(x), kernel,
                across, cells, gpu::data<T>(gradient));
  });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mnist_pool, mnist_pool);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
