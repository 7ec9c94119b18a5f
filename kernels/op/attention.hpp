// Scaled dot-product attention: optional causal mask, grouped queries, packed sequences. No T x T
// matrix is stored.
// For query row i and key row j of one sequence, head h of group g = h / (H / G):
//
//   s[i,j]  = scale * q[i,h] . k[j,g] + bias[h, key_position[j] - query_position[i]]
//             where 0 <= query_position[i] - key_position[j] <= window, or not causal
//   lse[i]  = log sum_j exp(s[i,j])       p[i,j] = exp(s[i,j] - lse[i])
//   m[i,j]  = dropout of p: 0 or 1 / (1 - p_drop); 1 without dropout
//   o[i,h]  = sum_j p[i,j] * m[i,j] * v[j,g]
//
// A query row that sees no key has o = 0 and lse = -infinity.
//
// lse is stored per sequence and head. The block of sequence s is (H, rows of s) and begins at H *
// query_starts[s]. With sequences of equal length this is (B, H, T), the layout of cuDNN and of
// FlashAttention.
// The backward pass, with delta[i] = sum_d do[i,d] * o[i,d]:
//
//   dv[j] = sum_i p m do[i]     ds[i,j] = p (m do[i] . v[j] - delta[i])
//   dq[i] = scale * sum_j ds[i,j] k[j]     dk[j] = scale * sum_i ds[i,j] q[i]
//   dbias[h,x] = sum of ds[i,j] over all pairs with key_position[j] - query_position[i] = x
//
// Rows are described by positions and cumulative lengths. This covers packed sequences, KV caches
// (fewer query rows than key rows) and context parallelism (any subset of rows). Key positions
// ascend within a sequence.
//
// Queries and keys have heads of D elements; values and outputs have heads of Dv. Latent attention
// has Dv < D. In its absorbed form values are the first Dv elements of the keys.
//
// Queries, keys and values may share one fused array in Megatron's layout [q .. q k v] per group.
// Row and group strides are in elements; the heads of a group are adjacent.
//
// Dao: "FlashAttention-2", 2023. Milakov, Gimelshein: "Online normalizer calculation for softmax",
// 2018.

#pragma once

#include "kernels/op/context.hpp"
#include "kernels/op/philox.hpp"

#include <algorithm>
#include <limits>

namespace troupe::kernels {

/// The shape of both passes. Every row must be finite, masked rows too: kernels multiply masked
/// rows by a weight of 0, and 0 * NaN is NaN. A NaN spreads to up to 63 rows beside the rows that
/// see it.
struct attention_shape {
  const std::int32_t*
      query_starts;                ///< (S + 1) first query row of each sequence, then the row count
  const std::int32_t* key_starts;  ///< (S + 1) first key row of each sequence, then the row count
  const std::int32_t* query_position;   ///< (query rows)
  const std::int32_t* key_position;     ///< (key rows)
  std::int64_t S;                       ///< sequences
  std::int64_t H;                       ///< query heads
  std::int64_t G;                       ///< key and value heads, G divides H
  std::int64_t D;                       ///< head size of q and k
  std::int64_t Dv;                      ///< head size of v and o
  std::int64_t query_row, query_group;  ///< strides of q (and dq)
  std::int64_t key_row, key_group;      ///< strides of k (and dk)
  std::int64_t value_row, value_group;  ///< strides of v (and dv)
  float scale;                          ///< usually 1 / sqrt(D)
  bool causal = true;
  /// Megatron's left window size: a query sees keys up to this many positions back. -1: unlimited.
  /// Applies only if `causal`.
  std::int32_t window = -1;

  /// Dropout of probabilities. The random word for (i, j, h) has number (first_head + h) * 2^32 +
  /// key_position in stream `sample[s] * 2^24 + query_position`. Limit: 2^24 positions.
  float p_drop = 0;
  std::uint64_t key = 0;                  ///< key of the random numbers
  const std::uint64_t* sample = nullptr;  ///< (S) global sample position; may be null if p_drop = 0
  std::int64_t first_head
      = 0;  ///< index of head 0 in the whole model; nonzero under tensor parallelism

  /// Extents of the arrays above: total rows and the longest sequence. Needed if the host cannot
  /// read the arrays. -1: unknown; the cuda backend refuses it (ATTENTION-1).
  std::int64_t query_rows = -1, key_rows = -1;
  std::int64_t longest_query = -1, longest_key = -1;
  /// True if every sequence has longest_query rows at positions 0, 1, ..., and the keys likewise,
  /// as in most training. Lets a backend use a vendor library's kernel.
  bool uniform = false;
  /// false: a backend may use a faster summation order that differs between runs.
  bool same_bits = true;
  /// true: on CPUs the bits of a query row do not depend on the number of its sequence's query
  /// rows.
  bool row_invariant = false;

  /// (key_rows / attention_page) or null: the keys are in pages, and every key_starts is a multiple
  /// of attention_page. Rows n * attention_page + r of k and v are then in row pages[n] *
  /// attention_page + r. Positions stay in the order of sequences. Forward pass only; the cuda
  /// backend refuses it.
  const std::int32_t* pages = nullptr;
};

constexpr std::int64_t attention_page = 64;  ///< rows of a page

/// The row of k and v where key row `row` is.
constexpr std::int64_t key_place(const attention_shape& a, std::int64_t row) {
  return a.pages == nullptr ? row
                            : a.pages[row / attention_page] * attention_page + row % attention_page;
}

/// Biases of scores by head and distance, key position minus query position. Every visible pair has
/// a distance of `first` to `first` + `count` - 1. The visible keys of a query have distinct
/// positions.
template <class T>
struct score_bias {
  const accumulator<T>* values = nullptr;  ///< (H, count); null: no bias
  std::int64_t count = 0;                  ///< distances
  std::int32_t first = 0;                  ///< the lowest distance
};

template <class T>
struct attention_forward {
  T* o;        ///< (query rows, H, Dv) written, contiguous
  float* lse;  ///< (H, rows) of each sequence, written; index by lse_at
  const T* q;
  const T* k;
  const T* v;
  attention_shape shape;
  score_bias<T> bias = {};
};

template <class T>
struct attention_backward {
  T* dq;             ///< strides of q, written
  T* dk;             ///< strides of k, written
  T* dv;             ///< strides of v, written
  const T* d_o;      ///< (query rows, H, Dv)
  const T* o;        ///< (query rows, H, Dv)
  const float* lse;  ///< (H, rows) of each sequence
  const T* q;
  const T* k;
  const T* v;
  attention_shape shape;
  score_bias<T> bias = {};
  accumulator<T>* dbias = nullptr;  ///< (H, bias.count) written; null: not computed
};

/// Writes row r of new keys and values, with its position, to row at[r] of a KV cache.
template <class T>
struct cache_rows {
  T* entries;                    ///< (cache rows, G, width) rows at[r] written
  std::int32_t* positions;       ///< (cache rows) entries at[r] written
  const T* kv;                   ///< first key of row 0; strides below
  const std::int32_t* position;  ///< (R)
  const std::int32_t* at;        ///< (R) distinct rows of the cache
  std::int64_t R, G, width;      ///< width: one key and its value, D + Dv elements
  std::int64_t row, group;       ///< strides of kv, in elements
};

constexpr std::uint64_t attention_stream(std::uint64_t sample, std::int32_t query_position) {
  return (sample << 24) + std::uint64_t(query_position);
}
constexpr std::uint64_t attention_word(std::int64_t head, std::int32_t key_position) {
  return (std::uint64_t(head) << 32) + std::uint64_t(key_position);
}

/// Index of the lse of `row` and head h; the row's sequence spans rows [begin, end).
constexpr std::int64_t lse_at(
    std::int64_t H, std::int64_t begin, std::int64_t end, std::int64_t h, std::int64_t row) {
  return H * begin + h * (end - begin) + (row - begin);
}

/// The lowest position that a query sees.
constexpr std::int64_t attention_horizon(const attention_shape& a, std::int32_t query_position) {
  return a.window < 0 ? std::numeric_limits<std::int64_t>::min()
                      : std::int64_t{query_position} - a.window;
}

/// True if `flops` reads array elements, which the host cannot do for device memory.
constexpr bool reads_arrays(const attention_shape& a) {
  return !a.uniform || (a.causal && a.longest_query > a.longest_key);
}

/// Number of keys that queries 0 to n - 1 see: query i sees min(i + 1, most).
constexpr std::int64_t rising_sum(std::int64_t n, std::int64_t most) {
  const std::int64_t rising = std::min(n, most);
  return rising * (rising + 1) / 2 + (n - rising) * most;
}

/// Number of visible (query row, key row) pairs.
inline std::int64_t attention_pairs(const attention_shape& a) {
  const std::int64_t T = a.longest_query, keys = a.longest_key;
  if (a.uniform && !a.causal)
    return a.S * T * keys;
  if (a.uniform && T <= keys)
    return a.S * rising_sum(T, a.window < 0 ? T : a.window + 1);
  std::int64_t pairs = 0;
  for (std::int64_t s = 0; s < a.S; ++s) {
    const std::int32_t *begin = a.key_position + a.key_starts[s],
                       *end = a.key_position + a.key_starts[s + 1];
    for (std::int64_t i = a.query_starts[s]; i < a.query_starts[s + 1]; ++i) {
      if (a.causal) {
        const std::int32_t now = a.query_position[i];
        const auto* visible = std::upper_bound(begin, end, now);
        pairs += visible - std::lower_bound(begin, visible, attention_horizon(a, now));
      } else {
        pairs += end - begin;
      }
    }
  }
  return pairs;
}

/// Per pair and head the forward pass has a product of 2 * D operations and one of 2 * Dv. The
/// backward pass has three and two of them.
template <class T>
std::int64_t flops(const attention_forward<T>& op) {
  return 2 * attention_pairs(op.shape) * op.shape.H * (op.shape.D + op.shape.Dv);
}
template <class T>
std::int64_t flops(const attention_backward<T>& op) {
  return 2 * attention_pairs(op.shape) * op.shape.H * (3 * op.shape.D + 2 * op.shape.Dv);
}
constexpr std::int64_t query_rows(const attention_shape& a) {
  return a.query_rows < 0 ? a.query_starts[a.S] : a.query_rows;
}
constexpr std::int64_t key_rows(const attention_shape& a) {
  return a.key_rows < 0 ? a.key_starts[a.S] : a.key_rows;
}
template <class T>
std::int64_t bytes_moved(const attention_forward<T>& op) {
  const auto& a = op.shape;
  const std::int64_t queries = query_rows(a), keys = key_rows(a);
  return std::int64_t{sizeof(T)} * (a.D + a.Dv) * (queries * a.H + keys * a.G) + 4 * queries * a.H
         + std::int64_t{sizeof(accumulator<T>)} * a.H * op.bias.count;
}
template <class T>
std::int64_t bytes_moved(const attention_backward<T>& op) {
  const auto& a = op.shape;
  const std::int64_t queries = query_rows(a), keys = key_rows(a);
  return std::int64_t{sizeof(T)} * 2 * (a.D + a.Dv) * (queries * a.H + keys * a.G)
         + 4 * queries * a.H
         + std::int64_t{sizeof(accumulator<T>)} * a.H * op.bias.count
               * (op.dbias == nullptr ? 1 : 2);
}

template <class T>
constexpr std::int64_t flops(const cache_rows<T>&) {
  return 0;
}
template <class T>
constexpr std::int64_t bytes_moved(const cache_rows<T>& op) {
  return 2 * op.R * (std::int64_t{sizeof(T)} * op.G * op.width + 4);
}

}  // namespace troupe::kernels
