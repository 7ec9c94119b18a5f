// An owning file descriptor.

#pragma once

#include <cerrno>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace troupe::runtime::ucx {

class descriptor {
 public:
  descriptor() = default;
  /// Throws std::system_error when `made` is negative.
  descriptor(int made, const char* what) : it_(made) {
    if (made < 0)
      throw std::system_error(errno, std::generic_category(), what);
  }
  descriptor(descriptor&& x) noexcept : it_(std::exchange(x.it_, -1)) {}
  descriptor& operator=(descriptor&& x) noexcept {
    std::swap(it_, x.it_);
    return *this;
  }
  ~descriptor() {
    if (it_ >= 0)
      ::close(it_);
  }
  operator int() const { return it_; }

 private:
  int it_ = -1;
};

}  // namespace troupe::runtime::ucx
