// Runs an operation on the cpu backend with exactly the scratch memory that it declares, filled
// with NaN: an operation that reads it before writing is seen.

#pragma once

#include "kernels/backend/backend.hpp"

#include <cstring>
#include <vector>

namespace troupe::tests {

template <class Op>
void on_cpu(const Op& op, int threads = 1) {
  struct alignas(64) line {
    std::byte bytes[64];
  };
  const std::size_t bytes = kernels::scratch(kernels::backend::cpu, op, threads);
  std::vector<line> workspace(bytes / sizeof(line) + 1);
  std::memset(static_cast<void*>(workspace.data()), 0xFF, workspace.size() * sizeof(line));
  kernels::run(kernels::backend::cpu, op, {threads, {workspace.data()->bytes, bytes}});
}

}  // namespace troupe::tests
