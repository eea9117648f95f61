// Batches of images (n c h w) for CPU kernels: what an output must be, and float copies with room for padding.
#pragma once

#include "rows.h"

namespace images {

using rows::TensorView;

// How many threads `items` are worth that cost `work` elementary operations together.
inline int threads_for(int64_t items, int64_t work, int64_t worth_a_thread) {
  return static_cast<int>(std::clamp<int64_t>(std::min(items, work / worth_a_thread), 1, omp_get_max_threads()));
}

// Refuse an output that is not a dense batch of n images of c channels, h rows and w columns, of x's dtype.
inline void check_output(const TensorView& x, const TensorView& y, int64_t n, int64_t c, int64_t h, int64_t w) {
  const DLDataType from = x.dtype(), to = y.dtype();
  const bool same_dtype = from.code == to.code && from.bits == to.bits && from.lanes == to.lanes;
  const bool shaped = y.ndim() == 4 && y.size(0) == n && y.size(1) == c && y.size(2) == h && y.size(3) == w;
  if (!shaped || !same_dtype) TVM_FFI_THROW(ValueError) << "the output must have the result's shape and x's dtype";
  if (!y.IsContiguous()) TVM_FFI_THROW(ValueError) << "the output must be dense";
}

// Images as dense floats with a frame of `padding` zeros around every channel, and `spare` more at every row's end.
struct Padded {
  Padded(int64_t n, int64_t c, int64_t h, int64_t w, int64_t padding, int64_t spare = 0)
      : n(n), c(c), h(h), w(w), padding(padding), pitch(w + 2 * padding + spare), plane((h + 2 * padding) * pitch),
        values(std::make_unique<float[]>(n * c * plane)) {}

  // A copy of a tensor of any strides and dtype.
  Padded(const TensorView& x, int64_t padding, int64_t spare = 0)
      : Padded(x.size(0), x.size(1), x.size(2), x.size(3), padding, spare) {
    const rows::Layout layout(x);
    rows::dispatch(x, [&](auto element) {
      using T = decltype(element);
      const T* const from = rows::data<const T>(x);
#pragma omp parallel for num_threads(threads_for(layout.count, layout.count * w, rows::kWorthAThread))
      for (int64_t i = 0; i < layout.count; ++i) {
        float* const to = row(i / h, i % h);
        const T* const begin = from + layout.offset(i);
        for (int64_t j = 0; j < w; ++j) to[j] = floats::widen(begin[j * layout.step]);
      }
    });
  }

  // Where a row of a channel begins, after its padding; channels are counted over all images.
  float* row(int64_t channel, int64_t y) const {
    return values.get() + channel * plane + (y + padding) * pitch + padding;
  }

  int64_t n, c, h, w, padding;
  int64_t pitch;  // elements from a row to the next
  int64_t plane;  // elements of a channel
  std::unique_ptr<float[]> values;
};

}  // namespace images
