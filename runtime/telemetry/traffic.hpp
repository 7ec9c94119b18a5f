// Messages with tensors between the members of a run, counted by each process.

#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace troupe::runtime {

struct traffic_count {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;  ///< of the tensors that their tickets name
};

/// By peer, since the process began. Any thread.
class traffic_counters {
 public:
  void sent(const std::string& to, std::uint64_t bytes) { add(sent_, to, bytes); }
  void received(const std::string& from, std::uint64_t bytes) { add(received_, from, bytes); }

  struct counts {
    std::map<std::string, traffic_count> sent, received;
  };
  counts all() const {
    const std::lock_guard lock(mutex_);
    return {sent_, received_};
  }

 private:
  void add(std::map<std::string, traffic_count>& to, const std::string& peer, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto& x = to[peer];
    ++x.messages;
    x.bytes += bytes;
  }

  mutable std::mutex mutex_;
  std::map<std::string, traffic_count> sent_, received_;
};

}  // namespace troupe::runtime
