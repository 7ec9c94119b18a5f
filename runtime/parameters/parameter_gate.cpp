#include "runtime/parameters/parameter_gate.hpp"

#include "runtime/core/error.hpp"

#include <utility>

namespace troupe::runtime {

void parameter_gate::close(const cancel_token& token) {
  waker_ = token.on_cancel([this] {
    const std::lock_guard at_wake(mutex_);
    changed_.notify_all();
  });
  const std::lock_guard lock(mutex_);
  token_ = token;
  closed_.assign(units_, 1);
  points_.assign(units_, nullptr);
}

void parameter_gate::open(int unit, std::shared_ptr<device_event> point) {
  const std::lock_guard lock(mutex_);
  if (closed_.empty())
    return;
  closed_.at(std::size_t(unit)) = 0;
  points_.at(std::size_t(unit)) = std::move(point);
  changed_.notify_all();
}

void parameter_gate::pass(int unit) {
  if (closed_.empty())
    return;
  std::unique_lock lock(mutex_);
  changed_.wait(
      lock,
      [&] { return !closed_[std::size_t(unit)] || token_.is_cancelled(); },
      {wait_reason::party::communication_lane, "parameters that are still being gathered"});
  if (closed_[std::size_t(unit)])
    throw cancelled();
  if (const auto point = std::exchange(points_[std::size_t(unit)], nullptr))
    wait_(point);
}

}  // namespace troupe::runtime
