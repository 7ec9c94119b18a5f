// The operations on CUDA devices, each in the source file of its family. See cuda_library.hpp.
//
// Elementwise and row operations move the bytes of `bytes_moved`, each once, with these exceptions:
//
//   norm_forward            reads x twice for rows above 16,384 elements (fp32: 8,192) or unaligned
//   norm_backward_input     reads x and dy twice for rows above 8,192 elements or unaligned; the
//                           second time mostly from a cache
//   cross_entropy_both_passes
//                           reads a row of logits twice, the second time mostly from a cache
//   *_backward_weight, bias_backward
//                           write and read partial sums of 64 rows or more: at most 1/16 more
//   head_norm_*             mean and rstd of a head, 8 bytes, are not in bytes_moved
//   embedding_forward       repeated rows come from a cache
//   embedding_backward      reads dy once per table, in another order; sorts with 28 bytes per row
//                           and table; writes a table row once; for rows with more than 256 uses,
//                           writes and reads a partial sum per 256 uses
//   permute, unpermute      rows of empty slots are not read; repeated rows come from a cache
//   with fingerprints       16 bytes per grain and array: cleared, added to and read
//   square_norm(s)          8 bytes per 4,096 elements, written and read

#pragma once

#include "kernels/backend/cuda_library.hpp"
#include "kernels/op/every_op.hpp"

namespace troupe::kernels::cuda {

/// Runs an operation on a device. T is float, and bf16 and f16 if the operation supports them. Each
/// source file instantiates its own.
template <class Op>
void run(const Op& op, const context& in);

// Workspace bytes of an operation; operations without an overload need none. Depends only on the
// shape; no device is queried.

// product.cpp
template <class T>
std::size_t scratch(const linear_forward<T>& op);
template <class T>
std::size_t scratch(const linear_backward_input<T>& op);
template <class T>
std::size_t scratch(const linear_backward_weight<T>& op);
// norm.cu, head_norm.cu, bias.cu
template <class T>
std::size_t scratch(const norm_backward_weight<T>& op);
template <class T>
std::size_t scratch(const head_norm_backward_weight<T>& op);
template <class T>
std::size_t scratch(const bias_backward<T>& op);
// embedding.cu
template <class T>
std::size_t scratch(const embedding_backward<T>& op);
// grouped_linear.cu
template <class T>
std::size_t scratch(const grouped_linear_backward_weight<T>& op);
// attention_forward.cu, attention_backward.cu
template <class T>
std::size_t scratch(const attention_forward<T>& op);
template <class T>
std::size_t scratch(const attention_backward<T>& op);
// cross_entropy_forward.cu, cross_entropy_both_passes.cu
template <class T>
std::size_t scratch(const cross_entropy_forward<T>& op);
template <class T>
std::size_t scratch(const cross_entropy_both_passes<T>& op);
// sum.cu
template <class T>
std::size_t scratch(const ordered_sum<T>& op);
std::size_t scratch(const square_norm<float>& op);
std::size_t scratch(const square_norms<float>& op);
// adamw.cu, momentum.cu, fingerprint.cu
std::size_t scratch(const adamw_pieces<float>& op);
std::size_t scratch(const momentum_step<float>& op);
std::size_t scratch(const scaled_sum<float>& op);
std::size_t scratch(const fingerprint<float>& op);
// sinkhorn.cu
std::size_t scratch(const sinkhorn<float>& op);

}  // namespace troupe::kernels::cuda
