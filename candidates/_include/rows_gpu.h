// Rows, each worked on by a team of threads, for GPU kernels that reduce along rows.
//
// A kernel is written for one row of N tensors of one shape: `row.read(f)` calls f(index, values) for those vectors
// that are this thread's, `row.again(f)` does it once more, and `row.reduce(mine)` adds up what the threads of the team
// found, in every run the same way. How many threads a team has is chosen by the length of a row, so that each has a
// few vectors: lanes of a warp, a block, or several blocks, which then meet in memory and must all run at once. Each
// thread has its vectors copied to shared memory, as many as there is room for; so a row comes once from memory,
// however often it is gone through, up to a size that the shared memory of all multiprocessors holds together.
#pragma once

#include <cuda/atomic>

#include <cfloat>

#include "gpu.h"

namespace gpu {

inline constexpr int kThreads = 512;         // the most in a block; two such blocks share a multiprocessor
inline constexpr int kLeast = 128;           // the least in a block, where teams are smaller than a warp
inline constexpr int64_t kFew = 4;           // vectors that a thread should have, where there are threads enough
inline constexpr int64_t kMany = 16;         // vectors of a thread, above which several blocks share a row
inline constexpr int64_t kAtOnce = 2;        // teams, at least: one reads while the other writes
inline constexpr int kSlot = 16;             // bytes in which a block says what it found
inline constexpr int kCounter = 128;         // bytes of a team's counter, which has a cache line for itself
inline constexpr int kStaticReserve = 1024;  // bytes of a block's shared memory that are not dynamic

template <class T, int V, int N>
class Row;

template <class T, int V, int N>
struct Rows {
  Source<T, V> from[N];
  int64_t count, vectors;  // rows, and vectors of each

  // Of a team, set by `launch_rows`:
  int lanes = 1;            // threads in each of its blocks, a power of two
  int whole = 0, rest = 0;  // vectors of every thread, and how many threads have one more
  int kept = 0;             // vectors of each tensor that a thread has room for
  char* meeting = nullptr;  // where blocks meet: for each team a counter and twice a slot for each block

  // f(row) for every row that is this thread's team's. Where a block's last teams have none left they repeat the last.
  template <class F>
  __device__ void each(F&& f) const {
    const int shift = __ffs(lanes) - 1;
    const int64_t beside = blockDim.x >> shift, step = gridDim.x * beside;
    Row<T, V, N> row(*this);
    for (int64_t first = blockIdx.x * beside; first < count; first += step) {
      row.index = min(first + (threadIdx.x >> shift), count - 1);
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
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    if (step < lanes) mine = mine + from_lane(mine, lane ^ step);
  return from_lane(mine, lane & ~(lanes - 1u));
}

// A thread's part of one row after another; the blocks of a team have one x and all y in the grid. Sums are made with
// +, from S::none() on.
template <class T, int V, int N>
class Row {
 public:
  __device__ explicit Row(const Rows<T, V, N>& rows)
      : rows_(rows), rank_(blockIdx.y * rows.lanes + (threadIdx.x & (rows.lanes - 1))),
        size_(rows.lanes * gridDim.y), count_(rows.whole + (rank_ < rows.rest)), kept_(min(count_, rows.kept)) {}

  // f(index in the row, values) for each vector of this thread.
  template <class F>
  __device__ void read(F&& f) {
#pragma unroll 4
    for (int k = 0; k < kept_; ++k)
      for (int n = 0; n < N; ++n) copy_once(shelf(k, n), rows_.from[n].address(flat(place(k))));
    wait_for_copies();
    again(f);
  }

  // The same, after `read`.
  template <class F>
  __device__ void again(F&& f) {
#pragma unroll 4
    for (int k = 0; k < kept_; ++k) use(f, k, [&](int n) { return shelf(k, n); });
#pragma unroll 4
    for (int k = kept_; k < count_; ++k) use(f, k, [&](int n) { return rows_.from[n].raw(flat(place(k))); });
  }

  template <class S>
  __device__ S reduce(S mine) {
    mine = across_lanes(mine, min(rows_.lanes, 32));
    if (rows_.lanes > 32) mine = across_warps(mine);
    return gridDim.y > 1 ? across_blocks(mine) : mine;
  }

  __device__ bool leads() const { return rank_ == 0; }
  __device__ int64_t flat(int64_t i) const { return index * rows_.vectors + i; }

  int64_t index;  // of the row

 private:
  using Word = typename Vector<T, V>::Word;

  __device__ int64_t place(int k) const { return rank_ + int64_t{k} * size_; }

  __device__ Word& shelf(int k, int n) const {
    extern __shared__ uint4 shelves[];
    return reinterpret_cast<Word*>(shelves)[(k * N + n) * blockDim.x + threadIdx.x];
  }

  template <class F, class Get>
  __device__ void use(F&& f, int k, Get&& get) const {
    float values[N][V];
    for (int n = 0; n < N; ++n) widen<T>(get(n), values[n]);
    f(place(k), values);
  }

  // Every warp adds up what the warps of the block found.
  template <class S>
  __device__ static S across_warps(const S& mine) {
    __shared__ S found[kThreads / 32];
    const int warps = blockDim.x / 32;
    __syncthreads();  // the last round's are read
    if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = mine;
    __syncthreads();
    return across_lanes(found[threadIdx.x & (warps - 1)], warps);
  }

  // Every warp adds up what the blocks of the team found. Slots are used in every other round: when a block comes to a
  // round all others have read those of the round before the last.
  template <class S>
  __device__ S across_blocks(const S& mine) {
    static_assert(sizeof(S) <= kSlot);
    const int64_t blocks = gridDim.y;
    char* const memory = rows_.meeting + blockIdx.x * (kCounter + 2 * kSlot * blocks);
    char* const slots = memory + kCounter + round_ % 2 * kSlot * blocks;
    const auto slot = [slots](int64_t block) { return reinterpret_cast<S*>(slots + block * kSlot); };
    ++round_;
    if (threadIdx.x == 0) {
      cuda::atomic_ref<uint64_t, cuda::thread_scope_device> arrived(*reinterpret_cast<uint64_t*>(memory));
      *slot(blockIdx.y) = mine;
      arrived.fetch_add(1, cuda::memory_order_release);
      while (arrived.load(cuda::memory_order_acquire) < round_ * blocks) continue;
    }
    __syncthreads();
    S all = S::none();
    for (int64_t block = threadIdx.x % 32; block < blocks; block += 32) all = all + *slot(block);
    return across_lanes(all, 32);
  }

  const Rows<T, V, N>& rows_;
  const int rank_, size_;   // of the thread in its team, and of the team
  const int count_, kept_;  // vectors of this thread in a row, and those of them that it keeps
  uint64_t round_ = 0;      // meetings of the blocks so far
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

// e^x for x <= 0, to be added up or rounded to a half: relative errors grow with -x, to 1e-5 where it nearly vanishes.
__device__ inline float rough_exponential(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 1.4426950408889634f));
  return power;
}

// e^x as exactly as T can tell; only in a __half what a float holds as a subnormal number is nothing.
template <class T>
__device__ float exponential(float x) {
  if constexpr (std::is_same_v<T, float>) return expf(x);
  return std::is_same_v<T, __half> ? rough_exponential(x) : __expf(x);
}

// The largest of some numbers, and the sum of their exponentials over that of the largest. It starts from the least
// finite number: so -infinity adds zero, infinity and NaN make the sum NaN, and only -infinities leave a sum of zero.
struct Exponentials {
  float largest, sum;

  __device__ static Exponentials none() { return {-FLT_MAX, 0.0f}; }

  template <int V>
  __device__ void add(const float (&x)[V]) {
    float most = x[0];
    for (int i = 1; i < V; ++i) most = fmaxf(most, x[i]);
    if (most > largest) {
      sum *= rough_exponential(largest - most);
      largest = most;
    }
    for (int i = 0; i < V; ++i) sum += rough_exponential(x[i] - largest);
  }

  __device__ Exponentials operator+(const Exponentials& other) const {
    const float most = fmaxf(largest, other.largest);
    return {most, sum * rough_exponential(largest - most) + other.sum * rough_exponential(other.largest - most)};
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

// kernel(rows, arguments...) with teams that suit the rows. `device` has the stream, and gives scratch memory.
template <class Device, class T, int V, int N, class... Parameters, class... Arguments>
void launch_rows(Device& device, void (*kernel)(Rows<T, V, N>, Parameters...), Rows<T, V, N> rows,
                 const Arguments&... arguments) {
  if (rows.count == 0) return;
  const Shares shares;
  const auto* const address = reinterpret_cast<const void*>(kernel);
  const int64_t wanted = quotient_up(rows.vectors, kFew);  // threads
  rows.lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(wanted, 1, kThreads))));
  const int threads = rows.lanes > 32 ? rows.lanes : kLeast;
  const int64_t shelf = N * V * sizeof(T) * threads;  // bytes that hold a vector of every thread
  const int64_t room = shares.shared / shelf;

  int64_t teams = std::min<int64_t>(quotient_up(rows.count, threads / rows.lanes), INT32_MAX), blocks = 1;
  if (rows.vectors > kMany * kThreads) {
    int resident;
    allow_shared(address, room * shelf);
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, address, kThreads, room * shelf));
    resident *= shares.processors;
    const int64_t fitting = quotient_up(rows.vectors, room * kThreads);  // blocks that a row fits in
    const int64_t at_once = std::min(std::max<int64_t>(resident / fitting, kAtOnce), rows.count);
    blocks = std::clamp<int64_t>(resident / at_once, 1, quotient_up(wanted, kThreads));
    if (blocks > 1) teams = at_once;
  }
  const int64_t size = rows.lanes * blocks;
  rows.whole = static_cast<int>(rows.vectors / size);
  rows.rest = static_cast<int>(rows.vectors % size);
  rows.kept = static_cast<int>(std::min(room, quotient_up(rows.vectors, size)));
  allow_shared(address, rows.kept * shelf);

  if (blocks > 1) {
    const int64_t bytes = teams * (kCounter + 2 * kSlot * blocks);
    rows.meeting = static_cast<char*>(device.scratch(bytes));
    check(cudaMemsetAsync(rows.meeting, 0, bytes, device.stream()));
  }
  const dim3 grid(static_cast<unsigned>(teams), static_cast<unsigned>(blocks));
  launch(device.stream(), {grid, threads, rows.kept * shelf, blocks > 1}, kernel, rows, arguments...);
}

}  // namespace gpu
