// Streams and their order. Each stream has its own thread, which carries out the enqueued items one
// by one, some time later.

#pragma once

#include "tests/emulator/device.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace troupe::emulator {

/// A point in a stream, reached when all earlier items are done. Callable from any thread.
class mark {
 public:
  using clock = std::chrono::steady_clock;

  void reach();
  void wait();
  bool reached();
  clock::time_point when();  ///< the mark must have been reached

 private:
  std::mutex mutex_;
  std::condition_variable reached_;
  bool is_ = false;
  clock::time_point when_;
};

using mark_pointer = std::shared_ptr<mark>;

/// The kind of a stream's item.
enum class item_kind {
  work,    ///< runs with device memory open; skipped on a broken device
  host,    ///< a host function; skipped on a broken device
  waiting  ///< only waits or marks; runs without a delay, also on a broken device
};

class stream_queue : public std::enable_shared_from_this<stream_queue> {
 public:
  stream_queue(int device, unsigned flags, int priority);

  /// Enqueues an item and returns its mark.
  mark_pointer push(item_kind kind, std::function<void()> item);

  void synchronize();
  bool idle();
  /// Carries out the remaining items; then its thread ends.
  void close();

  const int device;
  const unsigned flags;
  const int priority;

 private:
  struct item {
    item_kind kind;
    std::function<void()> work;
    mark_pointer done;
  };

  mark_pointer push_alone(item_kind kind, std::function<void()> work);
  void carry_out();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<item> items_;
  mark_pointer last_;
  bool closed_ = false;
  bool begun_ = false;
};

/// Null for an unknown handle; the null stream of the current device for a null handle.
std::shared_ptr<stream_queue> find_stream(cudaStream_t handle);

/// Waits for all streams of a device.
void synchronize_device(int device);

/// Enqueues `work` on the stream; `call` is the name of the runtime function.
cudaError_t enqueue(const char* call,
                    cudaStream_t stream,
                    item_kind kind,
                    std::function<void()> work);

}  // namespace troupe::emulator
