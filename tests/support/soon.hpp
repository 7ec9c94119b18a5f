// Waits for effects of other threads.

#pragma once

#include <chrono>
#include <thread>

namespace troupe::tests {

/// Waits until the condition is true. False after a timeout that only a hang reaches.
template <class Condition>
bool soon(Condition&& is_true, std::chrono::seconds bound = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + bound;
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > end)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace troupe::tests
