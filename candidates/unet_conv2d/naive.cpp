// 2D convolution with stride and zero padding, as a product of the filters with patches of the padded image.
#include "conv.h"

void unet_conv2d(rows::TensorView x, rows::TensorView weight, rows::TensorView bias, int64_t stride, int64_t padding,
                 rows::TensorView y) {
  if (x.ndim() != 4 || weight.ndim() != 4 || bias.numel() != weight.size(0))
    TVM_FFI_THROW(ValueError) << "x and weight must have four dimensions, bias one element per filter";
  const int64_t height = conv::windows(x.size(2), weight.size(2), stride, padding);
  const int64_t width = conv::windows(x.size(3), weight.size(3), stride, padding);
  images::check_output(x, y, x.size(0), weight.size(0), height, width);

  const images::Padded padded(x, padding);
  const conv::Filters filters(weight);
  const std::vector<float> biases = rows::vector_of_floats(bias);
  rows::dispatch(y, [&](auto element) {
    using T = decltype(element);
    T* const to = rows::data<T>(y);
    const auto store = [&](int64_t image, int64_t filter, int64_t first, int64_t count, const float* sums) {
      T* const begin = to + (image * filters.count + filter) * height * width + first;
      for (int64_t i = 0; i < count; ++i) floats::narrow(sums[i] + biases[filter], begin[i]);
    };
    conv::convolve(padded, filters, conv::corners(padded, height, width, stride), store);
  });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(unet_conv2d, unet_conv2d);
