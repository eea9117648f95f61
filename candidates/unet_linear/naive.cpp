// y = x weight^T + bias over the last of three dimensions: every token of every image is one row of the product.
#include "gemm.h"

void unet_linear(gemm::TensorView x, gemm::TensorView weight, gemm::TensorView bias, gemm::TensorView y) {
  gemm::linear(x, weight, bias, y, [](float value) { return value; });
}

void backward(gemm::TensorView cotangent, gemm::TensorView x, gemm::TensorView weight, gemm::TensorView,
              gemm::TensorView, gemm::TensorView x_gradient, gemm::TensorView weight_gradient,
              gemm::TensorView bias_gradient) {
  gemm::linear_gradients(gemm::Operand(cotangent), gemm::Columns(cotangent), x, weight, x_gradient, weight_gradient);
  rows::sum_samples(cotangent, 1, bias_gradient);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(unet_linear, unet_linear);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backward, backward);
