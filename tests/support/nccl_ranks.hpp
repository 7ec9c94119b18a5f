// Runs the ranks of an NCCL group as threads, each with a stream on its own emulated device.

#pragma once

#include "runtime/collective/nccl_group.hpp"
#include "tests/support/emulated_plugins.hpp"

#include <cstdlib>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace troupe::tests {

/// Runs before the first use of a device.
inline const bool has_four_devices = ::setenv("TROUPE_EMULATED_DEVICES", "4", 1) == 0;

/// Runs each rank on its own thread; then rethrows the exception of the lowest failed rank.
inline void on_threads(int ranks, const std::function<void(int rank)>& act) {
  std::vector<std::exception_ptr> failed(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        act(r);
      } catch (...) {
        failed[std::size_t(r)] = std::current_exception();
      }
    });
  for (auto& one : threads)
    one.join();
  for (const auto& one : failed)
    if (one)
      std::rethrow_exception(one);
}

using nccl_work = std::function<void(runtime::nccl_communicator&, runtime::stream&)>;

/// Runs `act` on all ranks of one group of `of`. All work on the streams is finished when it
/// returns.
inline void as_nccl_ranks(runtime::nccl_groups& of,
                          int size,
                          const nccl_work& act,
                          const std::string& name = "ranks of a test") {
  on_threads(size, [&](int r) {
    runtime::stream stream(kernels::backend::cuda, 1, {}, r);
    const auto mine
        = runtime::make_nccl_communicator(of, {name, runtime::axis::tensor, r, size, r});
    act(*mine, stream);
    stream.finish();
  });
}

}  // namespace troupe::tests
