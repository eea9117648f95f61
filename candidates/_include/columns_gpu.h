// Sums over rows, for gradients of parameters that every row has a share in.
//
// K sums for each column: first over runs of rows, into scratch memory, then over the runs. A block has 32 vectors of
// columns and 8 rows at a time; what its threads found is added up in order, so that every run gives the same.
#pragma once

#include "gpu.h"

namespace gpu {

inline constexpr int kAcross = 32, kDown = 8;  // threads of a block
inline constexpr int64_t kRun = 256;           // rows that a block sums up, at least
inline constexpr int64_t kRuns = 256;          // of them, at most

// terms.add(row, column, sums) adds what a row has for a vector of columns, to.put(run, column, sums) stores the sums.
template <int V, int K, class Terms, class To>
__global__ void sum_runs(int64_t rows, int64_t columns, int64_t run, Terms terms, To to) {
  __shared__ float found[kDown][kAcross][K][V];
  const int64_t column = int64_t{blockIdx.x} * kAcross + threadIdx.x, end = min(rows, (blockIdx.y + 1) * run);
  float sums[K][V] = {};
  if (column < columns)
    for (int64_t row = blockIdx.y * run + threadIdx.y; row < end; row += kDown) terms.add(row, column, sums);
  for (int k = 0; k < K; ++k)
    for (int i = 0; i < V; ++i) found[threadIdx.y][threadIdx.x][k][i] = sums[k][i];
  __syncthreads();
  if (threadIdx.y > 0 || column >= columns) return;
  for (int y = 1; y < kDown; ++y)
    for (int k = 0; k < K; ++k)
      for (int i = 0; i < V; ++i) sums[k][i] += found[y][threadIdx.x][k][i];
  to.put(blockIdx.y, column, sums);
}

// Sums of runs, as floats in scratch memory.
template <int V, int K>
struct Partial {
  float* data;
  int64_t columns;

  __device__ float* at(int64_t run, int64_t column, int k) const {
    return data + ((run * K + k) * columns + column) * V;
  }
  __device__ void put(int64_t run, int64_t column, const float (&sums)[K][V]) const {
    for (int k = 0; k < K; ++k)
      for (int i = 0; i < V; ++i) at(run, column, k)[i] = sums[k][i];
  }
  __device__ void add(int64_t run, int64_t column, float (&sums)[K][V]) const {
    for (int k = 0; k < K; ++k)
      for (int i = 0; i < V; ++i) sums[k][i] += at(run, column, k)[i];
  }
};

// Sums as dense tensors.
template <class T, int V, int K>
struct Rounded {
  T* to[K];

  __device__ void put(int64_t, int64_t column, const float (&sums)[K][V]) const {
    for (int k = 0; k < K; ++k) store(to[k], column, sums[k]);
  }
};

// The sums of all rows for `columns` vectors of columns, zero where there are no rows.
template <class Device, class T, int V, int K, class Terms>
void sum_columns(Device& device, int64_t rows, int64_t columns, const Terms& terms, const Rounded<T, V, K>& to) {
  if (columns == 0) return;
  const int64_t run = std::max(kRun, quotient_up(rows, kRuns)), runs = std::max<int64_t>(quotient_up(rows, run), 1);
  const auto across = static_cast<unsigned>(quotient_up(columns, kAcross)), down = static_cast<unsigned>(runs);
  const dim3 threads(kAcross, kDown);
  if (runs == 1) {
    launch(device.stream(), {across, threads}, sum_runs<V, K, Terms, Rounded<T, V, K>>, rows, columns, run, terms, to);
    return;
  }
  using Runs = Partial<V, K>;
  const Runs partial{static_cast<float*>(device.scratch(runs * K * columns * V * sizeof(float))), columns};
  launch(device.stream(), {{across, down}, threads}, sum_runs<V, K, Terms, Runs>, rows, columns, run, terms, partial);
  launch(device.stream(), {across, threads}, sum_runs<V, K, Runs, Rounded<T, V, K>>, runs, columns, runs, partial, to);
}

}  // namespace gpu
