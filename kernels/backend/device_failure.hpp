// The exception of device failures, in a header that needs no operations.

#pragma once

#include <stdexcept>

namespace troupe::kernels {

/// The device or its driver failed. The message has the call, its object and the driver's answer.
class device_failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace troupe::kernels
