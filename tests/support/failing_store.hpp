// A resident store that fails on request.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/parameters/resident_store.hpp"

namespace troupe::tests {

/// Each call of gradients() decrements `left`; the call at 0 throws io_error. Below 0: never fails.
class failing_store final : public runtime::parameter_store {
 public:
  failing_store(std::vector<runtime::unit_spec> units,
                int replicas,
                runtime::memory_pool pool,
                runtime::dtype type,
                const runtime::axis_ranks& axes,
                std::shared_ptr<int> left)
      : inner_(std::move(units), replicas, std::move(pool), type, axes), left_(std::move(left)) {}

  runtime::dtype type() const override { return inner_.type(); }
  const std::vector<runtime::parameter_entry>& entries() const override { return inner_.entries(); }
  const runtime::axis_ranks& axes() const override { return inner_.axes(); }
  const runtime::memory_pool& pool() const override { return inner_.pool(); }
  int replicas() const override { return inner_.replicas(); }
  void acquire(int unit) override { inner_.acquire(unit); }
  void release(int unit) override { inner_.release(unit); }
  const void* value(int unit, int index) const override { return inner_.value(unit, index); }
  float* gradient(int unit, int index, int source) override {
    return inner_.gradient(unit, index, source);
  }
  bool take_first_gradient(int unit, int index, int source) override {
    return inner_.take_first_gradient(unit, index, source);
  }
  bool writes_first_gradient() const override { return inner_.writes_first_gradient(); }
  void emit(int unit) override { inner_.emit(unit); }
  std::byte* values(int entry) override { return inner_.values(entry); }
  float* gradients(int part, int entry) override {
    if (*left_ >= 0 && (*left_)-- == 0)
      throw runtime::io_error("a planted failure of a store");
    return inner_.gradients(part, entry);
  }
  void select_replica(int replica) override { inner_.select_replica(replica); }
  std::int64_t emitted(int unit) const override { return inner_.emitted(unit); }
  void zero_gradients() override { inner_.zero_gradients(); }
  void on_emit(std::function<void(int)> then) override { inner_.on_emit(std::move(then)); }
  void close_gate(const runtime::cancel_token& token) override { inner_.close_gate(token); }
  void open_gate(int unit, std::shared_ptr<runtime::device_event> point) override {
    inner_.open_gate(unit, std::move(point));
  }
  void on_gate_passed(
      std::function<void(const std::shared_ptr<runtime::device_event>&)> wait) override {
    inner_.on_gate_passed(std::move(wait));
  }
  runtime::tensor* value_array() override { return inner_.value_array(); }

 private:
  runtime::resident_store inner_;
  std::shared_ptr<int> left_;
};

}  // namespace troupe::tests
