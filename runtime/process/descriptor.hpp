// An owning file descriptor.

#pragma once

#include <unistd.h>
#include <utility>

namespace troupe::runtime {

/// Closed at destruction. Movable; one thread.
class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int number) : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(other.release()) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor() { close(); }

  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }
  void close() {
    if (number_ >= 0)
      ::close(release());
  }

 private:
  int number_ = -1;
};

}  // namespace troupe::runtime
