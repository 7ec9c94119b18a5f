// Where an operation runs: how many threads, on which queue, with what scratch memory.
//
// An operation never allocates and never starts threads of its own: it uses the team of the lane
// that calls it and the workspace that it is given. An operation that needs scratch declares how
// much by `workspace_bytes(op, threads)`.
//
// The arrays of an operation lie where its backend computes: in host memory, or in the memory of
// the queue's device. Exceptions say "host" beside the member: an array of pointers or of pieces,
// which is read before `run` returns.

#pragma once

#include "kernels/op/bf16.hpp"
#include "kernels/op/f16.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace troupe::kernels {

struct context {
  int threads = 1;                      ///< size of the OpenMP team; 1 runs on the caller alone
  std::span<std::byte> workspace = {};  ///< aligned to 64 bytes; of the device, where there is one
  void* queue = nullptr;                ///< of a device: a CUDA stream. Null: the calling thread
};

/// What sums of gradients are kept in: at least fp32.
template <class T>
using accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace troupe::kernels
