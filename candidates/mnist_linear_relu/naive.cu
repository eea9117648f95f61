// y = max(x weight^T + bias, 0) on a GPU. A block makes a square tile of the output, a thread one element of it; tiles
// of both operands go through shared memory, so that each is read once per block. Sums are floats, a result is rounded
// once. x, weight and bias may have any strides; y is dense. NaN stays NaN.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/cuda/device_guard.h>
#include <tvm/ffi/function.h>

#include <cstdint>

namespace {

using tvm::ffi::TensorView;

constexpr int kTile = 16;

__device__ float widen(float x) { return x; }
__device__ float widen(__half x) { return __half2float(x); }
__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void narrow(float x, float& to) { to = x; }
__device__ void narrow(float x, __half& to) { to = __float2half_rn(x); }
__device__ void narrow(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }

template <class T>
struct Matrix {
  const T* data;
  int64_t rows, columns, down, right;  // sizes and strides, in elements

  // An element, or zero outside the matrix.
  __device__ float at(int64_t row, int64_t column) const {
    return row < rows && column < columns ? widen(data[row * down + column * right]) : 0.0f;
  }
};

template <class T>
__global__ void linear_relu(Matrix<T> x, Matrix<T> weight, Matrix<T> bias, T* y) {
  __shared__ float left[kTile][kTile], right[kTile][kTile + 1];  // a column more, so that columns lie in other banks
  const int64_t row = int64_t{blockIdx.x} * kTile + threadIdx.y, first = int64_t{blockIdx.y} * kTile;
  const int64_t column = first + threadIdx.x;
  float sum = 0.0f;
  for (int64_t begin = 0; begin < x.columns; begin += kTile) {
    left[threadIdx.y][threadIdx.x] = x.at(row, begin + threadIdx.x);
    right[threadIdx.y][threadIdx.x] = weight.at(first + threadIdx.y, begin + threadIdx.x);
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += left[threadIdx.y][i] * right[threadIdx.x][i];
    __syncthreads();
  }
  if (row >= x.rows || column >= weight.rows) return;
  sum += bias.at(0, column);
  narrow(sum < 0.0f ? 0.0f : sum, y[row * weight.rows + column]);
}

// A matrix, or a vector as a matrix of one row.
template <class T>
Matrix<T> matrix(const TensorView& tensor) {
  const T* const data = reinterpret_cast<const T*>(static_cast<const char*>(tensor.data_ptr()) + tensor.byte_offset());
  if (tensor.ndim() == 1) return {data, 1, tensor.size(0), 0, tensor.stride(0)};
  return {data, tensor.size(0), tensor.size(1), tensor.stride(0), tensor.stride(1)};
}

template <class T>
void launch(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y) {
  const auto tiles = [](int64_t size) { return static_cast<unsigned>((size + kTile - 1) / kTile); };
  const dim3 grid(tiles(y.size(0)), tiles(y.size(1))), block(kTile, kTile);
  const DLDevice device = y.device();
  const tvm::ffi::CUDADeviceGuard guard(device.device_id);
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  T* const to = reinterpret_cast<T*>(static_cast<char*>(y.data_ptr()) + y.byte_offset());
  linear_relu<<<grid, block, 0, stream>>>(matrix<T>(x), matrix<T>(weight), matrix<T>(bias), to);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    TVM_FFI_THROW(RuntimeError) << cudaGetErrorString(error);
}

void check(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y) {
  if (x.ndim() != 2 || weight.ndim() != 2 || bias.ndim() != 1 || y.ndim() != 2)
    TVM_FFI_THROW(ValueError) << "x, weight and y must be matrices, bias a vector";
  const int64_t batch = x.size(0), inputs = x.size(1), outputs = weight.size(0);
  if (weight.size(1) != inputs || bias.size(0) != outputs || y.size(0) != batch || y.size(1) != outputs)
    TVM_FFI_THROW(ValueError) << "the sizes of x, weight, bias and y do not fit";
  for (const TensorView& each : {x, weight, bias, y}) {
    const DLDataType dtype = each.dtype();
    if (dtype.code != x.dtype().code || dtype.bits != x.dtype().bits || dtype.lanes != 1)
      TVM_FFI_THROW(TypeError) << "all arguments must have one dtype";
    if (each.device().device_type != kDLCUDA) TVM_FFI_THROW(ValueError) << "all arguments must be on a GPU";
  }
  if (!y.IsContiguous()) TVM_FFI_THROW(ValueError) << "the output must be dense";
}

}  // namespace

void mnist_linear_relu(TensorView x, TensorView weight, TensorView bias, TensorView y) {
  check(x, weight, bias, y);
  if (y.numel() == 0) return;
  const DLDataType dtype = x.dtype();
  if (dtype.code == kDLFloat && dtype.bits == 32) return launch<float>(x, weight, bias, y);
  if (dtype.code == kDLFloat && dtype.bits == 16) return launch<__half>(x, weight, bias, y);
  if (dtype.code == kDLBfloat && dtype.bits == 16) return launch<__nv_bfloat16>(x, weight, bias, y);
  TVM_FFI_THROW(TypeError) << "only float32, float16 and bfloat16";
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mnist_linear_relu, mnist_linear_relu);
