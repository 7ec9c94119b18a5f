// Attention as cuDNN's pattern of operations, from which it recognises its fused kernels.
//
// Forward, B sequences, H heads, G groups, T query rows, S key rows:
//
//   s = scale * q k^T    where row >= column, and column + window + 1 > row, else -infinity
//   m = max s            e = exp(s - m)       l = sum e
//   lse = m + log l      o = (e / l) v
//
// in natural logarithms: lse is that of kernels/op/attention.hpp, of a launch (B, H, T). Backward:
//
//   p = exp(s - lse)     D = sum do * o       dv = p^T do
//   ds = scale * p * (do v^T - D)             dk = ds^T q         dq = ds k
//
// Several query heads share a key head: dk and dv are sums over them.
//
// dk and dv have one owner each. dq is a sum over blocks of keys, which different blocks of the
// device compute; how they come together decides whether its bits are the same every time, and what
// memory that takes (dq_sum).
//
// Shown by tests, without a device: cuDNN 9.19 recognises these patterns for compute capability 8.0
// and 9.0, 9.28 also sums dq in order on 9.0, and their kernels compile. Not shown, as no device
// was at hand: that what they compute is right, that it has the same bits every time, and how fast
// it is.

#pragma once

#include "kernels/cudnn/graph.hpp"

namespace troupe::kernels::cudnn {

/// Strides of a tensor of heads, in elements; the last dimension is contiguous.
struct head_strides {
  std::int64_t batch, head, row;
  friend bool operator==(const head_strides&, const head_strides&) = default;
};

/// How dq comes together.
enum class dq_sum : std::uint8_t {
  at_once,    ///< of ds, which lies in cuDNN's workspace: B * H * T * S narrow elements
  in_order,   ///< in fp32, one block of keys after the other: B * H * T * D floats, and slower
  any_order,  ///< in fp32, as blocks of keys finish: other bits every time
};

/// What a plan depends on.
struct attention_problem {
  bool half;                      ///< fp16; else bf16
  std::int64_t B, H, G, T, S, D;  ///< sequences, heads, groups, query rows, key rows, head size
  head_strides q, k, o;           ///< dq is like q; v, dk and dv like k; do like o
  float scale;
  bool causal;
  std::int64_t window;           ///< -1: none
  dq_sum sum = dq_sum::at_once;  ///< of a backward pass

  friend bool operator==(const attention_problem&, const attention_problem&) = default;
};

/// Of lse, in bytes: one number's. All else is aligned to 16.
inline constexpr std::int64_t row_sum_alignment = 4;

/// Memory in the order q, k, v, o, lse.
plan forward_plan(const attention_problem& x, const descriptor& device);

/// Memory in the order q, k, v, o, do, lse, dq, dk, dv, D (contiguous, B * H * T floats), and where
/// dq is summed in fp32 that sum (contiguous, B * H * T * D floats, which cuDNN clears).
plan backward_plan(const attention_problem& x, const descriptor& device);

}  // namespace troupe::kernels::cudnn
