// A lane: the one thread that drives a device stream. Actors hand it work and are told.

#pragma once

#include "runtime/device/stream.hpp"

#include <exception>
#include <functional>
#include <memory>
#include <string>

namespace troupe::runtime {

/// Work is carried out one piece at a time, in the order in which it was submitted. Any thread may
/// submit; `done` is called on the lane, right after its work, with null or what the work threw. On
/// a device that is when it has been enqueued: what it hands to others carries the event to wait
/// for (tensor.hpp), and a failure of the device is told with later work, at the latest when
/// somebody waits. After a failure the lane carries out nothing more: later work is told
/// `cancelled`.
class lane {
 public:
  using work = std::function<void(stream&)>;
  using completion = std::function<void(std::exception_ptr)>;

  virtual ~lane() = default;
  virtual void submit(work what, completion done) = 0;

  /// Drops what has not begun, without calling its completion, and refuses more. What has begun
  /// ends by itself: every wait in it takes a cancel token. Returns at once.
  virtual void close() = 0;

  /// Closes, and waits until what had begun has ended. Its stream is there until the destructor.
  virtual void join() = 0;
};

class fiber_pool;  // fibers.hpp

struct lane_settings {
  std::string name;  ///< of the thread, as a debugger shows it: at most 15 characters are kept
  kernels::backend where = kernels::backend::cpu;
  int threads = 1;
  memory_pool pool;
  int device = 0;                          ///< of the cuda backend
  std::function<void()> before_each = {};  ///< injected delays; called before each work
  /// Called on the lane once it is closed and what had begun has ended. Does not throw.
  std::function<void(stream&)> at_end = {};
};

/// A thread of its own, with its own stream. Its destructor waits for the work that has begun.
std::unique_ptr<lane> make_thread_lane(lane_settings settings);

/// A fiber of this pool, whose owner decides when it goes on: for simulations. Its destructor waits
/// for the work that has begun, as above, and lets other fibers run meanwhile. It is used on the
/// pool's thread alone.
std::unique_ptr<lane> make_fiber_lane(lane_settings settings, std::shared_ptr<fiber_pool> pool);

/// No thread: `submit` does the work at once, or, when work of this lane submits, after that work.
/// For tests that drive one actor alone.
std::unique_ptr<lane> make_inline_lane(lane_settings settings);

}  // namespace troupe::runtime
