// Convolution, bias, ReLU and a 2x2 max pool in one go: only outputs that the pool sees are computed, in an order in
// which the four of a window are easily compared, and ReLU is applied to the largest alone.
#include "conv.h"

namespace {

constexpr int64_t kWindows = conv::kTile / 4;  // pool windows that a tile of outputs makes up

// Corners of outputs, tile by tile: the upper left ones of kWindows pool windows, then the upper right ones, and so on.
// The last tile repeats its last window.
std::vector<int64_t> pooled_corners(const images::Padded& x, int64_t height, int64_t width) {
  std::vector<int64_t> found;
  for (int64_t first = 0; first < height * width; first += kWindows)
    for (int64_t i = 0; i < conv::kTile; ++i) {
      const int64_t window = std::min(first + i % kWindows, height * width - 1), part = i / kWindows;
      found.push_back((window / width * 2 + part / 2) * x.pitch + window % width * 2 + part % 2);
    }
  return found;
}

// The gradient of the convolution's outputs: of each pool window the first of the largest has what the ReLU lets
// through of the window's cotangent, all others have nothing.
images::Padded outputs_gradient(const images::Padded& x, const conv::Filters& filters, const float* passed,
                                int64_t height, int64_t width) {
  const int64_t h = x.h - filters.height + 1, w = x.w - filters.width + 1;
  images::Padded outputs(x.n, filters.count, h, w, filters.width - 1);
  const auto route = [&](int64_t image, int64_t filter, int64_t first, int64_t, const float* sums) {
    const int64_t begin = first / 4, count = std::min(kWindows, height * width - begin);
    const int64_t channel = image * filters.count + filter;
    for (int64_t i = 0; i < count; ++i) {
      int64_t largest = 0;
      for (int64_t part = 1; part < 4; ++part)
        if (sums[i + part * kWindows] > sums[i + largest * kWindows]) largest = part;
      const int64_t window = begin + i, row = window / width * 2 + largest / 2;
      outputs.row(channel, row)[window % width * 2 + largest % 2] = passed[channel * height * width + window];
    }
  };
  conv::convolve(x, filters, pooled_corners(x, height, width), route);
  return outputs;
}

}  // namespace

void mnist_conv_relu_pool(rows::TensorView x, rows::TensorView weight, rows::TensorView bias, rows::TensorView y) {
  if (x.ndim() != 4 || weight.ndim() != 4 || bias.numel() != weight.size(0))
    TVM_FFI_THROW(ValueError) << "x and weight must have four dimensions, bias one element per filter";
  const int64_t height = conv::windows(x.size(2), weight.size(2), 1, 0) / 2;
  const int64_t width = conv::windows(x.size(3), weight.size(3), 1, 0) / 2;
  images::check_output(x, y, x.size(0), weight.size(0), height, width);

  const images::Padded images(x, 0);
  const conv::Filters filters(weight);
  const std::vector<float> biases = rows::vector_of_floats(bias);
  rows::dispatch(y, [&](auto element) {
    using T = decltype(element);
    T* const to = rows::data<T>(y);
    const auto pool = [&](int64_t image, int64_t filter, int64_t first, int64_t, const float* sums) {
      const int64_t window = first / 4, count = std::min(kWindows, height * width - window);
      T* const begin = to + (image * filters.count + filter) * height * width + window;
      for (int64_t i = 0; i < count; ++i) {
        const float upper = std::max(sums[i], sums[i + kWindows]);
        const float lower = std::max(sums[i + 2 * kWindows], sums[i + 3 * kWindows]);
        floats::narrow(std::max(std::max(upper, lower) + biases[filter], 0.0f), begin[i]);
      }
    };
    conv::convolve(images, filters, pooled_corners(images, height, width), pool);
  });
}

// Where in its window the largest output was is found by convolving once more.
void backward(rows::TensorView cotangent, rows::TensorView x, rows::TensorView weight, rows::TensorView bias,
              rows::TensorView y, rows::TensorView x_gradient, rows::TensorView weight_gradient,
              rows::TensorView bias_gradient) {
  if (x.ndim() != 4 || weight.ndim() != 4 || y.ndim() != 4 || weight.size(2) != weight.size(3))
    TVM_FFI_THROW(ValueError) << "x, weight and y must have four dimensions, filters as many rows as columns";
  rows::check_output(x, x_gradient);
  rows::check_output(weight, weight_gradient);
  rows::check_output(bias, bias_gradient);
  const images::Padded images(x, 0, weight.size(3) - 1);
  const auto passed = rows::through_relu(cotangent, y);
  const images::Padded outputs = outputs_gradient(images, conv::Filters(weight), passed.get(), y.size(2), y.size(3));
  conv::input_gradient(outputs, weight, x_gradient);
  conv::weight_gradient(images, outputs, weight_gradient);

  const int64_t size = y.size(2) * y.size(3), filters = y.size(1);
  std::vector<double> sums(filters);
#pragma omp parallel for num_threads(rows::threads_for(filters, y.numel())) schedule(static)
  for (int64_t filter = 0; filter < filters; ++filter)
    for (int64_t image = 0; image < y.size(0); ++image) {
      const float* const channel = passed.get() + (image * filters + filter) * size;
      sums[filter] += floats::total(size, [channel](int64_t i) { return double{channel[i]}; });
    }
  rows::store(sums, bias_gradient);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mnist_conv_relu_pool, mnist_conv_relu_pool);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
