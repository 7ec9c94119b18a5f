// Devices: accelerators with their own memory and with queues that run in parallel to the host.
//
// This is the interface between libtroupe_cuda.so and the runtime (kernels/backend/plugin.hpp). The
// plug-in exports `troupe_device_driver`. This header does not include CUDA.

#pragma once

#include "kernels/backend/device_failure.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe::runtime {

using device_failure = kernels::device_failure;

struct device_facts {
  int number = 0;
  std::string name;          ///< "NVIDIA H200"
  int major = 0, minor = 0;  ///< compute capability
  std::int64_t memory = 0;   ///< total, in bytes
  int multiprocessors = 0;
  std::string obstacle;  ///< see device_driver::obstacle
  /// Compute capability that the loaded code was compiled for: "9.0". Empty if unknown.
  std::string code = {};
  bool compiles = false;  ///< the loaded code is PTX: the driver compiles it at first use
  /// Identifies the device on its host; unlike `number`, equal in all processes.
  std::string id = {};
  std::vector<int> hidden = {};  ///< devices whose memory it cannot access (no peer access)
};

struct driver_facts {
  std::string driver;   ///< the newest CUDA version that the driver supports: "13.0"
  std::string runtime;  ///< the CUDA version that the plug-in was built with
};

/// A point in a queue, like a CUDA event. Any thread may use it.
class device_event {
 public:
  virtual ~device_event() = default;
  virtual bool passed() const = 0;
  /// Sleeps until the queue has passed the event. Throws device_failure if the device has failed.
  virtual void wait() const = 0;
  /// Milliseconds since `earlier`. Both events must be timed and must have passed.
  virtual double ms_after(const device_event& earlier) const = 0;
};

/// An in-order work queue of a device: a CUDA stream. One thread at a time enqueues work, after a
/// call of `attend`; any thread may call `mark`. Failures throw device_failure.
class device_queue {
 public:
  virtual ~device_queue() = default;

  virtual int device() const = 0;
  virtual void* native() const = 0;  ///< the value of context.queue

  /// Binds the calling thread to the queue's device. Call it before enqueueing from a new thread.
  virtual void attend() = 0;

  /// Copies in any direction between host and device memory. Pageable host memory has been read
  /// when the call returns. Pinned memory must stay valid until the copy has run.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void clear(void* at, std::size_t bytes) = 0;

  virtual std::shared_ptr<device_event> mark(bool timed = false) = 0;
  /// Work enqueued later waits for the event on the device; the host does not block.
  virtual void wait_for(const device_event& event) = 0;

  /// Sleeps until all enqueued work has finished.
  virtual void finish() = 0;
  /// Throws device_failure if the device has failed; does not block.
  virtual void check() = 0;
};

/// Access to all devices of the machine. Any thread may use it. Every call except the facts, the
/// count and the obstacle creates a CUDA context, which takes some hundred megabytes of device
/// memory.
class device_driver {
 public:
  virtual ~device_driver() = default;

  virtual driver_facts facts() const = 0;
  virtual int count() const = 0;
  virtual device_facts facts(int device) const = 0;
  /// Why this build cannot compute on the device, as a predicate: "is of compute capability 7.5,
  /// and ...". Empty if it can. Creates no context.
  virtual std::string obstacle(int device) const = 0;
  /// Free bytes of the device over all processes; 0 if unknown.
  virtual std::int64_t free_memory(int device) const = 0;

  virtual std::shared_ptr<device_queue> make_queue(int device) = 0;

  /// Enables peer access: kernels of `device` may read memory of `other`. False if the hardware
  /// cannot. Copies between devices work without it.
  virtual bool let_read(int device, int other) = 0;

  /// Returns null if the device is out of memory. Aligned to 256 bytes.
  virtual std::byte* allocate(int device, std::size_t bytes) = 0;
  virtual void release(int device, std::byte* at) noexcept = 0;
  /// Pinned host memory, accessible from every device. `device` is the one in use by the caller.
  /// Returns null if the system refuses.
  virtual std::byte* allocate_pinned(int device, std::size_t bytes) = 0;
  virtual void release_pinned(int device, std::byte* at) noexcept = 0;
};

/// Opens the driver on the first call. Throws backend_missing with the reason (backend.hpp).
device_driver& open_devices();

/// Throws backend_missing if the device does not exist or cannot compute; the message says why.
void require_device(int number);

}  // namespace troupe::runtime
