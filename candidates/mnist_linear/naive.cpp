// y = x weight^T + bias: tiles of the product in registers, the bias added to the float sums, one rounding.
#include "gemm.h"

void mnist_linear(gemm::TensorView x, gemm::TensorView weight, gemm::TensorView bias, gemm::TensorView y) {
  gemm::linear(x, weight, bias, y, [](float value) { return value; });
}

void backward(gemm::TensorView cotangent, gemm::TensorView x, gemm::TensorView weight, gemm::TensorView,
              gemm::TensorView, gemm::TensorView x_gradient, gemm::TensorView weight_gradient,
              gemm::TensorView bias_gradient) {
  gemm::linear_gradients(gemm::Operand(cotangent), gemm::Columns(cotangent), x, weight, x_gradient, weight_gradient);
  rows::sum_samples(cotangent, 1, bias_gradient);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mnist_linear, mnist_linear);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
