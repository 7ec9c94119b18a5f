#include "runtime/telemetry/recorder.hpp"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr auto patience_at_the_end = std::chrono::milliseconds(500);

}  // namespace

struct recorder::desk {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<watched> queue;
  std::size_t capacity = 0;
  std::uint64_t dropped = 0;
  bool closing = false;  // nothing more comes
  bool done = false;     // the thread has nothing more to write
  std::exception_ptr failure;
};

recorder::recorder(opener open, std::size_t capacity) : desk_(std::make_shared<desk>()) {
  desk_->capacity = capacity;
  thread_ = std::thread([at = desk_, how = std::move(open)] { work(at, how); });
}

recorder::~recorder() {
  if (finish(patience_at_the_end))
    thread_.join();
  else
    thread_.detach();
}

void recorder::work(const std::shared_ptr<desk>& at, const opener& open) {
  std::exception_ptr failure;
  try {
    const auto sink = open();
    std::unique_lock lock(at->mutex);
    while (true) {
      at->changed.wait(lock, [&] { return !at->queue.empty() || at->closing; });
      if (at->queue.empty())
        break;
      const auto next = std::move(at->queue.front());
      at->queue.pop_front();
      lock.unlock();
      std::visit([&](const auto& x) { sink->write(x); }, next);
      lock.lock();
    }
    lock.unlock();
    sink->finish();
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(at->mutex);
  at->failure = failure;
  at->done = true;
  at->queue.clear();
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

void recorder::check() const {
  const std::lock_guard lock(desk_->mutex);
  if (desk_->failure)
    std::rethrow_exception(desk_->failure);
}

void recorder::close() {
  const std::lock_guard lock(desk_->mutex);
  desk_->closing = true;
  desk_->changed.notify_all();
}

bool recorder::finish(std::chrono::milliseconds patience) {
  close();
  std::unique_lock lock(desk_->mutex);
  return desk_->changed.wait_for(lock, patience, [this] { return desk_->done; });
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
