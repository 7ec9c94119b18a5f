// Attention as cuDNN's pattern of operations, from which it recognises its fused kernels.
//
// Forward, B sequences, H heads, G groups, T query rows, S key rows:
//
//   s = scale * q k^T    where row >= column, and column + window + 1 > row, else -infinity
//   m = max s            e = exp(s - m)       l = sum e
//   lse = m + log l      o = (e / l) v
//
// in natural logarithms: lse is that of kernels/op/attention.hpp. Backward:
//
//   p = exp(s - lse)     D = sum do * o       dv = p^T do
//   ds = scale * p * (do v^T - D)             dk = ds^T q         dq = ds k
//
// Several query heads share a key head: dk and dv are sums over them.
//
// Shown by tests, without a device: cuDNN 9.19 recognises both patterns for compute capability 9.0
// and its kernels compile. Not shown, as no device was at hand: that what they compute is right,
// that it has the same bits every time, and how fast it is.

#pragma once

#include "kernels/cudnn/graph.hpp"

namespace troupe::kernels::cudnn {

/// Strides of a tensor of heads, in elements; the last dimension is contiguous.
struct head_strides {
  std::int64_t batch, head, row;
  friend bool operator==(const head_strides&, const head_strides&) = default;
};

/// What a plan depends on.
struct attention_problem {
  bool half;                      ///< fp16; else bf16
  std::int64_t B, H, G, T, S, D;  ///< sequences, heads, groups, query rows, key rows, head size
  head_strides q, k, o, lse;      ///< dq is like q; v, dk and dv like k; do like o
  float scale;
  bool causal;
  std::int64_t window;  ///< -1: none

  friend bool operator==(const attention_problem&, const attention_problem&) = default;
};

/// Of lse, in bytes: one number's. All else is aligned to 16.
inline constexpr std::int64_t row_sum_alignment = 4;

/// Memory in the order q, k, v, o, lse.
plan forward_plan(const attention_problem& x, const descriptor& device);

/// Memory in the order q, k, v, o, do, lse, dq, dk, dv, D (contiguous, B * H * T floats). For the
/// same bits every time dq is not summed over blocks of keys as they finish: cuDNN keeps ds, which
/// is B * H * T * S narrow elements, in its workspace and multiplies it at once.
plan backward_plan(const attention_problem& x, const descriptor& device);

}  // namespace troupe::kernels::cudnn
