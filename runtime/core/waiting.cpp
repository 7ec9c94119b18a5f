#include "runtime/core/waiting.hpp"

#include <thread>

namespace troupe::runtime {
namespace {

// As little a shared state as the identity of the thread itself.
thread_local running_fiber* running = nullptr;

}  // namespace

running_fiber* running_fiber::current() {
  return running;
}

running_fiber* running_fiber::exchange(running_fiber* next) {
  return std::exchange(running, next);
}

void sleep_for(std::chrono::nanoseconds time) {
  if (auto* const fiber = running_fiber::current())
    fiber->sleep(std::uint64_t(time.count()));
  else
    std::this_thread::sleep_for(time);
}

}  // namespace troupe::runtime
