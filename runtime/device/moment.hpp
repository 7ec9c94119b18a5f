// A moment on a stream: on the host, or a point in a device's queue.

#pragma once

#include "runtime/device/device.hpp"

#include <cstdint>
#include <memory>
#include <utility>

namespace troupe::runtime {

/// stream::now makes it, stream::ns_of tells when it was.
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
