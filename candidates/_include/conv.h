// Convolutions for CPU kernels, as matrix products: filters by the patches of the image that outputs look at.
//
// Patches are gathered tile by tile, never all at once. Which outputs are made, and in which order, is the caller's
// choice: a list of the corners of their windows. So strides are no concern of this file, and a pooled layer can ask
// for just what its pool sees, in an order that suits it.
#pragma once

#include "gemm.h"
#include "images.h"

namespace conv {

using images::Padded;
using rows::TensorView;

inline constexpr int64_t kTile = gemm::kTileColumns;  // outputs of a channel that one thread makes at a time

// Filters (count, channels, height, width), packed for the product, and the place of each of their weights.
class Filters {
 public:
  explicit Filters(const TensorView& weight)
      : Filters(rows::vector_of_floats(weight), weight.size(0), weight.size(1), weight.size(2), weight.size(3)) {}

  Filters(const std::vector<float>& dense, int64_t count, int64_t channels, int64_t height, int64_t width)
      : count(count), channels(channels), height(height), width(width), terms(channels * height * width),
        padded((count + gemm::kRows - 1) / gemm::kRows * gemm::kRows), packed_(padded * terms) {
    const gemm::Operand rows(dense.data(), count, terms);
    for (int64_t begin = 0; begin < terms; begin += gemm::kDepth)
      gemm::pack(rows, 0, count, begin, std::min(begin + gemm::kDepth, terms), gemm::kRows,
                 packed_.data() + begin * padded);
  }

  // The panel of kRows filters from `filter` on, terms [begin, end).
  const float* panel(int64_t filter, int64_t begin, int64_t end) const {
    return packed_.data() + begin * padded + filter * (end - begin);
  }

  int64_t count, channels, height, width;
  int64_t terms;   // of an output's sum
  int64_t padded;  // filters, with those that fill the last panel

 private:
  std::vector<float> packed_;
};

// Corners of the windows of h by w outputs, row by row, as offsets in a channel of `x`; `skip` leaves padding out that
// this convolution does not have.
inline std::vector<int64_t> corners(const Padded& x, int64_t h, int64_t w, int64_t stride, int64_t skip = 0) {
  std::vector<int64_t> found;
  found.reserve(h * w);
  for (int64_t i = 0; i < h; ++i)
    for (int64_t j = 0; j < w; ++j) found.push_back((i * stride + skip) * x.pitch + j * stride + skip);
  return found;
}

// Places of a filter's weights, as offsets from the corner of a window.
inline std::vector<int64_t> places_of(const Padded& x, int64_t channels, int64_t height, int64_t width) {
  std::vector<int64_t> found;
  found.reserve(channels * height * width);
  for (int64_t channel = 0; channel < channels; ++channel)
    for (int64_t i = 0; i < height; ++i)
      for (int64_t j = 0; j < width; ++j) found.push_back(channel * x.plane + i * x.pitch + j);
  return found;
}

// How many windows of `kernel` fit, side by side or overlapping, in a padded extent.
inline int64_t windows(int64_t extent, int64_t kernel, int64_t stride, int64_t padding) {
  if (stride < 1 || padding < 0 || extent + 2 * padding < kernel)
    TVM_FFI_THROW(ValueError) << "a stride of at least 1, and a window that fits the padded image";
  return (extent + 2 * padding - kernel) / stride + 1;
}

// kTile elements at these offsets from `from`, in panels of kColumns that are `depth` lines long.
inline void gather(const float* from, const int64_t* offsets, int64_t depth, float* to) {
  for (int64_t i = 0; i < kTile; i += gemm::kColumns, to += gemm::kColumns * depth)
    for (int64_t j = 0; j < gemm::kColumns; ++j) to[j] = from[offsets[i + j]];
}

// finish(image, filter, first, count, sums) for every piece of every output channel: `count` sums, at most kTile, for
// the corners from `first` on. Pieces of an image come tile by tile from several threads, each once, in no order.
template <class Finish>
void convolve(const Padded& x, const Filters& filters, const std::vector<int64_t>& corners, Finish&& finish) {
  if (x.c != filters.channels) TVM_FFI_THROW(ValueError) << "filters and images have different numbers of channels";
  const std::vector<int64_t> places = places_of(x, filters.channels, filters.height, filters.width);
  const int64_t outputs = static_cast<int64_t>(corners.size());
  const int64_t tiles = (outputs + kTile - 1) / kTile;
  const int64_t work = x.n * outputs * filters.terms * filters.count;
  const int threads = images::threads_for(x.n * tiles, work, gemm::kWorthAThread);
  // Allocated here, where an exception for want of memory can still leave the kernel.
  const int64_t patch = kTile * gemm::kDepth, each = patch + kTile * filters.padded;
  const auto scratch = std::make_unique_for_overwrite<float[]>(each * threads);

#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t tile = 0; tile < x.n * tiles; ++tile) {
    float* const patches = scratch.get() + each * omp_get_thread_num();
    float* const sums = patches + patch;
    const int64_t image = tile / tiles, first = tile % tiles * kTile;
    const int64_t count = std::min(kTile, outputs - first);
    int64_t offsets[kTile];
    for (int64_t i = 0; i < kTile; ++i) offsets[i] = image * x.c * x.plane + corners[first + std::min(i, count - 1)];

    std::fill(sums, sums + kTile * filters.padded, 0.0f);
    for (int64_t begin = 0; begin < filters.terms; begin += gemm::kDepth) {
      const int64_t end = std::min(begin + gemm::kDepth, filters.terms), depth = end - begin;
      for (int64_t i = 0; i < depth; ++i)
        gather(x.values.get() + places[begin + i], offsets, depth, patches + i * gemm::kColumns);
      for (int64_t j = 0; j < count; j += gemm::kColumns)
        for (int64_t i = 0; i < filters.count; i += gemm::kRows)
          gemm::add_product(filters.panel(i, begin, end), patches + j * depth, depth, sums + i * kTile + j);
    }
    for (int64_t filter = 0; filter < filters.count; ++filter)
      finish(image, filter, first, count, sums + filter * kTile);
  }
}

// The gradient of x of a convolution with stride 1, for that of its outputs, whose frame of zeros is one less than the
// (square) filters: a convolution of these with the filters turned round, input and output channels exchanged.
inline void input_gradient(const Padded& outputs, const TensorView& weight, const TensorView& y) {
  const std::vector<float> dense = rows::vector_of_floats(weight);
  const int64_t count = weight.size(0), channels = weight.size(1), size = weight.size(2) * weight.size(3);
  std::vector<float> turned(dense.size());
  for (int64_t filter = 0; filter < count; ++filter)
    for (int64_t channel = 0; channel < channels; ++channel)
      std::reverse_copy(dense.data() + (filter * channels + channel) * size,
                        dense.data() + (filter * channels + channel + 1) * size,
                        turned.data() + (channel * count + filter) * size);
  const Filters filters(turned, channels, count, weight.size(2), weight.size(3));
  const int64_t h = y.size(2), w = y.size(3);
  rows::dispatch(y, [&](auto element) {
    using T = decltype(element);
    T* const to = rows::data<T>(y);
    const auto store = [&](int64_t image, int64_t channel, int64_t first, int64_t count, const float* sums) {
      T* const begin = to + (image * channels + channel) * h * w + first;
      for (int64_t i = 0; i < count; ++i) floats::narrow(sums[i], begin[i]);
    };
    convolve(outputs, filters, corners(outputs, h, w, 1), store);
  });
}

// Rows of a matrix that begin at these places in dense floats, and overlap.
class Lines {
 public:
  Lines(const float* from, const std::vector<int64_t>& places) : from_(from), places_(places.data()) {}

  void read(int64_t row, int64_t begin, int64_t end, float* to, int64_t stride) const {
    const float* const line = from_ + places_[row];
    for (int64_t i = begin; i < end; ++i) to[(i - begin) * stride] = line[i];
  }

 private:
  const float* from_;
  const int64_t* places_;
};

// The gradient of the weight of a convolution with stride 1, for that of its outputs. Both images have rows of the same
// pitch: then the outputs of a channel are one line, zero between their rows, and what a weight is multiplied with is
// a line of x that is as long.
inline void weight_gradient(const Padded& x, const Padded& outputs, const TensorView& y) {
  if (x.pitch != outputs.pitch) TVM_FFI_THROW(ValueError) << "images and outputs have rows of different pitch";
  const std::vector<int64_t> places = places_of(x, y.size(1), y.size(2), y.size(3));
  std::vector<int64_t> channels;
  for (int64_t i = 0; i < outputs.c; ++i) channels.push_back(outputs.row(i, 0) - outputs.values.get());
  const int64_t length = (outputs.h - 1) * outputs.pitch + outputs.w;
  const int64_t parts = (length + gemm::kPart - 1) / gemm::kPart;
  const auto part = [&](int64_t i) {
    const int64_t image = i / parts, begin = i % parts * gemm::kPart;
    return gemm::Part<Lines, Lines>{Lines(outputs.values.get() + image * outputs.c * outputs.plane, channels),
                                    Lines(x.values.get() + image * x.c * x.plane, places), begin,
                                    std::min(begin + gemm::kPart, length)};
  };
  const int64_t terms = static_cast<int64_t>(places.size());
  gemm::add_up_products(x.n * parts, part, outputs.c, terms, x.n * length * terms * outputs.c, y);
}

}  // namespace conv
