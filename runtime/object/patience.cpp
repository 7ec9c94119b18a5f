#include "runtime/object/patience.hpp"

#include <algorithm>
#include <thread>

namespace troupe::runtime {

void patience::end_by(const cancel_token& ending, std::chrono::milliseconds grace) {
  const std::lock_guard lock(mutex_);
  ending_ = ending;
  grace_ = grace;
  since_.reset();
}

bool patience::is_over() {
  const std::lock_guard lock(mutex_);
  if (!ending_.is_cancelled())
    return false;
  // Waiters call this each second, so this is about the time of the cancellation.
  const auto now = std::chrono::steady_clock::now();
  if (!since_)
    since_ = now;
  return now - *since_ >= grace_;
}

std::chrono::milliseconds patience::grace() const {
  const std::lock_guard lock(mutex_);
  return grace_;
}

bool patience::sleep_for(std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds longest{100};
  for (; !is_over(); time -= std::min(time, longest)) {
    if (time.count() <= 0)
      return true;
    std::this_thread::sleep_for(std::min(time, longest));
  }
  return false;
}

}  // namespace troupe::runtime
