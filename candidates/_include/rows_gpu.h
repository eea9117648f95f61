// Rows, each worked on by a team of threads, for GPU kernels that reduce along rows.
//
// A kernel is written for one row of N tensors of one shape: `row.read(f)` calls f(index, values) for those vectors
// that are this thread's, `row.again(f)` does it once more, and `row.reduce(mine)` adds up what the threads of the team
// found, the same way in every run. How many threads a team has is chosen by the length of a row, so that each reads a
// few vectors: lanes of a warp, a block, or several blocks, which then meet in memory and must all run at once. What a
// thread read it keeps in shared memory, as much of it as there is room for; so a row comes once from memory, however
// often it is gone through, up to the size that the shared memory of all multiprocessors holds together.
#pragma once

#include <cuda/atomic>

#include <cfloat>

#include "gpu.h"

namespace gpu {

inline constexpr int kThreads = 512;          // the most in a block; two blocks share a multiprocessor
inline constexpr int kLeast = 128;            // the least in a block, where teams are smaller than a warp
inline constexpr int64_t kAlone = 16;         // vectors per thread of a block, from which on several share a row
inline constexpr int kSlot = 16;              // bytes in which a block says what it found
inline constexpr int kCounter = 128;          // bytes of a team's counter, which has a cache line for itself
inline constexpr int kStaticReserve = 1024;   // bytes of a block's shared memory that are not dynamic

template <class T, int V, int N>
class Row;

template <class T, int V, int N>
struct Rows {
  Source<T, V> from[N];
  int64_t count, vectors;  // rows, and vectors of each
  // Of a team, set by `launch_rows`:
  int lanes = 1, blocks = 1;  // threads in each block, and blocks
  int kept = 0;               // vectors of each tensor that a thread can keep
  char* meeting = nullptr;    // where blocks meet: for each team a counter and twice a slot for each block

  // f(row) for every row that is this thread's team's. Where a block's last teams have none left they repeat the last.
  template <class F>
  __device__ void each(F&& f) const {
    const int64_t beside = blockDim.x / lanes, step = gridDim.x / blocks * beside;
    Row<T, V, N> row(*this);
    for (int64_t first = blockIdx.x / blocks * beside; first < count; first += step) {
      row.index = min(first + threadIdx.x / lanes, count - 1);
      f(row);
    }
  }
};

template <class S>
__device__ S from_lane(const S& mine, unsigned lane) {
  struct Words {
    unsigned values[sizeof(S) / 4];
  };
  Words words = std::bit_cast<Words>(mine);
  for (unsigned& word : words.values) word = __shfl_sync(~0u, word, lane);
  return std::bit_cast<S>(words);
}

// The sum over groups of `lanes` threads, a power of two; all threads of a group get the same.
template <class S>
__device__ S across_lanes(S mine, int lanes) {
  const unsigned lane = threadIdx.x % 32;
  for (int step = 1; step < lanes; step *= 2) mine = mine + from_lane(mine, lane ^ step);
  return from_lane(mine, lane & ~(lanes - 1u));
}

// A thread's part of one row after another. The sums it reduces are made with +, from S::none() on.
template <class T, int V, int N>
class Row {
 public:
  using Values = float[N][V];

  __device__ explicit Row(const Rows<T, V, N>& rows)
      : rows_(rows), rank_(blockIdx.x % rows.blocks * rows.lanes + threadIdx.x % rows.lanes),
        size_(rows.lanes * rows.blocks) {}

  // f(index in the row, values) for each vector of this thread.
  template <class F>
  __device__ void read(F&& f) {
    visit(0, f);
  }

  // The same, after `read`.
  template <class F>
  __device__ void again(F&& f) {
#pragma unroll 4
    for (int k = 0; k < rows_.kept; ++k) {
      const int64_t i = rank_ + int64_t{k} * size_;
      if (i < rows_.vectors) use(f, i, [&](int n) { return shelf(k, n); });
    }
    visit(rows_.kept, f);
  }

  template <class S>
  __device__ S reduce(S mine) {
    mine = across_lanes(mine, min(rows_.lanes, 32));
    if (rows_.lanes > 32) mine = across_warps(mine);
    return rows_.blocks > 1 ? across_blocks(mine) : mine;
  }

  __device__ bool leads() const { return rank_ == 0; }
  __device__ int64_t flat(int64_t i) const { return index * rows_.vectors + i; }

  int64_t index;  // of the row

 private:
  __device__ Vector<T, V>& shelf(int k, int n) const {
    extern __shared__ uint4 shelves[];
    return reinterpret_cast<Vector<T, V>*>(shelves)[(k * N + n) * blockDim.x + threadIdx.x];
  }

  // Vectors from this thread's k-th on, in batches; those that there is room for are kept, and not asked for again.
  template <class F>
  __device__ void visit(int64_t k, F&& f) {
    for (int64_t i = rank_ + k * size_; i < rows_.vectors; k += kBatch, i += kBatch * int64_t{size_}) {
      Vector<T, V> held[kBatch][N];
      const bool once = k < rows_.kept;
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
        for (int n = 0; n < N; ++n)
          if (i + b * size_ < rows_.vectors) held[b][n] = rows_.from[n].raw(flat(i + b * size_), once);
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        if (i + b * size_ >= rows_.vectors) break;
        for (int n = 0; n < N; ++n)
          if (k + b < rows_.kept) shelf(k + b, n) = held[b][n];
        use(f, i + b * size_, [&](int n) { return held[b][n]; });
      }
    }
  }

  template <class F, class Held>
  __device__ static void use(F&& f, int64_t i, Held&& held) {
    Values values;
    for (int n = 0; n < N; ++n) widen(held(n), values[n]);
    f(i, values);
  }

  // Every warp adds up what the warps of the block found.
  template <class S>
  __device__ static S across_warps(const S& mine) {
    __shared__ S found[kThreads / 32];
    const int warps = blockDim.x / 32;
    __syncthreads();  // the last round's are read
    if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = mine;
    __syncthreads();
    return across_lanes(found[threadIdx.x % warps], warps);
  }

  // Every warp adds up what the blocks of the team found. Slots are used in every other round: when a block comes to a
  // round all others have read those of the round before the last.
  template <class S>
  __device__ S across_blocks(const S& mine) {
    static_assert(sizeof(S) <= kSlot);
    char* const memory = rows_.meeting + blockIdx.x / rows_.blocks * (kCounter + 2 * kSlot * int64_t{rows_.blocks});
    char* const slots = memory + kCounter + round_ % 2 * kSlot * int64_t{rows_.blocks};
    const auto slot = [slots](int64_t block) { return reinterpret_cast<S*>(slots + block * kSlot); };
    ++round_;
    if (threadIdx.x == 0) {
      cuda::atomic_ref<uint64_t, cuda::thread_scope_device> arrived(*reinterpret_cast<uint64_t*>(memory));
      *slot(blockIdx.x % rows_.blocks) = mine;
      arrived.fetch_add(1, cuda::memory_order_release);
      while (arrived.load(cuda::memory_order_acquire) < round_ * rows_.blocks) continue;
    }
    __syncthreads();
    S all = S::none();
    for (int block = threadIdx.x % 32; block < rows_.blocks; block += 32) all = all + *slot(block);
    return across_lanes(all, 32);
  }

  const Rows<T, V, N>& rows_;
  const int rank_, size_;  // of the thread in its team, and of the team
  uint64_t round_ = 0;     // meetings of the blocks so far
};

// K sums.
template <int K>
struct Sums {
  float values[K];

  __device__ static Sums none() { return {}; }
  __device__ Sums operator+(const Sums& other) const {
    Sums sums;
    for (int k = 0; k < K; ++k) sums.values[k] = values[k] + other.values[k];
    return sums;
  }
};

// e^x, for half types as exactly as they can tell.
template <class T>
__device__ float exponential(float x) {
  return std::is_same_v<T, float> ? expf(x) : __expf(x);
}

// The largest of some numbers, and the sum of their exponentials over that of the largest. It starts from the least
// finite number: so -infinity adds zero, infinity and NaN make the sum NaN, and only -infinities leave a sum of zero.
template <class T>
struct Exponentials {
  float largest, sum;

  __device__ static Exponentials none() { return {-FLT_MAX, 0.0f}; }

  template <int V>
  __device__ void add(const float (&x)[V]) {
    float most = x[0];
    for (int i = 1; i < V; ++i) most = fmaxf(most, x[i]);
    if (most > largest) {
      sum *= exponential<T>(largest - most);
      largest = most;
    }
    for (int i = 0; i < V; ++i) sum += exponential<T>(x[i] - largest);
  }

  __device__ Exponentials operator+(const Exponentials& other) const {
    const float most = fmaxf(largest, other.largest);
    return {most, sum * exponential<T>(largest - most) + other.sum * exponential<T>(other.largest - most)};
  }
};

// What a device gives to kernels with two blocks of kThreads on each multiprocessor.
struct Shares {
  int processors;
  int64_t shared;  // bytes of dynamic shared memory for each block

  Shares() {
    int device, whole, reserved;
    check(cudaGetDevice(&device));
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    check(cudaDeviceGetAttribute(&whole, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
    check(cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, device));
    shared = whole / 2 - reserved - kStaticReserve;
  }
};

inline void allow_shared(const void* kernel, int64_t bytes) {
  if (bytes <= 48 << 10) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
}

// kernel(rows, arguments...) with teams that suit the rows; `keep` if it goes through a row more than once. `device`
// has the stream, and gives scratch memory.
template <class Device, class T, int V, int N, class... Parameters, class... Arguments>
void launch_rows(Device& device, bool keep, void (*kernel)(Rows<T, V, N>, Parameters...), Rows<T, V, N> rows,
                 const Arguments&... arguments) {
  if (rows.count == 0) return;
  const Shares shares;
  const auto* const address = reinterpret_cast<const void*>(kernel);
  const int64_t batches = quotient_up(rows.vectors, kBatch);
  rows.lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(batches, 1, kThreads))));
  const int threads = rows.lanes > 32 ? rows.lanes : kLeast;
  const int64_t shelf = N * sizeof(Vector<T, V>) * threads;  // bytes that hold a vector of every thread
  const int64_t room = keep ? shares.shared / shelf : 0;

  int64_t teams = quotient_up(rows.count, threads / rows.lanes);
  if (rows.vectors > kAlone * kThreads) {
    int resident;
    allow_shared(address, room * shelf);
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, address, kThreads, room * shelf));
    resident *= shares.processors;
    const int64_t fitting = keep ? quotient_up(rows.vectors, room * kThreads) : 1;  // blocks that a row fits in
    const int64_t at_once = std::clamp<int64_t>((2 * resident / fitting + 1) / 2, 1, rows.count);
    rows.blocks = static_cast<int>(std::clamp<int64_t>(resident / at_once, 1, quotient_up(batches, kThreads)));
    if (rows.blocks > 1) teams = at_once;
  }
  rows.kept = static_cast<int>(std::min(room, quotient_up(rows.vectors, int64_t{rows.lanes} * rows.blocks)));
  allow_shared(address, rows.kept * shelf);

  const bool together = rows.blocks > 1;
  if (together) {
    const int64_t bytes = teams * (kCounter + 2 * kSlot * int64_t{rows.blocks});
    rows.meeting = static_cast<char*>(device.scratch(bytes));
    check(cudaMemsetAsync(rows.meeting, 0, bytes, device.stream()));
  }
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(teams * rows.blocks, INT32_MAX));
  launch(device.stream(), {blocks, threads, rows.kept * shelf, together}, kernel, rows, arguments...);
}

}  // namespace gpu
