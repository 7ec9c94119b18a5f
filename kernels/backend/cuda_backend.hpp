// The door to the CUDA rooms. Exactly one source stands behind it: the one that opens the plug-in,
// or no_cuda.cpp, which answers in its absence. The build chooses the source; no line of code asks.

#pragma once

#include "kernels/backend/backend.hpp"

namespace troupe::kernels::cuda_backend {

// Defined for every operation with T = float, and bf16 where it exists. Both throw backend_missing
// where there is no CUDA backend, with what the user can do about it.

/// Enqueues the operation on the stream of the context; returns before it has finished.
template <class Op>
void run(const Op& op, const context& in);

template <class Op>
std::size_t scratch(const Op& op, int threads);

}  // namespace troupe::kernels::cuda_backend
