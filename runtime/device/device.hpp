// Devices: memory of their own, and queues that work on it beside the host.
//
// The interface of libtroupe_cuda.so to this room (kernels/backend/plugin.hpp); it exports
// `troupe_device_driver`. Nothing here includes CUDA.

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
  std::int64_t memory = 0;   ///< bytes in all
  int multiprocessors = 0;
  std::string obstacle;  ///< see device_driver::obstacle
  /// The capability that the code which it runs was made for: "9.0"; empty: not known.
  std::string code = {};
  bool compiles = false;  ///< that code is PTX, which the driver compiles at the first use
};

struct driver_facts {
  std::string driver;   ///< the newest CUDA that the driver serves: "13.0"
  std::string runtime;  ///< the CUDA that the plug-in was built with
};

/// A point in a queue. Any thread.
class device_event {
 public:
  virtual ~device_event() = default;
  virtual bool passed() const = 0;
  /// The caller sleeps until it has passed. Throws device_failure when the device has failed.
  virtual void wait() const = 0;
  /// Milliseconds from an earlier event; both were marked as timed and have passed.
  virtual double ms_after(const device_event& earlier) const = 0;
};

/// Work for a device, carried out in order: a CUDA stream. What is enqueued comes from one thread
/// at a time, which has called `attend`; marks may come from any. Failures throw device_failure.
class device_queue {
 public:
  virtual ~device_queue() = default;

  virtual int device() const = 0;
  virtual void* native() const = 0;  ///< what context.queue takes

  /// The calling thread works on this queue's device from now on.
  virtual void attend() = 0;

  /// In any direction between host and device memory. Pageable host memory has been read when it
  /// returns; pinned memory must stay until the copy has been carried out.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void clear(void* at, std::size_t bytes) = 0;

  virtual std::shared_ptr<device_event> mark(bool timed = false) = 0;
  /// What is enqueued from now on waits for the event: on the device, nobody sleeps.
  virtual void wait_for(const device_event& event) = 0;

  /// The caller sleeps until everything has been carried out.
  virtual void finish() = 0;
  /// Throws when the device has failed; does not wait.
  virtual void check() = 0;
};

/// Any thread. What a process does with a device takes some hundred megabytes of it: here that is
/// everything but the facts and the count.
class device_driver {
 public:
  virtual ~device_driver() = default;

  virtual driver_facts facts() const = 0;
  virtual int count() const = 0;
  virtual device_facts facts(int device) const = 0;
  /// Why nothing can be computed on a device, a sentence without its subject: "is of compute
  /// capability 7.5, and ..."; empty: it can. Makes no context.
  virtual std::string obstacle(int device) const = 0;
  /// Bytes that no process has; 0: not known.
  virtual std::int64_t free_memory(int device) const = 0;

  virtual std::shared_ptr<device_queue> make_queue(int device) = 0;

  /// Kernels of a device may read another's memory from now on; false: they cannot. Copies between
  /// devices need no leave.
  virtual bool let_read(int device, int other) = 0;

  /// Null when there is not so much. Aligned to 256 bytes.
  virtual std::byte* allocate(int device, std::size_t bytes) = 0;
  virtual void release(int device, std::byte* at) noexcept = 0;
  /// Host memory that devices read and write by themselves: any of them, asked for by the user of
  /// one. Null when there is not so much.
  virtual std::byte* allocate_pinned(int device, std::size_t bytes) = 0;
  virtual void release_pinned(int device, std::byte* at) noexcept = 0;
};

/// The driver, opened on the first call. Throws backend_missing with the reason (backend.hpp).
device_driver& open_devices();

/// Throws backend_missing: there is no device of that number, and which there are; or nothing can
/// be computed on it, and why.
void require_device(int number);

}  // namespace troupe::runtime
