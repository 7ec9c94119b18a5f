// The door to the CUDA rooms: they are a plug-in, opened with the first operation.

#pragma once

#include "kernels/backend/backend.hpp"

namespace troupe::kernels::cuda_backend {

// Defined for every operation that runs on a device with T = float, and narrow types where it
// exists in them. Both throw backend_missing where there is no CUDA backend, with what the user can
// do about it.

/// Enqueues the operation on the queue of the context; returns before it has finished.
template <class Op>
void run(const Op& op, const context& in);

template <class Op>
std::size_t scratch(const Op& op, int threads);

}  // namespace troupe::kernels::cuda_backend
