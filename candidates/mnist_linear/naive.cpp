// y = x weight^T + bias: tiles of the product in registers, the bias added to the float sums, one rounding.
#include "gemm.h"

void mnist_linear(gemm::TensorView x, gemm::TensorView weight, gemm::TensorView bias, gemm::TensorView y) {
  gemm::linear(x, weight, bias, y, [](float value) { return value; });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mnist_linear, mnist_linear);
