// y = max(x weight^T + bias, 0): the ReLU is taken of the float sums, before they are rounded. NaN stays NaN.
#include "gemm.h"

void mnist_linear_relu(gemm::TensorView x, gemm::TensorView weight, gemm::TensorView bias, gemm::TensorView y) {
  gemm::linear(x, weight, bias, y, [](float value) { return value < 0.0f ? 0.0f : value; });
}

// What the ReLU lets through is kept as floats; the rest is as for any linear layer.
void backward(gemm::TensorView cotangent, gemm::TensorView x, gemm::TensorView weight, gemm::TensorView,
              gemm::TensorView y, gemm::TensorView x_gradient, gemm::TensorView weight_gradient,
              gemm::TensorView bias_gradient) {
  const auto passed = rows::through_relu(cotangent, y);
  const rows::Layout layout(y);
  const gemm::Operand along_rows(passed.get(), layout.count, layout.width);
  const gemm::Columns along_columns(passed.get(), layout.count, layout.width);
  gemm::linear_gradients(along_rows, along_columns, x, weight, x_gradient, weight_gradient);
  const auto add = [](int64_t, const auto& values, int64_t count, double* sums) {
    for (int64_t i = 0; i < count; ++i) sums[i] += values[1][i] > 0.0f ? values[0][i] : 0.0f;
  };
  rows::store(rows::sum_over_samples(std::array{cotangent, y}, 1, add), bias_gradient);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mnist_linear_relu, mnist_linear_relu);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
