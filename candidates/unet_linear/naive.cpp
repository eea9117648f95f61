// y = x weight^T + bias over the last of three dimensions: every token of every image is one row of the product.
#include "gemm.h"

void unet_linear(gemm::TensorView x, gemm::TensorView weight, gemm::TensorView bias, gemm::TensorView y) {
  gemm::linear(x, weight, bias, y, [](float value) { return value; });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(unet_linear, unet_linear);
