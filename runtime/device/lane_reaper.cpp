#include "runtime/device/lane_reaper.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/thread.hpp"

#include <utility>

namespace troupe::runtime {

// Detached: a lane that hangs must not block the end of the process.
lane_reaper::lane_reaper()
    : lane_reaper([](const char* name, std::function<void()> what) {
        start_thread(name, std::move(what)).detach();
      }) {}

void lane_reaper::take(std::vector<std::unique_ptr<lane>> lanes,
                       std::function<void()> ended,
                       std::shared_ptr<void> held,
                       bool threads) {
  for (const auto& x : lanes)
    x->close();
  {
    const std::lock_guard lock(count_->mutex);
    ++count_->pending;
  }
  struct load {
    std::vector<std::unique_ptr<lane>> lanes;
    std::function<void()> ended;
    std::shared_ptr<void> held;
  };
  // Shared, so that it also exists if no thread can be started.
  const auto all
      = std::make_shared<load>(load{std::move(lanes), std::move(ended), std::move(held)});
  const auto reap = [all, count = count_] {
    for (const auto& x : all->lanes)
      x->join();
    all->ended();
    all->ended = {};
    for (auto& x : all->lanes)
      x.reset();
    all->held.reset();
    {
      const std::lock_guard lock(count->mutex);
      --count->pending;
    }
    count->changed.notify_all();
  };
  if (!threads)
    return reap();
  try {
    begin_("reaper", reap);
  } catch (const io_error&) {
    reap();
  }
}

bool lane_reaper::is_idle() const {
  const std::lock_guard lock(count_->mutex);
  return count_->pending == 0;
}

void lane_reaper::wait() const {
  std::unique_lock lock(count_->mutex);
  count_->changed.wait(lock, [this] { return count_->pending == 0; });
}

bool lane_reaper::wait(std::chrono::milliseconds patience) const {
  std::unique_lock lock(count_->mutex);
  return count_->changed.wait_for(lock, patience, [this] { return count_->pending == 0; });
}

}  // namespace troupe::runtime
