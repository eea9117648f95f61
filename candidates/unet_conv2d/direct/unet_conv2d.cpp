// 2D convolution by its definition, a row of the output at a time: every weight scales a row of the padded image.
// What a channel contributes is summed before it is added to the other channels, so that no sum is very long.
#include "images.h"
#include "lines.h"

void unet_conv2d(rows::TensorView x, rows::TensorView weight, rows::TensorView bias, int64_t stride, int64_t padding,
                 rows::TensorView y) {
  if (x.ndim() != 4 || weight.ndim() != 4 || weight.size(1) != x.size(1) || bias.numel() != weight.size(0))
    TVM_FFI_THROW(ValueError) << "filters must have x's channels, and bias one element per filter";
  const int64_t filters = weight.size(0), channels = weight.size(1), tall = weight.size(2), wide = weight.size(3);
  if (stride < 1 || padding < 0 || x.size(2) + 2 * padding < tall || x.size(3) + 2 * padding < wide)
    TVM_FFI_THROW(ValueError) << "a stride of at least 1, and a window that fits the padded image";
  const int64_t height = (x.size(2) + 2 * padding - tall) / stride + 1;
  const int64_t width = (x.size(3) + 2 * padding - wide) / stride + 1;
  images::check_output(x, y, x.size(0), filters, height, width);

  const images::Padded padded(x, padding);
  const std::vector<float> weights = rows::vector_of_floats(weight), biases = rows::vector_of_floats(bias);
  const int64_t count = x.size(0) * filters * height, terms = channels * tall * wide;
  const int threads = images::threads_for(count, count * width * terms, int64_t{1} << 17);
  const auto scratch = std::make_unique_for_overwrite<float[]>(2 * width * threads);
  rows::dispatch(y, [&](auto element) {
    using T = decltype(element);
    T* const to = rows::data<T>(y);

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < count; ++row) {
      const int64_t image = row / height / filters, filter = row / height % filters, top = row % height * stride;
      float* const total = scratch.get() + 2 * width * omp_get_thread_num();
      float* const part = total + width;
      std::fill(total, total + width, biases[filter]);
      const float* factor = weights.data() + filter * terms;
      for (int64_t channel = 0; channel < channels; ++channel) {
        std::fill(part, part + width, 0.0f);
        for (int64_t i = 0; i < tall; ++i) {
          const float* const from = padded.row(image * channels + channel, top + i - padding) - padding;
          for (int64_t j = 0; j < wide; ++j) lines::add_scaled(*factor++, from + j, stride, part, width);
        }
        lines::add(part, total, width);
      }
      for (int64_t i = 0; i < width; ++i) floats::narrow(total[i], to[row * width + i]);
    }
  });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(unet_conv2d, unet_conv2d);
