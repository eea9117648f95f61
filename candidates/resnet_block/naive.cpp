// A residual block at inference: two 3x3 convolutions with their batch norms, the shortcut, ReLU. Intermediate results
// are floats, and every norm is one multiplication and one addition in the convolution that it follows.
#include <cmath>

#include "conv.h"

namespace {

using rows::TensorView;

// A batch norm at inference: norm(x) = x * scale + shift, per channel.
struct Norm {
  Norm(const TensorView& mean, const TensorView& var, const TensorView& weight, const TensorView& bias, double eps)
      : scale(rows::vector_of_floats(weight)), shift(rows::vector_of_floats(bias)) {
    const std::vector<float> means = rows::vector_of_floats(mean), vars = rows::vector_of_floats(var);
    if (means.size() != scale.size() || vars.size() != scale.size() || shift.size() != scale.size())
      TVM_FFI_THROW(ValueError) << "the parameters of a norm must have one element per channel";
    for (size_t i = 0; i < scale.size(); ++i) {
      const double factor = scale[i] / std::sqrt(vars[i] + eps);
      scale[i] = static_cast<float>(factor);
      shift[i] = static_cast<float>(shift[i] - means[i] * factor);
    }
  }

  std::vector<float> scale, shift;
};

inline float relu(float x) { return std::max(x, 0.0f); }

void check_filters(const TensorView& weight, const Norm& norm, int64_t size) {
  const bool square = weight.ndim() == 4 && weight.size(2) == size && weight.size(3) == size;
  if (!square || weight.size(0) != static_cast<int64_t>(norm.scale.size()))
    TVM_FFI_THROW(ValueError) << "filters must be " << size << "x" << size << ", with one channel of the norm each";
}

// relu(norm(convolution of x)), in a frame for the next convolution.
images::Padded first_half(const images::Padded& x, const conv::Filters& filters, const Norm& norm, int64_t stride) {
  const int64_t height = conv::windows(x.h, 3, stride, 1), width = conv::windows(x.w, 3, stride, 1);
  images::Padded y(x.n, filters.count, height, width, 1);
  const std::vector<int64_t> places = conv::corners(y, height, width, 1, 1);
  const auto store = [&](int64_t image, int64_t filter, int64_t first, int64_t count, const float* sums) {
    float* const plane = y.values.get() + (image * y.c + filter) * y.plane;
    for (int64_t i = 0; i < count; ++i)
      plane[places[first + i]] = relu(sums[i] * norm.scale[filter] + norm.shift[filter]);
  };
  conv::convolve(x, filters, conv::corners(x, height, width, stride), store);
  return y;
}

// norm(1x1 convolution of x), without a frame; `height` by `width` is what the block makes of x.
images::Padded downsampled(const images::Padded& x, const conv::Filters& filters, const Norm& norm, int64_t stride,
                           int64_t height, int64_t width) {
  images::Padded y(x.n, filters.count, height, width, 0);
  const auto store = [&](int64_t image, int64_t filter, int64_t first, int64_t count, const float* sums) {
    float* const begin = y.values.get() + (image * y.c + filter) * y.plane + first;
    for (int64_t i = 0; i < count; ++i) begin[i] = sums[i] * norm.scale[filter] + norm.shift[filter];
  };
  conv::convolve(x, filters, conv::corners(x, height, width, stride, x.padding), store);
  return y;
}

// y = relu(norm(convolution of x) + shortcut)
void second_half(const images::Padded& x, const conv::Filters& filters, const Norm& norm,
                 const images::Padded& shortcut, const TensorView& y) {
  const std::vector<int64_t> places = conv::corners(shortcut, x.h, x.w, 1, shortcut.padding);
  rows::dispatch(y, [&](auto element) {
    using T = decltype(element);
    T* const to = rows::data<T>(y);
    const auto store = [&](int64_t image, int64_t filter, int64_t first, int64_t count, const float* sums) {
      const int64_t channel = image * filters.count + filter;
      const float* const added = shortcut.values.get() + channel * shortcut.plane;
      T* const begin = to + channel * x.h * x.w + first;
      for (int64_t i = 0; i < count; ++i)
        floats::narrow(relu(sums[i] * norm.scale[filter] + norm.shift[filter] + added[places[first + i]]), begin[i]);
    };
    conv::convolve(x, filters, conv::corners(x, x.h, x.w, 1), store);
  });
}

}  // namespace

void resnet_block(TensorView x, TensorView w1, TensorView bn1_mean, TensorView bn1_var, TensorView bn1_weight,
                  TensorView bn1_bias, TensorView w2, TensorView bn2_mean, TensorView bn2_var, TensorView bn2_weight,
                  TensorView bn2_bias, tvm::ffi::Optional<TensorView> wd, tvm::ffi::Optional<TensorView> bnd_mean,
                  tvm::ffi::Optional<TensorView> bnd_var, tvm::ffi::Optional<TensorView> bnd_weight,
                  tvm::ffi::Optional<TensorView> bnd_bias, int64_t stride, double eps, TensorView y) {
  if (x.ndim() != 4) TVM_FFI_THROW(ValueError) << "x must be images (n c h w)";
  const Norm norm1(bn1_mean, bn1_var, bn1_weight, bn1_bias, eps), norm2(bn2_mean, bn2_var, bn2_weight, bn2_bias, eps);
  check_filters(w1, norm1, 3);
  check_filters(w2, norm2, 3);

  const images::Padded padded(x, 1);
  const images::Padded middle = first_half(padded, conv::Filters(w1), norm1, stride);
  images::check_output(x, y, x.size(0), w2.size(0), middle.h, middle.w);
  if (wd.has_value()) {
    const Norm norm(bnd_mean.value(), bnd_var.value(), bnd_weight.value(), bnd_bias.value(), eps);
    check_filters(wd.value(), norm, 1);
    const conv::Filters filters(wd.value());
    second_half(middle, conv::Filters(w2), norm2,
                downsampled(padded, filters, norm, stride, middle.h, middle.w), y);
  } else if (x.size(1) == w2.size(0) && stride == 1) {
    second_half(middle, conv::Filters(w2), norm2, padded, y);
  } else {
    TVM_FFI_THROW(ValueError) << "a block that changes the shape needs filters for its shortcut";
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(resnet_block, resnet_block);
