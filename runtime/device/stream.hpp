// A stream: where one lane's operations run, in order.

#pragma once

#include "kernels/backend/backend.hpp"
#include "runtime/device/memory_pool.hpp"

#include <chrono>
#include <concepts>
#include <cstddef>

namespace troupe::runtime {

/// Owned by one thread. On the CPU an operation has finished when `run` returns. With a shadow pool
/// nothing is computed; only the scratch of operations is counted.
class stream {
 public:
  stream(kernels::backend where, int threads, memory_pool pool)
      : where_(where), threads_(threads), pool_(std::move(pool)) {}

  template <class Op>
  void run(const Op& op) {
    if (pool_.is_shadow())  // only its scratch is counted
      return void(scratch(kernels::scratch(where_, op, threads_)));
    const kernels::context in{threads_, scratch(kernels::scratch(where_, op, threads_))};
    if (!measuring_)
      return kernels::run(where_, op, in);
    const auto began = std::chrono::steady_clock::now();
    kernels::run(where_, op, in);
    busy_ += std::chrono::steady_clock::now() - began;
    ++operations_;
  }

  /// Work of a user's own on elements, on this thread: no kernel of ours has it. Nothing with a
  /// shadow pool, whose elements mean nothing.
  template <std::invocable Work>
  void run(const Work& work) {
    if (!pool_.is_shadow())
      work();
  }

  /// From now on the time inside operations is added up. For benchmarks.
  void measure() { measuring_ = true; }
  std::chrono::nanoseconds busy() const { return busy_; }
  std::uint64_t operations() const { return operations_; }

  memory_block allocate(std::size_t bytes) { return pool_.allocate(bytes); }
  const memory_pool& pool() const { return pool_; }
  kernels::backend where() const { return where_; }
  int threads() const { return threads_; }

 private:
  std::span<std::byte> scratch(std::size_t bytes) {
    if (bytes > scratch_size_) {
      scratch_ = pool_.allocate(bytes);
      scratch_size_ = bytes;
    }
    return {scratch_.get(), bytes};
  }

  kernels::backend where_;
  int threads_;
  bool measuring_ = false;
  std::chrono::nanoseconds busy_{0};
  std::uint64_t operations_ = 0;
  memory_pool pool_;
  memory_block scratch_;
  std::size_t scratch_size_ = 0;
};

}  // namespace troupe::runtime
