// What everyone who works with a device throws, and catches, who needs none of its operations.

#pragma once

#include <stdexcept>

namespace troupe::kernels {

/// The device or its driver failed, or refused: what was called, on what, what it said.
class device_failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace troupe::kernels
