#pragma once

#include "kernels/cuda/product.hpp"
#include "tests/support/emulated.hpp"

namespace troupe::tests {

/// Not written by the host, so that its pages exist only where they are used.
inline std::span<std::byte> new_workspace() {
  const std::size_t bytes = kernels::cuda::product_workspace
                            + kernels::cuda::product_workspace_alignment
                            + kernels::cuda::most_trial_bytes + kernels::cuda::cold_bytes();
  void* out = nullptr;
  must(cudaMalloc(&out, bytes), "cudaMalloc");
  return {static_cast<std::byte*>(out), bytes};
}

/// As run_on_device, with one workspace of the thread: every product wants 32 MiB.
template <class Op>
void run_product(const Op& op) {
  thread_local const auto workspace = new_workspace();
  const device_queue queue;
  kernels::cuda::run(op, queue.context(workspace.first(scratch_on_device(op))));
  queue.wait();
}

}  // namespace troupe::tests
