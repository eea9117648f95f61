// Matrix products for CPU kernels: tiles of the result, each made by one thread from packed panels of both operands.
//
// Both operands are read along their rows, as a linear layer reads its input (rows, depth) and its weight (columns,
// depth): `multiply` sums a[row] . b[column] and hands the sums, piece by piece, to a function that finishes them: adds
// a bias, rounds, stores. `linear` is the whole layer. Operands are float32, float16 or bfloat16, of any strides. In
// gradients they are read along their columns too (`Columns`), and sums may be as long as a batch (`add_up_products`).
#pragma once

#include <cstring>

#include "rows.h"

namespace gemm {

using rows::TensorView;

#if defined(__AVX512F__)
inline constexpr int64_t kLanes = 16;
#else
inline constexpr int64_t kLanes = 8;
#endif
using Lanes __attribute__((vector_size(kLanes * sizeof(float)))) = float;

inline constexpr int64_t kRows = 6;                // of a panel of a; with kColumns the sums that fill the registers
inline constexpr int64_t kColumns = 2 * kLanes;    // of a panel of b
inline constexpr int64_t kDepth = 256;             // terms summed in registers, which also keeps rounding from growing
inline constexpr int64_t kTileRows = 16 * kRows;   // of what one thread makes at a time
inline constexpr int64_t kTileColumns = 128;       // likewise; a multiple of kColumns
inline constexpr int64_t kWorthAThread = 1 << 18;  // multiplications; fewer cost less than waking another thread
inline constexpr int64_t kPart = 8 * kDepth;       // terms that one thread sums up at a time where sums are long

// A matrix that is read along its rows: a tensor, its last dimension being the row, or dense floats.
class Operand {
 public:
  explicit Operand(const TensorView& tensor) : layout_(tensor) {
    rows::dispatch(tensor, [&](auto element) {
      using T = decltype(element);
      data_ = rows::data<const T>(tensor);
      read_ = &read_as<T>;
    });
  }

  Operand(const float* dense, int64_t rows, int64_t depth)
      : layout_(rows, depth), data_(dense), read_(&read_as<float>) {}

  int64_t rows() const { return layout_.count; }
  int64_t depth() const { return layout_.width; }

  // Elements [begin, end) of a row, as floats, to every `stride`th place from `to` on.
  void read(int64_t row, int64_t begin, int64_t end, float* to, int64_t stride) const {
    read_(data_, layout_.offset(row) + begin * layout_.step, layout_.step, end - begin, to, stride);
  }

 private:
  template <class T>
  static void read_as(const void* data, int64_t offset, int64_t step, int64_t count, float* to, int64_t stride) {
    const T* const from = static_cast<const T*>(data) + offset;
    for (int64_t i = 0; i < count; ++i) to[i * stride] = floats::widen(from[i * step]);
  }

  rows::Layout layout_;
  const void* data_ = nullptr;
  void (*read_)(const void*, int64_t, int64_t, int64_t, float*, int64_t) = nullptr;
};

// A matrix that is read along its columns, that is the transpose of a tensor whose last dimension is the row, or of
// dense floats.
class Columns {
 public:
  explicit Columns(const TensorView& tensor) : layout_(tensor) {
    rows::dispatch(tensor, [&](auto element) {
      using T = decltype(element);
      data_ = rows::data<const T>(tensor);
      read_ = &read_as<T>;
    });
  }

  Columns(const float* dense, int64_t depth, int64_t rows)
      : layout_(depth, rows), data_(dense), read_(&read_as<float>) {}

  int64_t rows() const { return layout_.width; }
  int64_t depth() const { return layout_.count; }

  // Element `at` of each of the rows [first, last), as floats: `width` side by side, the next ones `stride` further on.
  void read(int64_t at, int64_t first, int64_t last, int64_t width, float* to, int64_t stride) const {
    const int64_t begin = layout_.offset(at);
    for (; first < last; first += width, to += stride)
      read_(data_, begin + first * layout_.step, layout_.step, std::min(width, last - first), to);
  }

 private:
  template <class T>
  static void read_as(const void* data, int64_t offset, int64_t step, int64_t count, float* to) {
    const T* const from = static_cast<const T*>(data) + offset;
    for (int64_t i = 0; i < count; ++i) to[i] = floats::widen(from[i * step]);
  }

  rows::Layout layout_;
  const void* data_ = nullptr;
  void (*read_)(const void*, int64_t, int64_t, int64_t, float*) = nullptr;
};

// What one thread works in: a tile's share of both operands, packed, and its sums.
struct Scratch {
  alignas(64) float a[kTileRows * kDepth];
  alignas(64) float b[kTileColumns * kDepth];
  alignas(64) float sums[kTileRows * kTileColumns];
};

// Rows [first, last), elements [begin, end) of each, in panels of `width` rows whose elements lie side by side.
// What is missing from the last panel is zero.
template <class Matrix>
void pack(const Matrix& from, int64_t first, int64_t last, int64_t begin, int64_t end, int64_t width, float* to) {
  const int64_t depth = end - begin;
  for (int64_t panel = first; panel < last; panel += width, to += width * depth) {
    if (last - panel < width) std::fill(to, to + width * depth, 0.0f);
    for (int64_t row = panel; row < std::min(panel + width, last); ++row)
      from.read(row, begin, end, to + (row - panel), width);
  }
}

inline void pack(const Columns& from, int64_t first, int64_t last, int64_t begin, int64_t end, int64_t width,
                 float* to) {
  const int64_t depth = end - begin, missing = last - (last - first) % width;  // of a last panel that is not full
  if (missing < last) std::fill(to + (missing - first) * depth, to + (missing - first + width) * depth, 0.0f);
  for (int64_t i = begin; i < end; ++i) from.read(i, first, last, width, to + (i - begin) * width, width * depth);
}

// Add the product of a panel of a and one of b to kRows by kColumns sums; all of them stay in registers meanwhile.
inline void add_product(const float* a, const float* b, int64_t depth, float* sums) {
  Lanes held[kRows][2] = {};
  for (int64_t i = 0; i < depth; ++i, a += kRows, b += kColumns) {
    Lanes left, right;
    std::memcpy(&left, b, sizeof left);
    std::memcpy(&right, b + kLanes, sizeof right);
    for (int64_t row = 0; row < kRows; ++row) {
      held[row][0] += a[row] * left;
      held[row][1] += a[row] * right;
    }
  }
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t half = 0; half < 2; ++half) {
      float* const to = sums + row * kTileColumns + half * kLanes;
      Lanes sum;
      std::memcpy(&sum, to, sizeof sum);
      sum += held[row][half];
      std::memcpy(to, &sum, sizeof sum);
    }
  }
}

// A piece of a product: rows [row, row_end) of a by rows [column, column_end) of b.
struct Tile {
  int64_t row, row_end, column, column_end;
};

// How a product is cut into tiles.
struct Tiles {
  Tiles(int64_t rows, int64_t columns)
      : rows(rows), columns(columns), across((columns + kTileColumns - 1) / kTileColumns),
        count((rows + kTileRows - 1) / kTileRows * across) {}

  Tile operator[](int64_t tile) const {
    const int64_t row = tile / across * kTileRows, column = tile % across * kTileColumns;
    return {row, std::min(row + kTileRows, rows), column, std::min(column + kTileColumns, columns)};
  }

  int64_t rows, columns, across, count;
};

// The sums of a tile over terms [first, last), in lines of kTileColumns.
template <class A, class B>
void make_tile(const A& a, const B& b, const Tile& tile, int64_t first, int64_t last, Scratch& scratch) {
  std::fill(std::begin(scratch.sums), std::end(scratch.sums), 0.0f);
  for (int64_t begin = first; begin < last; begin += kDepth) {
    const int64_t end = std::min(begin + kDepth, last);
    pack(a, tile.row, tile.row_end, begin, end, kRows, scratch.a);
    pack(b, tile.column, tile.column_end, begin, end, kColumns, scratch.b);
    for (int64_t j = 0; j < tile.column_end - tile.column; j += kColumns)
      for (int64_t i = 0; i < tile.row_end - tile.row; i += kRows)
        add_product(scratch.a + i * (end - begin), scratch.b + j * (end - begin), end - begin,
                    scratch.sums + i * kTileColumns + j);
  }
}

inline int threads_for(int64_t items, int64_t multiplications) {
  return static_cast<int>(
      std::clamp<int64_t>(std::min(items, multiplications / kWorthAThread), 1, omp_get_max_threads()));
}

// finish(row, column, sums, count) for every piece of a row of a b^T: `count` sums from that column on.
// Pieces come from several threads, each once, in no order.
template <class A, class B, class Finish>
void multiply(const A& a, const B& b, Finish&& finish) {
  if (a.depth() != b.depth()) TVM_FFI_THROW(ValueError) << "the operands have rows of different lengths";
  const Tiles tiles(a.rows(), b.rows());
  const int threads = threads_for(tiles.count, a.rows() * b.rows() * a.depth());
  // Allocated here, where an exception for want of memory can still leave the kernel.
  const auto scratch = std::make_unique_for_overwrite<Scratch[]>(threads);

#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < tiles.count; ++i) {
    Scratch& mine = scratch[omp_get_thread_num()];
    const Tile tile = tiles[i];
    make_tile(a, b, tile, 0, a.depth(), mine);
    for (int64_t row = tile.row; row < tile.row_end; ++row)
      finish(row, tile.column, mine.sums + (row - tile.row) * kTileColumns, tile.column_end - tile.column);
  }
}

// Some terms of a product: those of a b^T from `begin` to `end`. Operands that live longer are given as references.
template <class A, class B>
struct Part {
  A a;
  B b;
  int64_t begin, end;
};

// y = the sum of part(0) to part(parts - 1), a dense matrix of `rows` by `columns`. Parts are worked on side by side;
// their sums, floats, are added up as doubles, always in the same order. Where there are none, y is zero.
template <class MakePart>
void add_up_products(int64_t parts, MakePart&& part, int64_t rows, int64_t columns, int64_t work, const TensorView& y) {
  const Tiles tiles(rows, columns);
  const int threads = threads_for(parts * tiles.count, work);
  const auto scratch = std::make_unique_for_overwrite<Scratch[]>(threads);
  const auto sums = std::make_unique_for_overwrite<float[]>(parts * rows * columns);

#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < parts * tiles.count; ++i) {
    Scratch& mine = scratch[omp_get_thread_num()];
    const Tile tile = tiles[i % tiles.count];
    const auto each = part(i / tiles.count);
    make_tile(each.a, each.b, tile, each.begin, each.end, mine);
    for (int64_t row = tile.row; row < tile.row_end; ++row)
      std::copy_n(mine.sums + (row - tile.row) * kTileColumns, tile.column_end - tile.column,
                  sums.get() + (i / tiles.count * rows + row) * columns + tile.column);
  }
  rows::dispatch(y, [&](auto element) {
    using T = decltype(element);
    T* const to = rows::data<T>(y);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < rows * columns; ++i) {
      double total = 0;
      for (int64_t j = 0; j < parts; ++j) total += sums[j * rows * columns + i];
      floats::narrow(static_cast<float>(total), to[i]);
    }
  });
}

// Refuse an output that is not a dense tensor of x's dtype and shape, but for the last dimension, which is `columns`.
inline void check_output(const TensorView& x, int64_t columns, const TensorView& y) {
  const bool same_rows = x.ndim() > 0 && x.ndim() == y.ndim() &&
                         std::equal(x.shape().begin(), x.shape().end() - 1, y.shape().begin()) &&
                         y.size(-1) == columns;
  const DLDataType from = x.dtype(), to = y.dtype();
  const bool same_dtype = from.code == to.code && from.bits == to.bits && from.lanes == to.lanes;
  if (!same_rows || !same_dtype) TVM_FFI_THROW(ValueError) << "the output must have one row for each of the input's";
  if (!y.IsContiguous()) TVM_FFI_THROW(ValueError) << "the output must be dense";
}

// y[row, column] = finish(a[row] . b[column], column), rounded once to the dtype of y, which is dense.
template <class A, class B, class Finish>
void multiply_into(const TensorView& y, const A& a, const B& b, Finish&& finish) {
  rows::dispatch(y, [&](auto element) {
    using T = decltype(element);
    multiply(a, b, [&, to = rows::data<T>(y)](int64_t row, int64_t column, const float* sums, int64_t count) {
      T* const line = to + row * b.rows() + column;
      for (int64_t i = 0; i < count; ++i) floats::narrow(finish(sums[i], column + i), line[i]);
    });
  });
}

// y = activation(x weight^T + bias): x (..., depth), weight (columns, depth), bias (columns), y (..., columns).
template <class Activation>
void linear(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y,
            Activation&& activation) {
  if (weight.ndim() != 2 || bias.ndim() != 1 || bias.size(0) != weight.size(0))
    TVM_FFI_THROW(ValueError) << "weight must be a matrix, and bias have one element per row of it";
  check_output(x, weight.size(0), y);
  const std::vector<float> biases = rows::vector_of_floats(bias);
  multiply_into(y, Operand(x), Operand(weight),
                [&](float sum, int64_t column) { return activation(sum + biases[column]); });
}

// Gradients of x weight^T for the cotangent of this product, that is read along its rows (..., columns) and along its
// columns: of x they are the cotangent times weight, of weight its transpose times x, summed over all rows.
inline void linear_gradients(const Operand& along_rows, const Columns& along_columns, const TensorView& x,
                             const TensorView& weight, const TensorView& x_gradient,
                             const TensorView& weight_gradient) {
  rows::check_output(x, x_gradient);
  rows::check_output(weight, weight_gradient);
  const Columns inputs(x), weights(weight);
  const int64_t rows = inputs.depth(), columns = along_columns.rows();
  if (weight.ndim() != 2 || inputs.rows() != weights.rows() || columns != weights.depth() || along_rows.rows() != rows)
    TVM_FFI_THROW(ValueError) << "weight must be a matrix that fits x, and the cotangent have their product's shape";
  multiply_into(x_gradient, along_rows, weights, [](float sum, int64_t) { return sum; });
  const auto part = [&](int64_t i) {
    return Part<const Columns&, const Columns&>{along_columns, inputs, i * kPart, std::min((i + 1) * kPart, rows)};
  };
  const int64_t parts = (rows + kPart - 1) / kPart;
  add_up_products(parts, part, columns, inputs.rows(), rows * columns * inputs.rows(), weight_gradient);
}

}  // namespace gemm
