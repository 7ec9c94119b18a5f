#include "kernels/cuda/row_lanes.cuh"
#include "kernels/cuda/run.hpp"

#include <limits>

namespace troupe::kernels::cuda {

namespace {

constexpr float infinite = std::numeric_limits<float>::infinity();
constexpr double wide_infinite = std::numeric_limits<double>::infinity();

__device__ __forceinline__ float sigmoid_of(float x) {
  return 1.0f / (1.0f + expf(-x));
}

/// Below -16, log(1 + e^x) is e^x in float.
__device__ __forceinline__ float single_score(route_score score, float x) {
  if (score == route_score::sigmoid)
    return sigmoid_of(x);
  return x < -16.0f ? expf(x / 2) : sqrtf(fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))));
}

__device__ __forceinline__ float single_slope(route_score score, float x) {
  const float s = single_score(score, x);
  if (score == route_score::sigmoid)
    return s * sigmoid_of(-x);
  return x < -16.0f ? s / 2 : sigmoid_of(x) / (2 * s);
}

__device__ __forceinline__ float score_of(const route_rules& rules, float x, float lse) {
  return scores_alone(rules) ? single_score(rules.score, x) : expf(x - lse);
}

__device__ __forceinline__ double or_infinity(double key) {
  return key != key ? wide_infinite : key;
}

/// An item of a ranking: larger keys first, equal ones by number.
struct ranked {
  double key;
  int item;

  __device__ __forceinline__ bool before(const ranked& x) const {
    return key > x.key || (key == x.key && item < x.item);
  }
};
constexpr int no_item = std::numeric_limits<int>::max();

/// The first item of [begin, end) that ranks after `last`, among every `stride`-th.
__device__ __forceinline__ ranked
next_of(const double* keys, int begin, int end, int stride, const ranked& last) {
  ranked best{-wide_infinite, no_item};
  for (int e = begin; e < end; e += stride) {
    const ranked here{keys[e], e};
    if (last.before(here) && here.before(best))
      best = here;
  }
  return best;
}

/// The best of the lanes' items, in every lane.
__device__ __forceinline__ ranked warp_best(ranked x) {
#pragma unroll
  for (int step = warp / 2; step > 0; step /= 2) {
    const ranked other{__shfl_xor_sync(0xffffffffU, x.key, step),
                       __shfl_xor_sync(0xffffffffU, x.item, step)};
    if (other.before(x))
      x = other;
  }
  return x;
}

/// One warp chooses the experts of a row. All lanes see `keys` and `group_keys` (shared memory).
__device__ __forceinline__ void choose(const route_rules& rules,
                                       const double* keys,
                                       double* group_keys,
                                       std::int32_t* chosen) {
  const int lane = int(threadIdx.x), E = int(rules.E), groups = int(rules.groups);
  const int size = E / groups;
  ranked last_group{-wide_infinite, no_item};
  if (groups > 1) {
    for (int g = lane; g < groups; g += warp) {
      ranked last{wide_infinite, -1};
      double sum = 0;
      for (int i = 0; i < int(rules.group_best); ++i) {
        last = next_of(keys, g * size, (g + 1) * size, 1, last);
        sum += last.key;
      }
      group_keys[g] = or_infinity(sum);
    }
    __syncthreads();
    last_group = {wide_infinite, -1};
    for (int i = 0; i < int(rules.group_topk); ++i)
      last_group = warp_best(next_of(group_keys, lane, groups, warp, last_group));
  }
  ranked last{wide_infinite, -1};
  for (int j = 0; j < int(rules.k); ++j) {
    ranked best{-wide_infinite, no_item};
    for (int e = lane; e < E; e += warp) {
      const ranked here{keys[e], e};
      if (!last.before(here) || !here.before(best))
        continue;
      // A group takes part unless it ranks after the last one that does.
      if (groups == 1 || !last_group.before(ranked{group_keys[e / size], e / size}))
        best = here;
    }
    last = warp_best(best);
    if (lane == 0)
      chosen[j] = last.item;
  }
}

__device__ __forceinline__ float warp_lse(const float* x, int E) {
  const int lane = int(threadIdx.x);
  float top = -infinite;
  for (int e = lane; e < E; e += warp)
    top = fmaxf(top, x[e]);
  top = warp_max(top);
  float sum = 0;
  for (int e = lane; e < E; e += warp)
    sum += expf(x[e] - top);
  return top + logf(warp_sum(sum));
}

__device__ __forceinline__ void write_weights(const route_rules& rules,
                                              const float* x,
                                              float lse,
                                              const std::int32_t* chosen,
                                              float* weights) {
  const int lane = int(threadIdx.x), k = int(rules.k);
  const bool of_chosen = rules.score == route_score::softmax_of_chosen;
  if (of_chosen) {
    lse = -infinite;
    for (int j = lane; j < k; j += warp)
      lse = fmaxf(lse, x[chosen[j]]);
    lse = warp_max(lse);
  }
  float sum = 0;
  for (int j = lane; j < k; j += warp)
    sum += score_of(rules, x[chosen[j]], lse);
  sum = warp_sum(sum);
  float factor = rules.scale;
  if (of_chosen)
    factor /= sum;
  else if (scores_alone(rules) && k > 1)
    factor /= sum + float(route_epsilon);
  for (int j = lane; j < k; j += warp)
    weights[j] = score_of(rules, x[chosen[j]], lse) * factor;
}

// One warp per row.
template <int Most>
__global__ void __launch_bounds__(warp) route_kernel(const route<float> op) {
  __shared__ double keys[Most];
  __shared__ double group_keys[Most];
  const int lane = int(threadIdx.x), E = int(op.rules.E), k = int(op.rules.k);
  for (std::int64_t r = blockIdx.x; r < op.R; r += gridDim.x) {
    const float* x = op.logits + r * E;
    std::int32_t* chosen = op.chosen + r * k;
    const bool of_row = op.lse != nullptr || op.rules.score == route_score::softmax;
    const float lse = of_row ? warp_lse(x, E) : 0.0f;
    float total = 0;
    for (int e = lane; e < E; e += warp) {
      const float score
          = op.rules.score == route_score::softmax_of_chosen ? 0.0f : score_of(op.rules, x[e], lse);
      total += score;
      const double key = keys_are_logits(op.rules) ? x[e] : score;
      keys[e] = or_infinity(key + (op.bias != nullptr ? double(op.bias[e]) : 0.0));
    }
    __syncthreads();
    if (op.given != nullptr) {
      for (int j = lane; j < k; j += warp)
        chosen[j] = op.given[r * k + j];
    } else if (op.round_robin) {
      for (int j = lane; j < k; j += warp)
        chosen[j] = std::int32_t(((op.first_row + r) * k + j) % E);
    } else {
      choose(op.rules, keys, group_keys, chosen);
    }
    __syncthreads();

    if (op.total != nullptr) {
      total = warp_sum(total);
      if (lane == 0)
        op.total[r] = total + float(route_epsilon);
    }
    if (op.lse != nullptr && lane == 0)
      op.lse[r] = lse;
    if (op.weights != nullptr)
      write_weights(op.rules, x, lse, chosen, op.weights + r * k);
    if (op.cutoff != nullptr) {
      for (int j = lane; j < k; j += warp)
        keys[chosen[j]] = -wide_infinite;
      __syncthreads();
      const ranked best = warp_best(next_of(keys, lane, E, warp, ranked{wide_infinite, -1}));
      if (lane == 0)
        op.cutoff[r] = float(best.key);
    }
    __syncthreads();  // the next row overwrites the keys
  }
}

/// Sums over the chosen experts of a row that its gradients need.
struct chosen_sums {
  double top, total, along;
};

__device__ __forceinline__ chosen_sums sums_of_chosen(const route_backward<float>& op,
                                                      std::int64_t r,
                                                      const float* x) {
  const int lane = int(threadIdx.x), k = int(op.rules.k);
  const std::int32_t* chosen = op.chosen + r * k;
  const float* dweights = op.dweights + r * k;
  float top = op.rules.score == route_score::softmax ? op.lse[r] : -infinite;
  if (op.rules.score == route_score::softmax_of_chosen) {
    for (int j = lane; j < k; j += warp)
      top = fmaxf(top, x[chosen[j]]);
    top = warp_max(top);
  }
  double total = 0, along = 0;
  for (int j = lane; j < k; j += warp) {
    const double s = score_of(op.rules, x[chosen[j]], top);
    total += s;
    along += s * double(dweights[j]);
  }
  return {top, warp_sum(total) + (scores_alone(op.rules) ? route_epsilon : 0.0), warp_sum(along)};
}

// One warp per row.
__global__ void __launch_bounds__(warp) route_backward_kernel(const route_backward<float> op) {
  const route_rules& rules = op.rules;
  const int lane = int(threadIdx.x), E = int(rules.E), k = int(rules.k);
  const bool of_chosen = rules.score == route_score::softmax_of_chosen;
  const double scale = rules.scale;
  for (std::int64_t r = blockIdx.x; r < op.R; r += gridDim.x) {
    const float* x = op.logits + r * E;
    const std::int32_t* chosen = op.chosen + r * k;
    const float lse = op.lse[r];
    const float share = scores_alone(rules) ? 1.0f / op.total[r] : 1.0f;
    const float* slope = op.dprobabilities != nullptr
                             ? op.dprobabilities + (op.first_row + r) / op.T_ * E
                             : nullptr;
    chosen_sums mine{0, 1, 0};
    if (op.dweights != nullptr)
      mine = sums_of_chosen(op, r, x);
    float along = 0;
    if (slope != nullptr) {
      for (int e = lane; e < E; e += warp)
        along += score_of(rules, x[e], lse) * share * slope[e];
      along = warp_sum(along);
    }
    if (rules.score == route_score::softmax)
      along += float(scale * mine.along);
    const float of_square = float(2 * op.dsquare * double(lse));
    for (int e = lane; e < E; e += warp) {
      // Gradient with respect to the chosen expert's logit, or its score.
      float of_choice = 0;
      for (int j = 0; op.dweights != nullptr && j < k; ++j) {
        if (chosen[j] != e)
          continue;
        const double dy = op.dweights[r * k + j], away = dy - mine.along / mine.total;
        if (of_chosen)
          of_choice = float(scale * double(expf(x[e] - float(mine.top))) / mine.total * away);
        else if (scores_alone(rules) && k > 1)
          of_choice = float(scale * away / mine.total);
        else
          of_choice = float(scale * dy);
      }
      float inner = (slope != nullptr ? slope[e] : 0.0f) - along;
      float out = 0;
      if (scores_alone(rules)) {
        out = fmaf(inner, share, of_choice) * single_slope(rules.score, x[e]);
        if (op.dsquare != 0)
          out = fmaf(of_square, expf(x[e] - lse), out);
      } else {
        inner += (of_chosen ? 0.0f : of_choice) + of_square;
        out = fmaf(inner, expf(x[e] - lse), of_chosen ? of_choice : 0.0f);
      }
      op.dlogits[r * E + e] = out;
    }
  }
}

// A block sums 32 experts over the rows of one sequence.
__global__ void __launch_bounds__(columns* row_lanes)
    route_sums_kernel(const route_sums<float> op) {
  const std::int64_t E = op.rules.E, s = blockIdx.y;
  const std::int64_t e = std::int64_t{blockIdx.x} * columns + threadIdx.x % columns;
  const std::int64_t before = s * op.T_ - op.first_row;
  const std::int64_t begin = before > 0 ? before : 0;
  const std::int64_t end = before + op.T_ < op.R ? before + op.T_ : op.R;
  double mine = 0;
  if (e < E)
    for (std::int64_t r = begin + threadIdx.x / columns; r < end; r += row_lanes) {
      const double score = score_of(op.rules, op.logits[r * E + e], op.lse[r]);
      mine += scores_alone(op.rules) ? score / double(op.total[r]) : score;
    }
  mine = sum_of_lanes(mine);
  if (e < E && threadIdx.x < columns)
    op.sums[s * E + e] = mine;
}

constexpr int flat_threads = 256, sum_threads = 1024;

__global__ void __launch_bounds__(sum_threads)
    square_kernel(double* result, const float* lse, std::int64_t R) {
  double sum = 0;
  for (std::int64_t r = threadIdx.x; r < R; r += sum_threads)
    sum += double(lse[r]) * double(lse[r]);
  sum = block_sum<sum_threads>(sum);
  if (threadIdx.x == 0)
    *result = sum;
}

using count_word = unsigned long long;  // the type that atomicAdd takes

__global__ void __launch_bounds__(flat_threads) clear_counts(count_word* counts, std::int64_t n) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * flat_threads + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * flat_threads)
    counts[i] = 0;
}

// A count does not depend on the order, so blocks use atomics.
__global__ void __launch_bounds__(flat_threads)
    count_chosen(count_word* counts, const route_sums<float> op) {
  const std::int64_t k = op.rules.k;
  for (std::int64_t i = std::int64_t{blockIdx.x} * flat_threads + threadIdx.x; i < op.R * k;
       i += std::int64_t{gridDim.x} * flat_threads)
    atomicAdd(counts + (op.first_row + i / k) / op.T_ * op.rules.E + op.chosen[i], count_word{1});
}

// One block; a thread has every 256th expert.
__global__ void __launch_bounds__(flat_threads) route_losses_kernel(const route_losses<float> op) {
  const std::int64_t cells = op.S * op.E;
  const double rows = double(op.S * op.T_), factor = double(op.E) / double(op.k);
  double balance = 0;
  for (std::int64_t e = threadIdx.x; e < op.E; e += flat_threads) {
    std::uint64_t chosen = 0;
    for (std::int64_t p = 0; op.merged && p < op.parts; ++p)
      for (std::int64_t s = 0; s < op.S; ++s)
        chosen += op.counts[p * cells + s * op.E + e];
    const double of_all = op.counts_of_all != nullptr ? double(op.counts_of_all[e]) / op.rows_of_all
                                                      : double(chosen) / rows;
    for (std::int64_t s = 0; s < op.S; ++s) {
      const std::int64_t i = s * op.E + e;
      double sum = 0;
      std::uint64_t here = 0;
      for (std::int64_t p = 0; p < op.parts; ++p) {
        sum += op.sums[p * (cells + 1) + i];
        here += op.counts[p * cells + i];
      }
      const bool of_sequence = !op.merged && op.counts_of_all == nullptr;
      const double share = factor * (of_sequence ? double(here) / double(op.T_) : of_all);
      balance += sum * share;
      if (op.dprobabilities != nullptr)
        op.dprobabilities[i]
            = (op.accumulates ? op.dprobabilities[i] : 0.0f) + float(op.dmean * share / rows);
    }
  }
  balance = block_sum<flat_threads>(balance);
  if (threadIdx.x != 0)
    return;
  if (op.balance != nullptr) {
    op.balance[0] = balance;
    op.balance[1] = rows;
  }
  if (op.z != nullptr) {
    double squares = 0;
    for (std::int64_t p = 0; p < op.parts; ++p)
      squares += op.sums[p * (cells + 1) + cells];
    op.z[0] = squares;
    op.z[1] = rows;
  }
}

/// Unsigned numbers in the order of the floats.
__device__ __forceinline__ unsigned in_order(float x) {
  const unsigned bits = __float_as_uint(x);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}
__device__ __forceinline__ float from_order(unsigned x) {
  return __uint_as_float((x >> 31) != 0 ? x & 0x7fffffffU : ~x);
}

// One block per expert finds the bits of the quantile, highest first: a bit is set if more than
// `rank` margins are at least as large with it.
__global__ void __launch_bounds__(flat_threads)
    quantile_kernel(const expert_quantile<float> op, unsigned rank) {
  const std::int64_t E = op.rules.E, e = blockIdx.x;
  unsigned found = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const unsigned tried = found | 1U << bit;
    unsigned above = 0;
    for (std::int64_t r = threadIdx.x; r < op.R; r += flat_threads) {
      const float x = op.logits[r * E + e];
      const double key = keys_are_logits(op.rules) ? x : score_of(op.rules, x, op.lse[r]);
      above += in_order(float(or_infinity(key - double(op.cutoff[r])))) >= tried ? 1 : 0;
    }
    if (block_sum<flat_threads>(above) > rank)
      found = tried;
  }
  if (threadIdx.x == 0)
    op.bias[e] = op.R > 0 ? -from_order(found) : 0.0f;
}

unsigned row_blocks(std::int64_t R) {
  return blocks_for(R, 32 * processors);
}

}  // namespace

template <>
void run(const route<float>& op, const context& in) {
  const auto start = [&](auto* kernel) { launch(in, row_blocks(op.R), warp, kernel, op); };
  if (op.rules.E <= 256)
    start(route_kernel<256>);
  else
    start(route_kernel<int(most_experts)>);
}

template <>
void run(const route_backward<float>& op, const context& in) {
  launch(in, row_blocks(op.R), warp, route_backward_kernel, op);
}

template <>
void run(const route_sums<float>& op, const context& in) {
  static_assert(sizeof(count_word) == sizeof(*op.counts));
  auto* const counts = reinterpret_cast<count_word*>(op.counts);
  const std::int64_t E = op.rules.E, cells = op.S * E;
  if (op.sums != nullptr) {
    const dim3 grid(unsigned(ceil_div(E, columns)), unsigned(op.S));
    launch(in, grid, columns * row_lanes, route_sums_kernel, op);
    launch(in, 1, sum_threads, square_kernel, op.sums + cells, op.lse, op.R);
  }
  const auto flat
      = [](std::int64_t n) { return blocks_for(ceil_div(n, flat_threads), 8 * processors); };
  launch(in, flat(cells), flat_threads, clear_counts, counts, cells);
  launch(in, flat(op.R * op.rules.k), flat_threads, count_chosen, counts, op);
}

template <>
void run(const route_losses<float>& op, const context& in) {
  launch(in, 1, flat_threads, route_losses_kernel, op);
}

template <>
void run(const expert_quantile<float>& op, const context& in) {
  const auto rank = unsigned(op.R * op.rules.k / op.rules.E);
  launch(in, unsigned(op.rules.E), flat_threads, quantile_kernel, op, rank);
}

}  // namespace troupe::kernels::cuda
