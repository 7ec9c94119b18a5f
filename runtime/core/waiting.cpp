#include "runtime/core/waiting.hpp"

#include "runtime/core/lane_clock.hpp"

#include <thread>

namespace troupe::runtime {
namespace {

// Thread-local, so not shared between threads.
thread_local running_fiber* running = nullptr;
thread_local watched_thread* watch = nullptr;

}  // namespace

std::uint64_t lane_clock_ns() {
  if (running)
    return running->now_ns();
  return std::uint64_t(std::chrono::steady_clock::now().time_since_epoch()
                       / std::chrono::nanoseconds(1));
}

running_fiber* running_fiber::current() {
  return running;
}

running_fiber* running_fiber::exchange(running_fiber* next) {
  return std::exchange(running, next);
}

watched_thread* watch_of_thread(watched_thread* next) {
  return std::exchange(watch, next);
}

void mark_progress() {
  if (watch)
    watch->advance();
}

void follow_work(std::weak_ptr<work_elsewhere> x) {
  if (watch)
    watch->follow(std::move(x));
}

void watched_thread::begin(std::uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  now_ = {.since_ns = now_ns};
}

void watched_thread::begin_wait(wait_reason why) {
  const std::lock_guard lock(mutex_);
  now_ = {true, lane_clock_ns(), std::move(why)};
}

void watched_thread::end_wait() {
  const std::lock_guard lock(mutex_);
  now_ = {.since_ns = lane_clock_ns()};
}

void watched_thread::advance() {
  const std::lock_guard lock(mutex_);
  if (!now_.waits)
    now_.since_ns = lane_clock_ns();
}

void watched_thread::follow(std::weak_ptr<work_elsewhere> x) {
  const std::lock_guard lock(mutex_);
  elsewhere_ = std::move(x);
}

watched_thread::seen watched_thread::look() const {
  const std::lock_guard lock(mutex_);
  if (const auto work = elsewhere_.lock(); work && work->has_advanced())
    now_.since_ns = lane_clock_ns();
  return now_;
}

flagged_wait::flagged_wait(wait_reason why) : watch_(watch) {
  if (watch_)
    watch_->begin_wait(std::move(why));
}

flagged_wait::~flagged_wait() {
  if (watch_)
    watch_->end_wait();
}

void sleep_for(std::chrono::nanoseconds time) {
  if (auto* const fiber = running_fiber::current())
    fiber->sleep(std::uint64_t(time.count()));
  else
    std::this_thread::sleep_for(time);
}

}  // namespace troupe::runtime
