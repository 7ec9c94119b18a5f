// Attention as the pattern of operations from which cuDNN recognizes its fused kernels.
//
// Forward pass, with B sequences, H heads, G groups, T query rows, S key rows:
//
//   s = scale * q k^T    where row >= column and column + window + 1 > row, else -infinity
//   m = max s            e = exp(s - m)       l = sum e
//   lse = m + log l      o = (e / l) v
//
// Logarithms are natural. lse is that of kernels/op/attention.hpp: (B, H, T) per launch. Backward
// pass:
//
//   p = exp(s - lse)     D = sum do * o       dv = p^T do
//   ds = scale * p * (do v^T - D)             dk = ds^T q         dq = ds k
//
// If several query heads share a key head, dk and dv are sums over these heads.
//
// dk and dv have one owner each. dq is a sum over blocks of keys that different blocks of the
// device compute. The order of this sum decides whether the bits are reproducible, and how much
// memory it needs (dq_sum).
//
// Verified by tests without a device: cuDNN 9.19 recognizes these patterns for compute capability
// 8.0 and 9.0, 9.28 also sums dq in order on 9.0, and the kernels compile. Not verified for lack of
// a device: correctness, reproducibility and speed of the results.

#pragma once

#include "kernels/cudnn/graph.hpp"

namespace troupe::kernels::cudnn {

/// Strides of a tensor of heads, in elements; the last dimension is contiguous.
struct head_strides {
  std::int64_t batch, head, row;
  friend bool operator==(const head_strides&, const head_strides&) = default;
};

/// How dq is summed.
enum class dq_sum : std::uint8_t {
  at_once,    ///< from ds in cuDNN's workspace: B * H * T * S 16-bit elements
  in_order,   ///< in fp32, one block of keys after another: B * H * T * D floats; slower
  any_order,  ///< in fp32, as blocks of keys finish: nondeterministic
};

/// Everything that a plan depends on.
struct attention_problem {
  bool half;                      ///< fp16; else bf16
  std::int64_t B, H, G, T, S, D;  ///< sequences, heads, groups, query rows, key rows, head size
  head_strides q, k, o;  ///< dq has the strides of q; v, dk and dv those of k; do those of o
  float scale;
  bool causal;
  std::int64_t window;           ///< -1: none
  dq_sum sum = dq_sum::at_once;  ///< backward pass only

  friend bool operator==(const attention_problem&, const attention_problem&) = default;
};

/// Alignment of lse in bytes: one float. All other arrays are aligned to 16.
inline constexpr std::int64_t row_sum_alignment = 4;

/// Pointers in the order q, k, v, o, lse.
plan forward_plan(const attention_problem& x, const descriptor& device);

/// Pointers in the order q, k, v, o, do, lse, dq, dk, dv, D (contiguous, B * H * T floats). If dq
/// is summed in fp32, that sum follows (contiguous, B * H * T * D floats; cuDNN clears it).
plan backward_plan(const attention_problem& x, const descriptor& device);

}  // namespace troupe::kernels::cudnn
