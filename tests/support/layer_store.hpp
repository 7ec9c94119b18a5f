// Base class for parameter stores of tests; only layers use these stores.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/parameters/store.hpp"

namespace troupe::tests {

/// Has one replica and no entries. Calls that an optimizer, buckets or gathers would make throw
/// broken_promise.
class layer_store : public runtime::parameter_store {
 public:
  /// One unit with this number of parameters.
  explicit layer_store(std::size_t parameters = 0) : entries_(parameters) {}
  const std::vector<runtime::parameter_entry>& entries() const override { return entries_; }
  const runtime::axis_ranks& axes() const override { return ranks_; }
  const runtime::memory_pool& pool() const override { return pool_; }
  int replicas() const override { return 1; }
  std::byte* values(int) override { refuse(); }
  float* gradients(int, int) override { refuse(); }
  void select_replica(int) override { refuse(); }
  std::int64_t emitted(int) const override { refuse(); }
  void zero_gradients() override { refuse(); }
  void on_emit(std::function<void(int)>) override { refuse(); }
  void close_gate(const runtime::cancel_token&) override { refuse(); }
  void open_gate(int, std::shared_ptr<runtime::device_event>) override { refuse(); }
  void on_gate_passed(std::function<void(const std::shared_ptr<runtime::device_event>&)>) override {
    refuse();
  }

 private:
  [[noreturn]] static void refuse() {
    throw runtime::broken_promise("a layer store supports only calls of layers");
  }

  std::vector<runtime::parameter_entry> entries_;
  runtime::axis_ranks ranks_;
  runtime::memory_pool pool_;
};

}  // namespace troupe::tests
