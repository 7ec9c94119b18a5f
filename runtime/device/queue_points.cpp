#include "runtime/device/queue_points.hpp"

#include <utility>

namespace troupe::runtime {

void queue_points::add(std::shared_ptr<device_event> point) {
  const std::lock_guard lock(mutex_);
  drop_passed();
  points_.push_back(std::move(point));
}

bool queue_points::has_advanced() {
  const std::lock_guard lock(mutex_);
  drop_passed();
  return std::exchange(advanced_, false);
}

void queue_points::drop_passed() {
  try {
    for (; !points_.empty() && points_.front()->passed(); points_.pop_front())
      advanced_ = true;
  } catch (const device_failure&) {  // the stream's own thread reports it
    points_.clear();
  }
}

}  // namespace troupe::runtime
