// Prefetches chunks of objects.

#pragma once

#include "runtime/object/object_url.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// The object_url as text, and the number of a chunk.
using chunk_name = std::pair<std::string, std::uint64_t>;

/// Tracks at most `most` chunks at a time, from `add` to `remove`; further chunks are left to their
/// read. Thread-safe.
class read_ahead {
 public:
  /// Called by `readers` threads, in the order of `add`. An exception removes the chunk; the read
  /// will report the error.
  using fetching = std::function<void(const object_url&, std::uint64_t chunk)>;
  read_ahead(int readers, std::size_t most, fetching fetch);
  ~read_ahead() { end(); }
  read_ahead(const read_ahead&) = delete;
  read_ahead& operator=(const read_ahead&) = delete;

  /// Blocks until running fetches end, and starts no more.
  void end();

  /// Does nothing for a tracked chunk.
  void add(const object_url& object, std::uint64_t chunk);

  /// Stops tracking a chunk that was read or evicted; a queued chunk is not fetched.
  void remove(const chunk_name& chunk);

 private:
  void work();

  struct wanted {
    object_url object;
    chunk_name name;
  };
  int readers_;
  std::size_t most_;
  fetching fetch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::set<chunk_name> named_;
  std::deque<wanted> waiting_;
  std::vector<std::jthread> threads_;  // last: they use the rest
};

}  // namespace troupe::runtime
