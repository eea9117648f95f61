// y = max(x weight^T + bias, 0): the ReLU is taken of the float sums, before they are rounded. NaN stays NaN.
#include "gemm.h"

void mnist_linear_relu(gemm::TensorView x, gemm::TensorView weight, gemm::TensorView bias, gemm::TensorView y) {
  gemm::linear(x, weight, bias, y, [](float value) { return value < 0.0f ? 0.0f : value; });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mnist_linear_relu, mnist_linear_relu);
