// Scaled dot-product attention, causal or not, grouped queries, packed sequences, no T x T matrix.
//
// For query row i and key row j of one sequence, head h of group g = h / (H / G):
//
//   s[i,j]  = scale * q[i,h] . k[j,g]     where 0 <= query_position[i] - key_position[j]
//                                         <= window, or not causal
//   lse[i]  = log sum_j exp(s[i,j])       p[i,j] = exp(s[i,j] - lse[i])
//   m[i,j]  = dropout of p: 0 or 1 / (1 - p_drop); 1 without dropout
//   o[i,h]  = sum_j p[i,j] * m[i,j] * v[j,g]
//
// Dao: "FlashAttention-2", 2023; Milakov, Gimelshein: "Online normalizer calculation for softmax",
// 2018. A query row that sees no key has o = 0 and lse = -infinity.
//
// lse lies head by head within a sequence: that of sequence s is a block (H, rows of s) which
// begins at H * query_starts[s], (B, H, T) where all have one length. Libraries have it so.
//
// The backward pass, with D[i] = sum_d do[i,d] * o[i,d]:
//
//   dv[j] = sum_i p m do[i]     ds[i,j] = p (m do[i] . v[j] - D[i])
//   dq[i] = scale * sum_j ds[i,j] k[j]     dk[j] = scale * sum_i ds[i,j] q[i]
//
// Positions and cumulative lengths, not a start and a length: packed sequences, KV caches (query
// rows fewer than key rows) and context parallelism (any subset of rows) need nothing else. Within
// one sequence key positions ascend.
//
// Queries, keys and values may lie in one fused product, Megatron's layout [q .. q k v] per group:
// strides are in elements, of a row and of a group; the heads of a group are adjacent.

#pragma once

#include "kernels/op/context.hpp"
#include "kernels/op/philox.hpp"

#include <algorithm>
#include <limits>

namespace troupe::kernels {

/// The shape shared by both passes. Rows that nobody sees must be finite as well: a weight of 0
/// times what is not a number is none, for up to 63 rows beside those that see it.
struct attention_shape {
  const std::int32_t* query_starts;     ///< (S + 1) first query row of each sequence, then all rows
  const std::int32_t* key_starts;       ///< (S + 1) the same for keys
  const std::int32_t* query_position;   ///< (query rows)
  const std::int32_t* key_position;     ///< (key rows)
  std::int64_t S;                       ///< sequences
  std::int64_t H;                       ///< query heads
  std::int64_t G;                       ///< key and value heads, G divides H
  std::int64_t D;                       ///< head size
  std::int64_t query_row, query_group;  ///< strides of q (and dq)
  std::int64_t key_row, key_group;      ///< strides of k, v (and dk, dv)
  float scale;                          ///< usually 1 / sqrt(D)
  bool causal = true;
  /// Keys up to this many positions before the query's own are seen (Megatron's left window size);
  /// -1: all. Only with `causal`.
  std::int32_t window = -1;

  /// Dropout of probabilities. Word number (first_head + h) * 2^32 + key_position of the stream
  /// `sample[s] * 2^24 + query_position` decides: at most 2^24 positions.
  float p_drop = 0;
  std::uint64_t key = 0;                  ///< of the random numbers
  const std::uint64_t* sample = nullptr;  ///< (S) global sample position; may be null if p_drop = 0
  std::int64_t first_head = 0;  ///< number of head 0 in the whole model: heads may be spread

  /// The extents of the arrays above, for a backend whose arrays the host cannot read: rows in all
  /// and the longest sequence. -1: unknown, which the cuda backend refuses (ATTENTION-1).
  std::int64_t query_rows = -1, key_rows = -1;
  std::int64_t longest_query = -1, longest_key = -1;
  /// Every sequence has longest_query rows, which are its positions 0, 1, ... in order, and the
  /// keys likewise: what most of training does. Lets a backend take a library's kernel.
  bool uniform = false;
  /// false: a backend may sum in an order that differs from run to run, where that is faster.
  bool same_bits = true;
};

template <class T>
struct attention_forward {
  T* o;        ///< (query rows, H, D) written, contiguous
  float* lse;  ///< (H, rows) of each sequence, at lse_at: written
  const T* q;
  const T* k;
  const T* v;
  attention_shape shape;
};

template <class T>
struct attention_backward {
  T* dq;             ///< strides of q, written
  T* dk;             ///< strides of k, written
  T* dv;             ///< strides of k, written
  const T* d_o;      ///< (query rows, H, D)
  const T* o;        ///< (query rows, H, D)
  const float* lse;  ///< (H, rows) of each sequence
  const T* q;
  const T* k;
  const T* v;
  attention_shape shape;
};

/// A cache of keys and values grows: row r goes to row at[r] of the cache, with its position.
template <class T>
struct cache_rows {
  T* entries;                    ///< (cache rows, G, width) rows at[r] written
  std::int32_t* positions;       ///< (cache rows) written at the same places
  const T* kv;                   ///< the first key of row 0; strides of q
  const std::int32_t* position;  ///< (R)
  const std::int32_t* at;        ///< (R) rows of the cache, each another
  std::int64_t R, G, width;      ///< width: a key and its value, 2 * D elements
  std::int64_t row, group;       ///< strides of kv, in elements
};

constexpr std::uint64_t attention_stream(std::uint64_t sample, std::int32_t query_position) {
  return (sample << 24) + std::uint64_t(query_position);
}
constexpr std::uint64_t attention_word(std::int64_t head, std::int32_t key_position) {
  return (std::uint64_t(head) << 32) + std::uint64_t(key_position);
}

/// Where lse of `row` and head h lies, in the sequence of the rows from `begin` to `end`.
constexpr std::int64_t lse_at(
    std::int64_t H, std::int64_t begin, std::int64_t end, std::int64_t h, std::int64_t row) {
  return H * begin + h * (end - begin) + (row - begin);
}

/// The first position that a query sees through the window.
constexpr std::int64_t attention_horizon(const attention_shape& a, std::int32_t query_position) {
  return a.window < 0 ? std::numeric_limits<std::int64_t>::min()
                      : std::int64_t{query_position} - a.window;
}

/// Whether `flops` need elements of the arrays, which the host cannot read on a device.
constexpr bool reads_arrays(const attention_shape& a) {
  return !a.uniform || (a.causal && a.longest_query > a.longest_key);
}

/// Keys that queries 0 to n - 1 see, at most `most` each: 1, 2, ... of them.
constexpr std::int64_t rising_sum(std::int64_t n, std::int64_t most) {
  const std::int64_t rising = std::min(n, most);
  return rising * (rising + 1) / 2 + (n - rising) * most;
}

/// Pairs (query row, key row) that are computed: a causal pair counts only where it is visible.
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

/// Two products of 2 * D operations a pair and head forward, five backward.
template <class T>
std::int64_t flops(const attention_forward<T>& op) {
  return 4 * attention_pairs(op.shape) * op.shape.H * op.shape.D;
}
template <class T>
std::int64_t flops(const attention_backward<T>& op) {
  return 10 * attention_pairs(op.shape) * op.shape.H * op.shape.D;
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
  return std::int64_t{sizeof(T)} * a.D * (2 * queries * a.H + 2 * keys * a.G) + 4 * queries * a.H;
}
template <class T>
std::int64_t bytes_moved(const attention_backward<T>& op) {
  const auto& a = op.shape;
  const std::int64_t queries = query_rows(a), keys = key_rows(a);
  return std::int64_t{sizeof(T)} * a.D * (4 * queries * a.H + 4 * keys * a.G) + 4 * queries * a.H;
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
