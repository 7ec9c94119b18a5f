// The operations on CUDA devices, each in the source of its family. See cuda_library.hpp.
//
// Those that compute element by element or row by row move what `bytes_moved` says, each byte once.
// What they move beside it, or less:
//
//   norm_forward            rows above 16,384 elements (8,192 of fp32), or unaligned ones: what is
//                           normalised twice
//   norm_backward_input     rows above 8,192 elements, or unaligned ones: x and dy twice, mostly
//   from
//                           a cache the second time
//   cross_entropy_both_passes
//                           logits of a row twice, the second time mostly from a cache
//   *_backward_weight, bias_backward
//                           partial sums of 64 rows or more, written and read: at most a 16th
//   head_norm_*             mean and rstd of a head, 8 bytes, which bytes_moved leaves out
//   embedding_forward       a row that is asked for again comes from a cache
//   embedding_backward      dy once for each table, whose rows it has in another order; 28 bytes a
//                           row and table to sort; a row of a table once, however often it is used;
//                           of what comes more than 256 times a sum for each 256, written and read
//   with fingerprints       of a grain and array 16 bytes, cleared, added to and read
//   square_norm(s)          8 bytes for 4,096 elements, written and read

#pragma once

#include "kernels/backend/cuda_library.hpp"
#include "kernels/op/every_op.hpp"

namespace troupe::kernels::cuda {

/// Defined for every operation that runs on a device: T = float, and bf16 and f16 where the
/// operation exists in them. Each source instantiates its own.
template <class Op>
void run(const Op& op, const context& in);

// Bytes of workspace of the operations that need some; every other needs none. Pure functions of
// the operation's shape: no device is asked.

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

}  // namespace troupe::kernels::cuda
