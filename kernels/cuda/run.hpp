// The operations on CUDA devices, each in the source of its family. See cuda_library.hpp.

#pragma once

#include "kernels/backend/cuda_library.hpp"

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
// cross_entropy_forward.cu
template <class T>
std::size_t scratch(const cross_entropy_forward<T>& op);
// sum.cu
template <class T>
std::size_t scratch(const ordered_sum<T>& op);
std::size_t scratch(const square_norm<float>& op);
std::size_t scratch(const square_norms<float>& op);

}  // namespace troupe::kernels::cuda
