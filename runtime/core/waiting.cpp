#include "runtime/core/waiting.hpp"

#include <thread>

namespace troupe::runtime {
namespace {

// As little a shared state as the identity of the thread itself.
thread_local running_fiber* running = nullptr;
thread_local wait_flag* flag = nullptr;

}  // namespace

running_fiber* running_fiber::current() {
  return running;
}

running_fiber* running_fiber::exchange(running_fiber* next) {
  return std::exchange(running, next);
}

wait_flag* wait_flag_of_thread(wait_flag* next) {
  return std::exchange(flag, next);
}

flagged_wait::flagged_wait() : flag_(flag) {
  if (flag_)
    *flag_ = true;
}

flagged_wait::~flagged_wait() {
  if (flag_)
    *flag_ = false;
}

void sleep_for(std::chrono::nanoseconds time) {
  if (auto* const fiber = running_fiber::current())
    fiber->sleep(std::uint64_t(time.count()));
  else
    std::this_thread::sleep_for(time);
}

}  // namespace troupe::runtime
