// Streams and what orders them. Each stream has a thread of its own that carries out its items one
// after the other, some time after they were enqueued.

#pragma once

#include "tests/emulator/device.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace troupe::emulator {

/// A point in a stream: reached once all before it has been carried out. From any thread.
class mark {
 public:
  using clock = std::chrono::steady_clock;

  void reach();
  void wait();
  bool reached();
  clock::time_point when();  ///< of a mark that was reached

 private:
  std::mutex mutex_;
  std::condition_variable reached_;
  bool is_ = false;
  clock::time_point when_;
};

using mark_pointer = std::shared_ptr<mark>;

/// What a stream does with an item.
enum class item_kind {
  work,    ///< carried out with device memory open; left out once the device is broken
  host,    ///< a function of the host; left out once the device is broken
  waiting  ///< carried out whatever happens, after no delay: it only waits or marks
};

class stream_queue : public std::enable_shared_from_this<stream_queue> {
 public:
  stream_queue(int device, unsigned flags, int priority);

  /// The item's mark.
  mark_pointer push(item_kind kind, std::function<void()> item);

  void synchronize();
  bool idle();
  /// What is in it is still carried out; then its thread ends.
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

/// Null where the handle is no stream; the null stream of the current device for a null handle.
std::shared_ptr<stream_queue> find_stream(cudaStream_t handle);

/// Waits for everything that was enqueued for a device.
void synchronize_device(int device);

/// `work` for the stream, in its order; `call` is the name of the runtime's function that asks.
cudaError_t enqueue(const char* call,
                    cudaStream_t stream,
                    item_kind kind,
                    std::function<void()> work);

}  // namespace troupe::emulator
