// y = (silu(x gate^T) * (x up^T)) down^T: the gate's product, then the other one times it, then the way down.
// Everything between input and output is float, whatever their dtype; a result is rounded once.
#include <cmath>

#include "gemm.h"

namespace {

float silu(float x) { return x / (1.0f + std::exp(-x)); }

}  // namespace

void llama_ffw(gemm::TensorView x, gemm::TensorView gate, gemm::TensorView up, gemm::TensorView down,
               gemm::TensorView y) {
  if (gate.ndim() != 2 || up.ndim() != 2 || down.ndim() != 2 || up.size(0) != gate.size(0))
    TVM_FFI_THROW(ValueError) << "gate, up and down must be matrices, the first two of the same height";
  const int64_t inner = gate.size(0), hidden = down.size(0);
  gemm::check_output(x, hidden, y);
  const gemm::Operand rows(x);
  std::vector<float> gated(rows.rows() * inner);
  gemm::multiply(rows, gemm::Operand(gate), [&](int64_t row, int64_t column, const float* sums, int64_t count) {
    float* const to = gated.data() + row * inner + column;
    for (int64_t i = 0; i < count; ++i) to[i] = silu(sums[i]);
  });
  gemm::multiply(rows, gemm::Operand(up), [&](int64_t row, int64_t column, const float* sums, int64_t count) {
    float* const to = gated.data() + row * inner + column;
    for (int64_t i = 0; i < count; ++i) to[i] *= sums[i];
  });
  const gemm::Operand product(gated.data(), rows.rows(), inner);
  gemm::multiply_into(y, product, gemm::Operand(down), [](float sum, int64_t) { return sum; });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(llama_ffw, llama_ffw);
