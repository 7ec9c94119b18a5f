// A stream: where one lane's operations run, in order.

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

class operation_profile;
class operation_timer;

/// Owned by one thread. On the CPU an operation has finished when `run` returns; on a device it has
/// been enqueued, and a host that reads results goes through `read` or waits. With a shadow
/// pool nothing is computed; only the scratch of operations is counted.
class stream {
 public:
  /// On the cuda backend a queue is made on the device, and the pool serves it. Throws
  /// backend_missing.
  stream(kernels::backend where, int threads, memory_pool pool, int device = 0);
  ~stream();
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  /// Any operation of kernels/op/registry.hpp; who makes one includes the header of its family.
  void run(const kernels::operation& op);

  /// Work of a user's own on elements, on this thread: no kernel of ours has it. Nothing with a
  /// shadow pool, whose elements mean nothing. Throws input_error on a device, whose memory the
  /// host cannot read.
  template <std::invocable Work>
  void run(const Work& work) {
    require_host("work of a model's own");
    if (!pool_.is_shadow())
      work();
  }

  /// From now on operations are timed. What they took in training steps, but for the first few, is
  /// told to the profile when the stream ends.
  void time_operations(std::shared_ptr<operation_profile> to);
  void begin_step(bool training);

  memory_block allocate(std::size_t bytes) { return pool_.allocate(bytes); }
  /// Memory that is filled once, by `make` from the host, and kept under its name for those who ask
  /// on this stream again: what is the same in every step. The last few names; not with a shadow,
  /// where nothing is filled.
  memory_block constant(const std::string& name,
                        std::size_t bytes,
                        const std::function<void(std::byte*)>& make);
  const memory_pool& pool() const { return pool_; }
  kernels::backend where() const { return where_; }
  int threads() const { return threads_; }
  /// Null on the CPU and in a shadow.
  const std::shared_ptr<device_queue>& queue() const { return queue_; }

  // Bytes, in the order of the stream. Both ends in memory that it computes on.
  void copy(void* to, const void* from, std::size_t bytes);
  void clear(void* at, std::size_t bytes) { pool_.clear(static_cast<std::byte*>(at), bytes); }

  // Between the host and what it computes on: see memory_pool.
  void write(void* to, const void* from, std::size_t bytes) { pool_.write(to, from, bytes); }
  void read(void* to, const void* from, std::size_t bytes) const { pool_.read(to, from, bytes); }

  /// A point that other streams can wait for; null on the CPU, where all has been done.
  std::shared_ptr<device_event> mark() { return queue_ ? queue_->mark() : nullptr; }
  /// What is run from now on comes after the point. Nobody sleeps.
  void wait_for(const std::shared_ptr<device_event>& point);

  /// Now, as the operations see it; `ns_of` says when that was on the clock of now_ns(), as soon as
  /// the stream has finished what came before.
  moment now();
  std::int64_t ns_of(const moment& x) const;
  bool has_passed(const moment& x) const;

  /// The thread that calls it uses the stream from now on.
  void attend();
  /// Everything has been carried out; the caller sleeps until then.
  void finish();
  /// Throws device_failure when the device has failed; does not wait.
  void check();

  /// Throws input_error on a device: `what` is only computed on the host.
  void require_host(const char* what) const;

 private:
  /// What operations that need scratch share, at least so large.
  std::span<std::byte> scratch(std::size_t bytes);

  kernels::backend where_;
  int threads_;
  std::unique_ptr<operation_timer> timer_;
  memory_pool pool_;
  memory_block scratch_;
  std::map<std::string, memory_block> constants_;
  std::size_t scratch_size_ = 0;
  std::shared_ptr<device_queue> queue_;
  void* native_queue_ = nullptr;
  mutable std::shared_ptr<device_event> anchor_;  ///< of the queue, timed: what times are told from
  mutable std::int64_t anchor_ns_ = 0;
};

}  // namespace troupe::runtime
