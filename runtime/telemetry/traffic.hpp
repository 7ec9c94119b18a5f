// Counters of the tensor messages between members of a run, and of those that wait at a member.
// Each process counts its own.

#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace troupe::runtime {

/// Messages to or from one peer since the process started.
struct traffic_counter {
  std::atomic<std::uint64_t> messages = 0;
  std::atomic<std::uint64_t> bytes = 0;  ///< of the tensors in the messages

  void add(std::uint64_t size) {
    messages.fetch_add(1, std::memory_order_relaxed);
    bytes.fetch_add(size, std::memory_order_relaxed);
  }
};

/// The counters of a process, by peer. Thread-safe. A member keeps the pointers to its counters, so
/// that counting a message needs no lookup.
class traffic_counters {
 public:
  std::shared_ptr<traffic_counter> sent_to(const std::string& peer) { return in(sent_, peer); }
  std::shared_ptr<traffic_counter> received_from(const std::string& peer) {
    return in(received_, peer);
  }

  /// Messages that have arrived at a member and wait for its next action.
  using queue_length = std::atomic<std::uint64_t>;
  std::shared_ptr<queue_length> queue_of(const std::string& member) { return in(queues_, member); }

  using by_peer = std::map<std::string, std::shared_ptr<traffic_counter>>;
  by_peer sent() const { return copy(sent_); }
  by_peer received() const { return copy(received_); }
  using by_member = std::map<std::string, std::shared_ptr<queue_length>>;
  by_member queues() const { return copy(queues_); }

 private:
  template <class Counter>
  std::shared_ptr<Counter> in(std::map<std::string, std::shared_ptr<Counter>>& all,
                              const std::string& name) {
    const std::lock_guard lock(mutex_);
    auto& found = all[name];
    if (!found)
      found = std::make_shared<Counter>();
    return found;
  }
  template <class All>
  All copy(const All& all) const {
    const std::lock_guard lock(mutex_);
    return all;
  }

  mutable std::mutex mutex_;
  by_peer sent_, received_;
  by_member queues_;
};

}  // namespace troupe::runtime
