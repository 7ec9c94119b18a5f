// Points of a device's queue, by which the failure detector sees that the device works while the
// host waits for it.

#pragma once

#include "runtime/core/waiting.hpp"
#include "runtime/device/device.hpp"

#include <deque>
#include <memory>
#include <mutex>

namespace troupe::runtime {

/// Any thread.
class queue_points final : public work_elsewhere {
 public:
  void add(std::shared_ptr<device_event> point);
  bool has_advanced() override;

 private:
  void drop_passed();

  std::mutex mutex_;
  std::deque<std::shared_ptr<device_event>> points_;  ///< not passed yet, as far as known
  bool advanced_ = false;                             ///< since the last question
};

}  // namespace troupe::runtime
