// A lane: the one thread that drives a device stream. Actors submit work and get a completion.

#pragma once

#include "runtime/device/stream.hpp"

#include <exception>
#include <functional>
#include <memory>
#include <string>

namespace troupe::runtime {

/// Runs one work item at a time, in the order of submission. Any thread may submit. `done` is
/// called on the lane right after its work, with null or the exception of the work. On a device
/// that is when the work has been enqueued: results carry the event to wait for (tensor.hpp), and a
/// device failure surfaces in later work, at the latest in a wait. After a failure the lane runs
/// nothing more: later work completes with `cancelled`.
class lane {
 public:
  using work = std::function<void(stream&)>;
  using completion = std::function<void(std::exception_ptr)>;

  virtual ~lane() = default;
  virtual void submit(work what, completion done) = 0;

  /// Drops queued work without calling its completions, and ignores later submissions. Running work
  /// ends by itself: each of its waits takes a cancel token. Returns at once.
  virtual void close() = 0;

  /// Closes, and waits until the running work has ended. The stream lives until the destructor.
  virtual void join() = 0;
};

class fiber_pool;  // in fibers.hpp

struct lane_settings {
  std::string name;  ///< of the thread; debuggers show the first 15 characters
  kernels::backend where = kernels::backend::cpu;
  int threads = 1;
  memory_pool pool;
  int device = 0;                          ///< of the cuda backend
  std::function<void()> before_each = {};  ///< called before each work item; for injected delays
  /// Called on the lane after it is closed and its last work has ended. Must not throw.
  std::function<void(stream&)> at_end = {};
};

/// A lane with its own thread and stream. Its destructor waits for the running work.
std::unique_ptr<lane> make_thread_lane(lane_settings settings);

/// A lane on a fiber of `pool`, for simulations; the pool's owner decides when it runs. Its
/// destructor waits for the running work and lets other fibers run meanwhile. Use it on the pool's
/// thread only.
std::unique_ptr<lane> make_fiber_lane(lane_settings settings, std::shared_ptr<fiber_pool> pool);

/// A lane without a thread, for tests of a single actor. `submit` runs the work at once, or after
/// the current work when that work submits.
std::unique_ptr<lane> make_inline_lane(lane_settings settings);

}  // namespace troupe::runtime
