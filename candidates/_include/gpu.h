// What GPU kernels of any kind need: half types as floats, vectors of 16 bytes, tensors of any strides, launches.
//
// A kernel sees a tensor as a `Source`, which is read by flat index in row-major order, whatever its strides: several
// elements at a time where it is dense and aligned, else one by one. Nothing here knows of torch or tvm-ffi;
// tensors_gpu.h makes sources of tvm-ffi's tensors.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

namespace gpu {

inline constexpr int kVectorBytes = 16;  // the most that one instruction reads

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline void narrow(float x, float& to) { to = x; }
__device__ inline void narrow(float x, __half& to) { to = __float2half_rn(x); }
__device__ inline void narrow(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }

template <class T, int V>
struct alignas(V * sizeof(T)) Vector {
  using Word = std::conditional_t<
      V * sizeof(T) == 16, uint4,
      std::conditional_t<V * sizeof(T) == 8, uint2, std::conditional_t<V * sizeof(T) == 4, unsigned, unsigned short>>>;
  T values[V];
};

template <class T, int V>
__device__ void widen(const typename Vector<T, V>::Word& from, float (&to)[V]) {
  const auto vector = std::bit_cast<Vector<T, V>>(from);
  for (int i = 0; i < V; ++i) to[i] = widen(vector.values[i]);
}

// Round floats and make them the index-th vector of an output, which the kernel will not read.
template <class T, int V>
__device__ void store(T* to, int64_t index, const float (&values)[V]) {
  using Word = typename Vector<T, V>::Word;
  Vector<T, V> rounded;
  for (int i = 0; i < V; ++i) narrow(values[i], rounded.values[i]);
  __stcs(reinterpret_cast<Word*>(to) + index, std::bit_cast<Word>(rounded));
}

// Begin to copy a word to shared memory. It will not be read again: the L2 cache may drop it before anything else.
// Words of two bytes are copied at once.
template <class Word>
__device__ void copy_once(Word& shared, const Word* from) {
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(&shared));
  if constexpr (sizeof(Word) == 16)
    asm volatile(
        "{ .reg .b64 first;\n"
        "createpolicy.fractional.L2::evict_first.b64 first, 1.0;\n"
        "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, first; }\n" ::"r"(to), "l"(from) : "memory");
  else if constexpr (sizeof(Word) >= 4)
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;\n" ::"r"(to), "l"(from), "n"(sizeof(Word)) : "memory");
  else
    shared = __ldg(from);
}

// Until this thread has all that it began to copy.
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;\n" ::: "memory"); }

// Where the elements of a tensor of at most four dimensions lie; missing ones come first and have one element.
struct Layout {
  int64_t sizes[4], strides[4];  // in elements
  bool dense;

  // Elements from the first to the one of this index in row-major order.
  __device__ int64_t offset(int64_t index) const {
    if (dense) return index;
    int64_t offset = 0;
    for (int i = 3; i > 0; --i) {
      offset += index % sizes[i] * strides[i];
      index /= sizes[i];
    }
    return offset + index * strides[0];
  }
};

// A tensor that is read in vectors of V elements; more than one only if it is dense and aligned.
template <class T, int V>
struct Source {
  using Word = typename Vector<T, V>::Word;

  const T* data;
  Layout layout;

  __device__ const Word* address(int64_t index) const {
    return reinterpret_cast<const Word*>(data) + (V == 1 ? layout.offset(index) : index);
  }
  __device__ Word raw(int64_t index) const { return __ldg(address(index)); }
  __device__ void read(int64_t index, float (&to)[V]) const { widen<T>(raw(index), to); }

  // One element, by its own index.
  __device__ float at(int64_t element) const { return widen(data[layout.offset(element)]); }
};

inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

inline int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Grid {
  dim3 blocks, threads;
  int64_t shared = 0;     // bytes of dynamic shared memory
  bool together = false;  // all blocks must run at once: they wait for each other
};

template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, const Grid& grid, void (*kernel)(Parameters...), const Arguments&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = grid.together ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

}  // namespace gpu
