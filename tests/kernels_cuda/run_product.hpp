// Runs matrix products on the emulated device.

#pragma once

#include "kernels/cuda/product.hpp"
#include "tests/support/emulated.hpp"

namespace troupe::tests {

/// Device memory that is not initialised, so that unused pages do not exist.
inline std::span<std::byte> new_workspace() {
  const std::size_t bytes = kernels::cuda::product_workspace
                            + kernels::cuda::product_workspace_alignment
                            + kernels::cuda::most_trial_bytes + kernels::cuda::cold_bytes();
  void* out = nullptr;
  must(cudaMalloc(&out, bytes), "cudaMalloc");
  return {static_cast<std::byte*>(out), bytes};
}

/// Like run_on_device, but with one workspace per thread: each product needs 32 MiB.
template <class Op>
void run_product(const Op& op) {
  thread_local const auto workspace = new_workspace();
  const device_queue queue;
  kernels::cuda::run(op, queue.context(workspace.first(scratch_on_device(op))));
  queue.wait();
}

}  // namespace troupe::tests
