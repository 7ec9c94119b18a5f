#include "kernels/cuda/each.cuh"
#include "kernels/cuda/fingerprint.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

// --- add, ordered_sum --------------------------------------------------------------------------

template <class T, int W>
struct add_body {
  static constexpr int width = W, steps = 2;
  struct inputs {
    bundle<T, W> a, b;
  };
  T* y;
  const T* a;
  const T* b;

  __device__ __forceinline__ inputs load(std::int64_t i) const {
    return {fetch<T, W>(a + i), fetch<T, W>(b + i)};
  }
  __device__ __forceinline__ void store(std::int64_t i, const inputs& in) const {
    float out[W];
#pragma unroll
    for (int k = 0; k < W; ++k)
      out[k] = in.a[k] + in.b[k];
    put(y + i, out);
  }
};

template <class T>
void run_op(const add<T>& op, const context& in) {
  each_flat<wide<T>>(in, op.n, all_aligned(op.y, op.a, op.b), [&](auto width) {
    return add_body<T, width()>{op.y, op.a, op.b};
  });
}

/// Number of pointers that are passed by value; more go to the workspace.
constexpr int most_sources = 448;

template <class T>
struct source_table {
  const T* x[most_sources];
};

constexpr int sum_threads = 256;

/// Sources are `table.x`, or `more` if it is not null. Four are in flight at once.
template <class T, int W>
__global__ void __launch_bounds__(sum_threads)
    ordered_sum_kernel(const __grid_constant__ source_table<T> table,
                       const T* const* more,
                       int sources,
                       T* y,
                       std::int64_t begin,
                       std::int64_t end,
                       float scale) {
  constexpr int at_once = 4;
  for (std::int64_t i = begin + (std::int64_t{blockIdx.x} * sum_threads + threadIdx.x) * W; i < end;
       i += std::int64_t{gridDim.x} * sum_threads * W) {
    float sum[W] = {};
    for (int first = 0; first < sources; first += at_once) {
      bundle<T, W> x[at_once];
#pragma unroll
      for (int s = 0; s < at_once; ++s)
        if (first + s < sources)
          x[s] = fetch<T, W>((more ? more[first + s] : table.x[first + s]) + i);
#pragma unroll
      for (int s = 0; s < at_once; ++s)
        if (first + s < sources)
#pragma unroll
          for (int k = 0; k < W; ++k)
            sum[k] = first + s == 0 ? x[s][k] : sum[k] + x[s][k];
    }
    float out[W];
#pragma unroll
    for (int k = 0; k < W; ++k)
      out[k] = sum[k] * scale;
    put(y + i, out);
  }
}

template <class T>
__global__ void write_sources(const __grid_constant__ source_table<T> table, const T** to, int n) {
  for (int i = int(threadIdx.x); i < n; i += int(blockDim.x))
    to[i] = table.x[i];
}

template <class T>
source_table<T> sources_from(const ordered_sum<T>& op, std::int64_t first) {
  source_table<T> table = {};
  for (std::int64_t s = first; s < op.sources && s < first + most_sources; ++s)
    table.x[s - first] = op.x[s];
  return table;
}

template <class T>
void run_op(const ordered_sum<T>& op, const context& in) {
  const auto table = sources_from(op, 0);
  const T** more = nullptr;
  if (op.sources > most_sources) {
    more = scratch_array<const T*>(in, scratch(op));
    for (std::int64_t s = 0; s < op.sources; s += most_sources) {
      const std::int64_t n = op.sources - s < most_sources ? op.sources - s : most_sources;
      launch(in, 1, 256, write_sources<T>, sources_from(op, s), more + s, int(n));
    }
  }
  bool aligned = all_aligned(op.y);
  for (std::int64_t s = 0; s < op.sources; ++s)
    aligned = aligned && all_aligned(op.x[s]);
  constexpr int W = wide<T>;
  const std::int64_t whole = aligned ? op.n / W * W : 0;
  const auto start = [&](auto* kernel, int width, std::int64_t begin, std::int64_t end) {
    const auto grid
        = blocks_for(ceil_div(end - begin, std::int64_t{sum_threads} * width), 16 * processors);
    launch(in, grid, sum_threads, kernel, table, more, int(op.sources), op.y, begin, end, op.scale);
  };
  start(ordered_sum_kernel<T, W>, W, 0, whole);
  start(ordered_sum_kernel<T, 1>, 1, whole, op.n);
}

// --- square_norm, square_norms -----------------------------------------------------------------

constexpr std::int64_t norm_block = square_norm<float>::block;
constexpr int norm_lanes = square_norm<float>::lanes;
constexpr int lanes_a_thread = 4, threads_a_block = norm_lanes / lanes_a_thread;
constexpr int square_threads = 64;

struct square_piece {
  const float* x;
  std::int64_t n;
  const std::uint64_t* keys;
  std::int64_t before;  ///< grains of earlier pieces
  std::int64_t first;
};

std::int64_t blocks_in(std::int64_t n, std::int64_t grain) {
  return tiles_in_grains(n, grain, norm_block);
}

/// Fingerprints of the loaded values, or a no-op.
template <bool Wanted>
struct square_fingerprints {
  __device__ __forceinline__ square_fingerprints(const std::uint64_t*) {}
  __device__ __forceinline__ void add(float, float, std::int64_t) {}
  __device__ __forceinline__ fingerprint_word sum(int) const { return 0; }
};
template <>
struct square_fingerprints<true> {
  grain_fingerprints<1> of;

  __device__ __forceinline__ square_fingerprints(const std::uint64_t* key) : of(key, 0) {}
  __device__ __forceinline__ void add(float low, float high, std::int64_t pair) {
    of.add(0, __float_as_uint(low), __float_as_uint(high), pair);
  }
  __device__ __forceinline__ fingerprint_word sum(int j) const { return of.sum(0, j); }
};

// 16 lanes add a block of 4,096 elements, as the operation defines. Four threads have four lanes
// each, so loads are 16 bytes and contiguous. If fingerprints are requested, the threads also add
// those of the block to its grain.
template <bool Fingerprints>
__global__ void __launch_bounds__(square_threads)
    square_blocks_kernel(const __grid_constant__ piece_table<square_piece> table,
                         std::int64_t blocks,
                         std::int64_t grain,
                         double* of_block,
                         fingerprint_word* sums) {
  constexpr int at_once = 16;
  const std::int64_t blocks_a_grain = ceil_div(grain, norm_block);
  const int quarter = int(threadIdx.x) % threads_a_block;
  const std::int64_t stride = std::int64_t{gridDim.x} * square_threads / threads_a_block;
  // The loop bound is the same for the whole warp, because all its threads shuffle.
  for (std::int64_t base = std::int64_t{blockIdx.x} * (square_threads / threads_a_block);
       base < blocks;
       base += stride) {
    const std::int64_t b = base + threadIdx.x / threads_a_block;
    double sum[lanes_a_thread] = {};
    fingerprint_word of_thread[2] = {};
    fingerprint_word* of_grain_sums = nullptr;
    if (b < blocks) {
      const square_piece& piece = table.piece[table.find(b)];
      const std::int64_t g = (b - piece.first) / blocks_a_grain;
      const std::int64_t in_grain = (b - piece.first - g * blocks_a_grain) * norm_block;
      const std::int64_t of_grain = piece.n - g * grain < grain ? piece.n - g * grain : grain;
      const std::int64_t left = of_grain - in_grain;
      const float* const x = piece.x + g * grain + in_grain + quarter * lanes_a_thread;
      const std::int64_t first = in_grain + quarter * lanes_a_thread;  // within the grain
      square_fingerprints<Fingerprints> of(Fingerprints ? piece.keys + g : nullptr);
      if (left >= norm_block && reinterpret_cast<std::uintptr_t>(x) % 16 == 0) {
        for (int i = 0; i < norm_block; i += at_once * norm_lanes) {
          pack<float, lanes_a_thread> in[at_once];
#pragma unroll
          for (int u = 0; u < at_once; ++u)
            in[u] = load<float, lanes_a_thread>(x + i + u * norm_lanes);
#pragma unroll
          for (int u = 0; u < at_once; ++u) {
#pragma unroll
            for (int k = 0; k < lanes_a_thread; ++k)
              sum[k] = fma(double(in[u].x[k]), double(in[u].x[k]), sum[k]);
#pragma unroll
            for (int k = 0; k < lanes_a_thread; k += 2)
              of.add(in[u].x[k], in[u].x[k + 1], (first + i + u * norm_lanes + k) / 2);
          }
        }
      } else {
        const std::int64_t end = left < norm_block ? left : norm_block;
        for (std::int64_t i = 0; i < end; i += norm_lanes)
#pragma unroll
          for (int k = 0; k < lanes_a_thread; ++k)
            if (const std::int64_t at = i + quarter * lanes_a_thread + k; at < end) {
              sum[k] = fma(double(x[i + k]), double(x[i + k]), sum[k]);
              if (k % 2 == 0)
                of.add(x[i + k], at + 1 < end ? x[i + k + 1] : 0.0F, (first + i + k) / 2);
            }
      }
      if constexpr (Fingerprints) {
        of_thread[0] = of.sum(0);
        of_thread[1] = of.sum(1);
        of_grain_sums = sums + 2 * (piece.before + g);
      }
    }
    double total = 0;
#pragma unroll
    for (int t = 0; t < threads_a_block; ++t)
#pragma unroll
      for (int k = 0; k < lanes_a_thread; ++k)
        total += __shfl_sync(0xffffffffU, sum[k], t, threads_a_block);
    if (quarter == 0 && b < blocks)
      of_block[b] = total;
    if constexpr (Fingerprints) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        fingerprint_word all = 0;
#pragma unroll
        for (int t = 0; t < threads_a_block; ++t)
          all += __shfl_sync(0xffffffffU, of_thread[j], t, threads_a_block);
        if (quarter == 0 && b < blocks)
          atomicAdd(of_grain_sums + j, all);
      }
    }
  }
}

__global__ void write_zero(double* to) {
  *to = 0;
}

/// A tile is a grain.
struct total_piece {
  double* results;
  std::int64_t blocks;
  std::int64_t before;  ///< blocks of earlier pieces
  std::int64_t first;
};

constexpr int total_threads = 256, total_chunk = 1024;
/// Up to this number of blocks, one thread adds a grain.
constexpr std::int64_t few_blocks = 64;

__global__ void __launch_bounds__(total_threads)
    few_totals_kernel(const __grid_constant__ piece_table<total_piece> table,
                      std::int64_t grains,
                      std::int64_t blocks_a_grain,
                      const double* of_block) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * total_threads + threadIdx.x; i < grains;
       i += std::int64_t{gridDim.x} * total_threads) {
    const total_piece& piece = table.piece[table.find(i)];
    const std::int64_t g = i - piece.first, begin = g * blocks_a_grain;
    const std::int64_t end
        = begin + blocks_a_grain < piece.blocks ? begin + blocks_a_grain : piece.blocks;
    double total = 0;
#pragma unroll 8
    for (std::int64_t b = begin; b < end; ++b)
      total += of_block[piece.before + b];
    piece.results[g] = total;
  }
}

// One block per grain. One thread adds the sums in order, while the others load the next ones.
__global__ void __launch_bounds__(total_threads)
    square_totals_kernel(const __grid_constant__ piece_table<total_piece> table,
                         std::int64_t blocks_a_grain,
                         const double* of_block) {
  __shared__ double chunk[2][total_chunk];
  const total_piece& piece = table.piece[table.find(blockIdx.x)];
  const std::int64_t g = blockIdx.x - piece.first;
  const std::int64_t left = piece.blocks - g * blocks_a_grain;
  const std::int64_t n = left < blocks_a_grain ? left : blocks_a_grain;
  const double* const from = of_block + piece.before + g * blocks_a_grain;
  for (std::int64_t i = threadIdx.x; i < total_chunk && i < n; i += total_threads)
    chunk[0][i] = from[i];
  __syncthreads();
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += total_chunk) {
    const auto now = begin / total_chunk % 2;
    if (threadIdx.x == 0) {
      const int here = int(n - begin < total_chunk ? n - begin : total_chunk);
#pragma unroll 16
      for (int i = 0; i < here; ++i)
        total += chunk[now][i];
    } else if (threadIdx.x >= warp) {
      for (std::int64_t i = std::int64_t{threadIdx.x} - warp; i < total_chunk;
           i += total_threads - warp)
        if (begin + total_chunk + i < n)
          chunk[1 - now][i] = from[begin + total_chunk + i];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0)
    piece.results[g] = total;
}

}  // namespace

template <class T>
std::size_t scratch(const ordered_sum<T>& op) {
  return op.sources > most_sources ? sizeof(const T*) * std::size_t(op.sources) : 0;
}

std::size_t scratch(const square_norms<float>& op) {
  return workspace_bytes(op, 1) + (op.fingerprints ? bytes_of_grain_sums(grains_of(op)) : 0);
}
std::size_t scratch(const square_norm<float>& op) {
  return workspace_bytes(op, 1);
}

template <>
void run(const square_norms<float>& op, const context& in) {
  auto* const of_block = scratch_array<double>(in, scratch(op));
  const bool prints = op.fingerprints != nullptr;
  auto* const sums = prints ? reinterpret_cast<fingerprint_word*>(
                         of_block + workspace_bytes(op, 1) / sizeof(double))
                            : nullptr;
  if (prints)
    clear_grain_sums(in, sums, grains_of(op));
  std::int64_t grains_before = 0;
  in_tables<square_piece>(
      op.count,
      [&](std::int64_t i) {
        const auto& one = op.pieces[i];
        const square_piece out{.x = one.x, .n = one.n, .keys = one.keys, .before = grains_before};
        grains_before += grains_in(one.n, op.grain);
        return out;
      },
      [&](const square_piece& p) { return blocks_in(p.n, op.grain); },
      [&](const piece_table<square_piece>& table, std::int64_t blocks, std::int64_t before) {
        const auto grid
            = blocks_for(ceil_div(blocks * threads_a_block, square_threads), 64 * processors);
        launch(in,
               grid,
               square_threads,
               prints ? square_blocks_kernel<true> : square_blocks_kernel<false>,
               table,
               blocks,
               op.grain,
               of_block + before,
               sums);
      });
  if (prints)
    add_grain_sums(
        in,
        op.count,
        op.fingerprints,
        [&](std::int64_t i) { return grains_in(op.pieces[i].n, op.grain); },
        sums);
  const auto blocks_a_grain = ceil_div(op.grain, norm_block);
  std::int64_t before = 0;
  double* results = op.results;
  in_tables<total_piece>(
      op.count,
      [&](std::int64_t i) {
        const total_piece out{
            .results = results, .blocks = blocks_in(op.pieces[i].n, op.grain), .before = before};
        before += out.blocks;
        results += grains_in(op.pieces[i].n, op.grain);
        return out;
      },
      [&](const total_piece& p) { return ceil_div(p.blocks, blocks_a_grain); },
      [&](const piece_table<total_piece>& table, std::int64_t grains, std::int64_t) {
        if (blocks_a_grain > few_blocks)
          return launch(in,
                        unsigned(grains),
                        total_threads,
                        square_totals_kernel,
                        table,
                        blocks_a_grain,
                        of_block);
        launch(in,
               blocks_for(ceil_div(grains, total_threads), processors),
               total_threads,
               few_totals_kernel,
               table,
               grains,
               blocks_a_grain,
               of_block);
      });
}

template <>
void run(const square_norm<float>& op, const context& in) {
  if (op.n == 0)
    return launch(in, 1, 1, write_zero, op.result);
  const square_norms<float>::piece one{op.x, op.n};
  run(square_norms<float>{op.result, &one, 1, op.n}, in);
}

#define TROUPE_INSTANTIATE(T)                             \
  template std::size_t scratch(const ordered_sum<T>&);    \
  template <>                                             \
  void run(const add<T>& op, const context& in) {         \
    run_op(op, in);                                       \
  }                                                       \
  template <>                                             \
  void run(const ordered_sum<T>& op, const context& in) { \
    run_op(op, in);                                       \
  }
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cuda
