#include "runtime/device/lane.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/core/waiting.hpp"
#include "runtime/device/fibers.hpp"

#include <deque>
#include <mutex>
#include <utility>

namespace troupe::runtime {
namespace {

/// Runs work items on a stream; common to all kinds of lanes.
class performer {
 public:
  explicit performer(lane_settings settings)
      : settings_(std::move(settings)),
        stream_(settings_.where, settings_.threads, settings_.pool, settings_.device) {}

  /// Called on the thread that calls `perform`.
  void attend() { stream_.attend(); }

  void perform(const lane::work& what, const lane::completion& done) {
    std::exception_ptr failure;
    try {
      if (failed_)
        throw cancelled();
      if (settings_.before_each)
        settings_.before_each();
      what(stream_);
      stream_.check();
    } catch (...) {
      failure = std::current_exception();
      failed_ = true;
    }
    done(failure);
  }

  /// Call it once, after the last `perform`.
  void end() {
    if (const auto what = std::exchange(settings_.at_end, {}))
      what(stream_);
  }

  const std::string& name() const { return settings_.name; }

 private:
  lane_settings settings_;
  stream stream_;
  bool failed_ = false;
};

/// A queue of work and the loop that runs it, on a thread or a fiber.
class queue_of_work {
 public:
  explicit queue_of_work(lane_settings settings) : performer_(std::move(settings)) {}

  void submit(lane::work what, lane::completion done) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_)
        return;
      queue_.emplace_back(std::move(what), std::move(done));
    }
    changed_.notify_one();
  }

  void close() {
    std::deque<std::pair<lane::work, lane::completion>> dropped;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      dropped.swap(queue_);  // destroyed outside the lock: destructors may run arbitrary code
    }
    changed_.notify_one();
  }

  void loop() {
    performer_.attend();
    for (;;) {
      std::pair<lane::work, lane::completion> next;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
        if (closed_)
          break;
        next = std::move(queue_.front());
        queue_.pop_front();
      }
      performer_.perform(next.first, next.second);
    }
    performer_.end();
  }

  void end() { performer_.end(); }
  const std::string& name() const { return performer_.name(); }

 private:
  performer performer_;
  std::mutex mutex_;
  wait_condition changed_;
  std::deque<std::pair<lane::work, lane::completion>> queue_;
  bool closed_ = false;
};

class thread_lane final : public lane {
 public:
  explicit thread_lane(lane_settings settings)
      : queue_(std::move(settings)),
        thread_(start_thread(queue_.name(), [this] { queue_.loop(); })) {}

  ~thread_lane() override { join(); }

  void submit(work what, completion done) override {
    queue_.submit(std::move(what), std::move(done));
  }
  void close() override { queue_.close(); }
  void join() override {
    close();
    if (thread_.joinable())
      thread_.join();
  }

 private:
  queue_of_work queue_;
  std::jthread thread_;  // last member: it uses those above
};

class fiber_lane final : public lane {
 public:
  fiber_lane(lane_settings settings, std::shared_ptr<fiber_pool> pool)
      : queue_(std::make_shared<queue_of_work>(std::move(settings))), pool_(std::move(pool)) {
    fiber_ = pool_->start(queue_->name(), [queue = queue_] {
      try {
        queue->loop();
      } catch (const cancelled&) {
        queue->end();  // abandoned while it waited for work
      }
    });
  }

  ~fiber_lane() override { join(); }

  void submit(work what, completion done) override {
    queue_->submit(std::move(what), std::move(done));
  }
  void close() override { queue_->close(); }
  void join() override {
    close();
    pool_->join(fiber_);
  }

 private:
  std::shared_ptr<queue_of_work> queue_;
  std::shared_ptr<fiber_pool> pool_;
  fiber_pool::number fiber_ = 0;
};

class inline_lane final : public lane {
 public:
  explicit inline_lane(lane_settings settings) : performer_(std::move(settings)) {}

  void submit(work what, completion done) override {
    if (closed_)
      return;
    queue_.emplace_back(std::move(what), std::move(done));
    if (std::exchange(busy_, true))
      return;  // called from running work: the outer call runs it next
    while (!queue_.empty()) {
      const auto next = std::move(queue_.front());
      queue_.pop_front();
      performer_.perform(next.first, next.second);
    }
    busy_ = false;
    if (closed_)
      performer_.end();
  }

  ~inline_lane() override { close(); }
  void join() override { close(); }

  void close() override {
    closed_ = true;
    const auto dropped = std::exchange(queue_, {});
    if (!busy_)
      performer_.end();
  }

 private:
  performer performer_;
  std::deque<std::pair<work, completion>> queue_;
  bool busy_ = false;
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<lane> make_thread_lane(lane_settings settings) {
  return std::make_unique<thread_lane>(std::move(settings));
}

std::unique_ptr<lane> make_fiber_lane(lane_settings settings, std::shared_ptr<fiber_pool> pool) {
  return std::make_unique<fiber_lane>(std::move(settings), std::move(pool));
}

std::unique_ptr<lane> make_inline_lane(lane_settings settings) {
  return std::make_unique<inline_lane>(std::move(settings));
}

}  // namespace troupe::runtime
