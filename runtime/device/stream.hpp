// A stream: runs the operations of one lane in order.

#pragma once

#include "kernels/backend/backend.hpp"
#include "runtime/device/device.hpp"
#include "runtime/device/memory_pool.hpp"
#include "runtime/device/moment.hpp"

#include <concepts>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::runtime {

class awaited;
class operation_profile;
class operation_timer;
class queue_points;

/// Owned by one thread. On the CPU an operation has finished when `run` returns. On a device it has
/// been enqueued: the host uses `read` or waits before it reads results. With a shadow pool nothing
/// is computed; only scratch memory is counted.
class stream {
 public:
  /// On the cuda backend it creates a device queue, which the pool then serves. Throws
  /// backend_missing.
  stream(kernels::backend where, int threads, memory_pool pool, int device = 0);
  ~stream();
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  /// Runs an operation of kernels/op/registry.hpp; the caller includes the header of its family.
  void run(const kernels::operation& op);

  /// Runs a user's own host code over tensor elements on this thread. Does nothing with a shadow
  /// pool. Throws input_error on a device: the host cannot read its memory.
  template <std::invocable Work>
  void run(const Work& work) {
    require_host("user code on tensor elements");
    if (!pool_.is_shadow())
      work();
  }

  /// Times operations from now on. The destructor adds the times of all training steps to the
  /// profile, without the first few.
  void time_operations(std::shared_ptr<operation_profile> to);
  void begin_step(bool training);

  memory_block allocate(std::size_t bytes) { return pool_.allocate(bytes); }
  /// Memory that `make` fills on the host once and that is cached under `name`: for data that is
  /// the same in every step. Keeps only the last few names. With a shadow pool nothing is filled.
  memory_block constant(const std::string& name,
                        std::size_t bytes,
                        const std::function<void(std::byte*)>& make);
  const memory_pool& pool() const { return pool_; }
  kernels::backend where() const { return where_; }
  int threads() const { return threads_; }
  /// With true, later forward passes on the CPU give a row the same bits in any batch. Operations
  /// have a member of this name.
  void set_row_invariant(bool x) { row_invariant_ = x; }
  bool row_invariant() const { return row_invariant_; }
  /// Null on the CPU and with a shadow pool.
  const std::shared_ptr<device_queue>& queue() const { return queue_; }

  // In stream order; both pointers are memory that the stream computes on.
  void copy(void* to, const void* from, std::size_t bytes);
  void clear(void* at, std::size_t bytes) { pool_.clear(static_cast<std::byte*>(at), bytes); }

  // Between the host and memory that the stream computes on: see memory_pool.
  void write(void* to, const void* from, std::size_t bytes) { pool_.write(to, from, bytes); }
  void read(void* to, const void* from, std::size_t bytes) const;

  /// An event that other streams can wait for; null on the CPU, where all work has finished.
  std::shared_ptr<device_event> mark() { return queue_ ? queue_->mark() : nullptr; }
  /// Later work waits for the event. The host blocks only on the CPU backend.
  void wait_for(const std::shared_ptr<device_event>& point);

  /// The current time in stream order. `ns_of` converts it to the clock of now_ns() once the stream
  /// has passed it.
  moment now();
  std::int64_t ns_of(const moment& x) const;
  bool has_passed(const moment& x) const;

  /// Binds the calling thread to the stream.
  void attend();
  /// Sleeps until all work has finished.
  void finish();
  /// The failure detector sees progress of this thread when the device has done the work until
  /// here.
  void show_progress();
  /// From now on, waits of the host for this stream count as waits for the ranks that `x` names: a
  /// device works with them. `number`: wait_reason::number.
  void depends_on(std::weak_ptr<const awaited> x, std::uint64_t number);
  /// Throws device_failure if the device has failed; does not block.
  void check();

  /// Throws input_error on a device: `what` runs only on the host.
  void require_host(const char* what) const;

 private:
  /// Shared scratch memory of the operations, at least `bytes` large.
  std::span<std::byte> scratch(std::size_t bytes);
  template <class Wait>
  void wait_by(Wait wait) const;

  kernels::backend where_;
  int threads_;
  bool row_invariant_ = false;
  std::unique_ptr<operation_timer> timer_;
  memory_pool pool_;
  memory_block scratch_;
  std::map<std::string, memory_block> constants_;
  std::size_t scratch_size_ = 0;
  std::shared_ptr<device_queue> queue_;
  void* native_queue_ = nullptr;
  mutable std::shared_ptr<device_event>
      anchor_;  ///< a timed event of the queue: reference for ns_of
  mutable std::int64_t anchor_ns_ = 0;
  std::shared_ptr<queue_points> points_;
  std::weak_ptr<const awaited> others_;
  std::uint64_t number_ = 0;  ///< among the others
};

}  // namespace troupe::runtime
