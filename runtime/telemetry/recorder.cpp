#include "runtime/telemetry/recorder.hpp"

#include "runtime/core/thread.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr auto patience_at_the_end = std::chrono::milliseconds(500);
constexpr int longest_pause = 64;

}  // namespace

struct recorder::desk {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<watched> queue;
  std::size_t capacity = 0;
  std::chrono::milliseconds pause = {};
  std::uint64_t dropped = 0;
  bool closing = false;  // no more records
  bool done = false;     // the thread has finished
  bool failing = false;  // the last call failed
  std::optional<std::string> trouble;
};

recorder::recorder(opener open, std::size_t capacity, std::chrono::milliseconds pause)
    : desk_(std::make_shared<desk>()) {
  desk_->capacity = capacity;
  desk_->pause = pause;
  thread_ = start_thread("recorder", [at = desk_, opens = std::move(open)] { work(at, opens); });
}

recorder::~recorder() {
  finish(patience_at_the_end);
  const auto done = [this] {
    const std::lock_guard lock(desk_->mutex);
    return desk_->done;
  }();
  if (done)
    thread_.join();
  else
    thread_.detach();
}

namespace {

/// Empty on success, otherwise the error message.
std::optional<std::string> refusal_of(const std::function<void()>& call) {
  try {
    call();
    return std::nullopt;
  } catch (const std::exception& failure) {
    return failure.what();
  }
}

}  // namespace

void recorder::work(const std::shared_ptr<desk>& at, const opener& open) {
  std::unique_ptr<record_sink> sink;
  std::optional<watched> next;
  auto pause = at->pause;
  std::unique_lock lock(at->mutex);
  while (true) {
    if (sink)
      at->changed.wait(lock, [&] { return next || !at->queue.empty() || at->closing; });
    if (!next && !at->queue.empty()) {
      next = std::move(at->queue.front());
      at->queue.pop_front();
    }
    if (sink && !next)
      break;  // it closes, and all is written
    lock.unlock();
    const bool opens = !sink;
    const auto refusal = refusal_of([&] {
      if (opens)
        sink = open();
      else
        std::visit([&](const auto& x) { sink->write(x); }, *next);
    });
    lock.lock();
    if (!refusal) {
      at->failing = false;
      pause = at->pause;
      if (!opens)
        next.reset();
      continue;
    }
    if (!at->failing)
      at->trouble = refusal;
    at->failing = true;
    if (at->closing)
      break;
    at->changed.wait_for(lock, pause, [&] { return at->closing; });
    pause = std::min(2 * pause, longest_pause * at->pause);
  }
  if (next)
    at->queue.push_front(*std::move(next));
  at->done = true;
  at->changed.notify_all();
}

void recorder::record(watched x) {
  const std::lock_guard lock(desk_->mutex);
  if (desk_->done)
    return;
  if (desk_->queue.size() >= desk_->capacity) {
    desk_->queue.pop_front();
    ++desk_->dropped;
  }
  desk_->queue.push_back(std::move(x));
  desk_->changed.notify_all();
}

std::optional<std::string> recorder::trouble() {
  const std::lock_guard lock(desk_->mutex);
  return std::exchange(desk_->trouble, std::nullopt);
}

void recorder::close() {
  const std::lock_guard lock(desk_->mutex);
  desk_->closing = true;
  desk_->changed.notify_all();
}

bool recorder::finish(std::chrono::milliseconds patience) {
  close();
  std::unique_lock lock(desk_->mutex);
  return desk_->changed.wait_for(lock, patience, [this] { return desk_->done; }) && !desk_->failing;
}

std::uint64_t recorder::dropped() const {
  const std::lock_guard lock(desk_->mutex);
  return desk_->dropped;
}

std::size_t recorder::waiting() const {
  const std::lock_guard lock(desk_->mutex);
  return desk_->queue.size();
}

}  // namespace troupe::runtime
