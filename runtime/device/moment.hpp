// A point in time on a stream: host time, or an event in a device queue.

#pragma once

#include "runtime/device/device.hpp"

#include <cstdint>
#include <memory>
#include <utility>

namespace troupe::runtime {

/// Made by stream::now; stream::ns_of converts it to nanoseconds.
class moment {
 public:
  moment() = default;
  explicit moment(std::int64_t ns) : ns_(ns) {}
  explicit moment(std::shared_ptr<device_event> event) : event_(std::move(event)) {}

 private:
  friend class stream;
  std::int64_t ns_ = 0;
  std::shared_ptr<device_event> event_;
};

}  // namespace troupe::runtime
