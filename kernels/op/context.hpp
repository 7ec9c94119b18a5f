// Execution context of an operation: thread count, queue and scratch memory.
//
// An operation allocates nothing and starts no threads. It uses the OpenMP team of the calling lane
// and the given workspace. `workspace_bytes(op, threads)` states the scratch that it needs, if any.
//
// The arrays of an operation are in the memory of its backend: host memory, or the memory of the
// queue's device. Members marked "host" are arrays of pointers or pieces in host memory; they are
// read before `run` returns.

#pragma once

#include "kernels/op/bf16.hpp"
#include "kernels/op/f16.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace troupe::kernels {

struct context {
  int threads = 1;                      ///< size of the OpenMP team; 1: the calling thread alone
  std::span<std::byte> workspace = {};  ///< aligned to 64 bytes; device memory if there is a device
  void* queue = nullptr;                ///< CUDA stream of a device; null: the calling thread
};

/// The type of gradient sums: at least fp32.
template <class T>
using accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace troupe::kernels
