// Per-unit gates: a pass waits at each unit until its parameters are gathered.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/core/waiting.hpp"
#include "runtime/device/stream.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe::runtime {

/// Implements close_gate, open_gate and on_gate_passed of a store. Any thread opens a gate; one
/// thread passes it.
class parameter_gate {
 public:
  explicit parameter_gate(std::size_t units) : units_(units) {}

  void close(const cancel_token& token);
  void open(int unit, std::shared_ptr<device_event> point);
  void on_passed(std::function<void(const std::shared_ptr<device_event>&)> wait) {
    wait_ = std::move(wait);
  }
  /// Waits until the unit's gate is open. Throws `cancelled`.
  void pass(int unit);

 private:
  std::size_t units_;
  std::mutex mutex_;
  wait_condition changed_;
  std::vector<char> closed_;  ///< per unit; empty until the first close
  std::vector<std::shared_ptr<device_event>> points_;
  std::function<void(const std::shared_ptr<device_event>&)> wait_;
  cancel_token token_;
  std::shared_ptr<void> waker_;
};

}  // namespace troupe::runtime
